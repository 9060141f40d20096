import { randomInt } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import { startPostgres } from "../test/support/postgres-server.ts";
import { startSlowUpstream } from "./crash/upstream.ts";
import { type Nodes, printPhases, startDay } from "./outages/phases.ts";
import { unpackBaseline } from "./outages/previous-version.ts";
import { configure, createPlace, startService } from "./support/service.ts";
import { seededRandom } from "./support/statistics.ts";

// `npm run upgrade-check -- [--seconds 10] [--seed n]`: two versions on one database under load. Exits with 1 if
// anything was lost or any caller got an error, and then names the folder with all that both nodes printed.

const { values: options } = parseArgs({ options: { seconds: { type: "string" }, seed: { type: "string" } } });
const side_by_side_ms = Number(options.seconds ?? 10) * 1_000;
const seed = Number(options.seed ?? randomInt(2 ** 31));
console.error(`seed ${seed}`);

const previous = unpackBaseline();
const server = await startPostgres();
const upstream = await startSlowUpstream();
const place = await createPlace(server);
configure(place, upstream.url);
place.env.PURSER_PAYMENTS = "sandbox";
const nodes: Nodes = new Map();
const outputs = mkdtempSync(join(tmpdir(), "purser-upgrade-check-"));
let has_passed = false;
try {
  nodes.set("one", await startService(place, { main: previous.main, output: join(outputs, "previous.log") }));
  const day = await startDay(nodes, { users: 3, per_user: 2, random: seededRandom(seed) });
  await day.phase(`the previous version (${previous.commit})`, () => day.load.untilAnswered(100));
  await day.phase("the new version starts and migrates", async () => {
    nodes.set("two", await startService(place, { output: join(outputs, "new.log") }));
  });
  await day.phase("both versions", () => setTimeout(side_by_side_ms));
  await day.phase("the previous version stops", async () => {
    const old = nodes.get("one");
    nodes.delete("one");
    await old?.stop();
  });
  await day.finish(place);
  for (const phase of day.phases) {
    const failed = Object.entries(phase.statuses).filter(([status]) => !status.startsWith("2"));
    phase.lost.push(...failed.map(([status, count]) => `${count} callers got ${status}`));
  }
  printPhases(`An upgrade under load, seed ${seed}`, day.phases);
  has_passed = process.exitCode !== 1;
} finally {
  for (const node of nodes.values()) await node.stop();
  await upstream.close();
  await place.drop();
  await server.stop();
  previous.remove();
  if (has_passed) rmSync(outputs, { recursive: true });
  else console.error(`what the nodes printed: ${outputs}`);
}
