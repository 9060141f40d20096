import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { startPostgres } from "../test/support/postgres-server.ts";
import { newUser } from "./crash/crash-run.ts";
import { startSlowUpstream } from "./crash/upstream.ts";
import { startLoad } from "./outages/load.ts";
import { freePort } from "./support/free-port.ts";
import { endWithProcess } from "./support/processes.ts";
import { configure, createPlace, startService } from "./support/service.ts";
import { seededRandom } from "./support/statistics.ts";

// `npm run dashboard-check`: Prometheus (Debian: apt-get install prometheus) scrapes a running instance for a moment, and
// answers every query of deploy/dashboard.json. Exits with 1 if one is an error.

const READY_MS = 60_000;
const SCRAPES_MS = 8_000;

interface Target {
  expr?: string;
  [field: string]: unknown;
}

/** The queries of a dashboard, with Grafana's variables replaced. */
function queriesOf(dashboard: unknown): string[] {
  const found: string[] = [];
  JSON.stringify(dashboard, (_, value: Target | null) => {
    if (typeof value?.expr === "string") found.push(value.expr);
    return value;
  });
  return found.map((expr) => expr.replaceAll(/\$\{?__(rate_)?interval\}?|\$__range/g, "1m"));
}

async function untilReady(url: string): Promise<void> {
  const deadline_ms = performance.now() + READY_MS;
  for (;;) {
    const answer = await fetch(`${url}/-/ready`).catch(() => null);
    if (answer?.ok === true) return;
    if (performance.now() > deadline_ms) throw new Error("Prometheus does not start");
    await setTimeout(200);
  }
}

const folder = mkdtempSync(join(tmpdir(), "purser-prometheus-"));
const [server, upstream, port] = [await startPostgres(), await startSlowUpstream(), await freePort()];
const place = await createPlace(server);
configure(place, upstream.url);
place.env.PURSER_PAYMENTS = "sandbox";
const service = await startService(place);
const config = {
  global: { scrape_interval: "1s" },
  scrape_configs: [
    {
      job_name: "purser",
      authorization: { credentials: place.env.PURSER_ADMIN_KEY },
      static_configs: [{ targets: [`127.0.0.1:${service.port}`] }],
    },
  ],
};
writeFileSync(join(folder, "prometheus.yml"), JSON.stringify(config));
const url = `http://127.0.0.1:${port}`;
const prometheus = spawn(
  "prometheus",
  [
    `--config.file=${join(folder, "prometheus.yml")}`,
    `--storage.tsdb.path=${join(folder, "data")}`,
    `--web.listen-address=127.0.0.1:${port}`,
  ],
  { stdio: "ignore" },
);
endWithProcess(prometheus);
prometheus.once("error", () => {
  console.error("Prometheus cannot be started. Debian: apt-get install prometheus");
  process.exitCode = 1;
});
try {
  const load = startLoad({
    users: [await newUser(service)],
    per_user: 2,
    random: seededRandom(1),
    nodes: () => [service],
  });
  await untilReady(url);
  await load.untilAnswered(20);
  await setTimeout(SCRAPES_MS);
  await load.stop();
  const queries = queriesOf(JSON.parse(readFileSync(new URL("../deploy/dashboard.json", import.meta.url), "utf8")));
  let series = 0;
  for (const query of queries) {
    const answer = await fetch(`${url}/api/v1/query?${new URLSearchParams({ query })}`);
    const { status, error, data } = (await answer.json()) as { status: string; error?: string; data?: { result: [] } };
    if (status !== "success") process.exitCode = 1;
    series += Number((data?.result.length ?? 0) > 0);
    console.log(`${status === "success" ? `${data?.result.length} series` : `ERROR ${error}`}: ${query}`);
  }
  console.log(`${queries.length} queries, ${series} with data`);
} finally {
  prometheus.kill("SIGTERM");
  await service.stop();
  await upstream.close();
  await place.drop();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}
