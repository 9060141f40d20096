import { randomInt } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import { runSql } from "../test/support/postgres-server.ts";
import { startSlowUpstream } from "./crash/upstream.ts";
import { missingProgram, startCluster } from "./outages/cluster.ts";
import { type Nodes, type Phase, printPhases, startDay } from "./outages/phases.ts";
import { configure, createFolderPlace, startService } from "./support/service.ts";
import { seededRandom } from "./support/statistics.ts";

// `npm run failover -- [--kills 10] [--seed n]`: kills the primary of a PostgreSQL cluster (Patroni, etcd, HAProxy, one
// synchronous standby) under load on two nodes. Exits with 1 if anything that was acknowledged is missing.

const LIFE_MS = { least: 500, most: 4_000 };
/** One kill in this many also kills the machine's Patroni, so that the standby must wait for its lock to expire. */
const MACHINE_EVERY = 5;

const { values: options } = parseArgs({ options: { kills: { type: "string" }, seed: { type: "string" } } });
const kills = Number(options.kills ?? 10);
const seed = Number(options.seed ?? randomInt(2 ** 31));
const missing = missingProgram();
if (missing !== null)
  throw new Error(`${missing} is not installed. Debian: apt-get install patroni etcd-server haproxy postgresql`);
console.error(`seed ${seed}`);

const random = seededRandom(seed);
const cluster = await startCluster();
const upstream = await startSlowUpstream();
await runSql(cluster.url("postgres"), "create database purser");
const place = createFolderPlace(cluster.url("purser"));
configure(place, upstream.url);
place.env.PURSER_PAYMENTS = "sandbox";
const nodes: Nodes = new Map();
let phases: readonly Phase[] = [];
try {
  for (const name of ["one", "two"]) {
    const node = await startService(place);
    nodes.set(name, node);
    void node.exited.then(() => {
      if (!nodes.delete(name)) return;
      console.error(`the node ${name} ended by itself`);
      process.exitCode = 1;
    });
  }
  const day = await startDay(nodes, { users: 3, per_user: 2, random });
  phases = day.phases;
  for (let nth = 1; nth <= kills; nth += 1) {
    const machine = nth % MACHINE_EVERY === 0;
    await day.phase(`kill ${nth}${machine ? ", with its Patroni" : ""}`, async () => {
      await day.load.untilAnswered(10);
      await setTimeout(LIFE_MS.least + random() * (LIFE_MS.most - LIFE_MS.least));
      await cluster.killPrimary({ machine });
      await day.load.untilAnswered(20);
    });
  }
  await cluster.untilSynchronous();
  await day.finish(place);
} catch (error) {
  console.error(cluster.tails());
  throw error;
} finally {
  printPhases(`${kills} failovers under load, seed ${seed}`, phases);
  const longest_s = Math.max(...phases.map(({ longest_gap_ms }) => longest_gap_ms)) / 1_000;
  console.log(`\nlongest time without service: ${longest_s.toFixed(1)} s`);
  for (const [name, node] of nodes) {
    nodes.delete(name);
    await node.stop();
  }
  await upstream.close();
  await place.drop();
  await cluster.stop();
}
