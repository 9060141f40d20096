import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { runSql, startPostgres } from "../test/support/postgres-server.ts";
import { allowMany } from "./agent-runs.ts";
import { startInstantModel } from "./support/instant-model.ts";
import type { Effort, Outcome } from "./support/outcome.ts";
import type { Resources } from "./support/report-resources.ts";
import { type BenchService, type BenchUser, configure, createPlace, startService } from "./support/service.ts";

const RUNS = [100, 1_000];
/** Runs before the first measurement, so that the runtime has compiled their code. */
const WARM_UP_RUNS = 400;
const MEASURED_SECONDS = 60;
const POLL_MS = 100;
const REPORTER = fileURLToPath(import.meta.resolve("./support/report-resources.ts"));

interface Measured extends Resources {
  statements: number;
  connections: number;
  leases: number;
  holds: number;
}

/** Runs that wait for a decision: what the service and the database have of them, and how they go on. */
export async function waitingRuns(effort: Effort): Promise<Outcome> {
  const seconds = Math.max(5, MEASURED_SECONDS * effort.scale);
  const server = await startPostgres({ settings: ["shared_preload_libraries=pg_stat_statements"] });
  const model = await startInstantModel();
  const place = await createPlace(server);
  const database = place.database_url ?? "";
  await runSql(database, "create extension pg_stat_statements");
  configure(place, model.url);
  allowMany(place.env.PURSER_CONFIG ?? "");
  const file = join(place.folder, "resources.json");
  place.env.RESOURCES_FILE = file;
  const service = await startService(place, { core: "service", node_args: ["--expose-gc", "--import", REPORTER] });
  try {
    const user = await service.newUser();
    const free = await createAgent(service, user, {});
    await startRuns(service, user, { agent: free, count: WARM_UP_RUNS });
    await untilAll(service, user, { agent: free, status: "succeeded", count: WARM_UP_RUNS });

    const measure = () => measureIdle(service, { database, file, seconds });
    const none = await measure();
    const limits = { max_cost_tokens_per_run: 1 };
    const capped = await createAgent(service, user, { limits, on_budget: "ask", approval_hours: 48 });
    const waiting: { count: number; measured: Measured }[] = [];
    for (const count of RUNS) {
      await startRuns(service, user, { agent: capped, count: count - (waiting.at(-1)?.count ?? 0) });
      await untilAll(service, user, { agent: capped, status: "requires_action", count });
      waiting.push({ count, measured: await measure() });
    }
    const all = waiting.at(-1)?.count ?? 0;
    const raised_ms = performance.now();
    const body = { limits: { max_cost_tokens_per_run: null } };
    await service.call("PUT", `/api/v1/agents/${capped}`, { key: user.key, body });
    const answered_ms = performance.now() - raised_ms;
    await untilAll(service, user, { agent: capped, status: "succeeded", count: all });
    const ended_ms = performance.now() - raised_ms;
    const row = (name: string, { statements, connections, timers, heap_mb, leases, holds }: Measured) => ({
      name,
      values: [(statements * 60) / seconds, connections, timers, heap_mb, leases, holds],
    });
    const most = waiting.at(-1)?.measured ?? none;
    return {
      name: "waiting-runs",
      title: "Runs that wait for a decision, PostgreSQL",
      tables: [
        {
          caption: "A service without requests",
          columns: ["statements/min", "connections", "timers", "heap, MB", "leases", "holds"],
          rows: [
            row("no run waits", none),
            ...waiting.map(({ count, measured }) =>
              row(`${count.toLocaleString("en-US")} runs wait for tokens`, measured),
            ),
          ],
        },
        {
          caption: `After their limit is raised, ${all.toLocaleString("en-US")} runs`,
          columns: ["answer, ms", "all have ended, ms"],
          rows: [{ name: "all", values: [answered_ms, ended_ms] }],
        },
      ],
      ratios: [
        { of: "leases and holds of waiting runs", to: "1", value: most.leases + most.holds, goal: "0" },
        {
          of: "connections, with waiting runs",
          to: "without",
          value: most.connections / none.connections,
          goal: "≤ 1",
        },
      ],
    };
  } finally {
    await service.stop();
    await place.drop();
    model.close();
    await server.stop();
  }
}

async function createAgent(service: BenchService, { key }: BenchUser, settings: object): Promise<string> {
  const body = { name: "Waits", model_id: "bench/instant", run_prompt: "go", ...settings };
  return (await service.call<{ id: string }>("POST", "/api/v1/agents", { key, body })).id;
}

type RunsOfAgent = { agent: string; count: number };

async function startRuns(service: BenchService, { key }: BenchUser, { agent, count }: RunsOfAgent): Promise<void> {
  for (let nth = 0; nth < count; nth += 1) {
    await service.call("POST", `/api/v1/agents/${agent}/runs`, { key, body: {} });
  }
}

async function untilAll(
  service: BenchService,
  { key }: BenchUser,
  { agent, count, status }: RunsOfAgent & { status: string },
): Promise<void> {
  for (;;) {
    let found = 0;
    for (let cursor: string | null = ""; cursor !== null; ) {
      const query: string = `status=${status}&limit=100${cursor === "" ? "" : `&cursor=${cursor}`}`;
      const page = await service.call<{ runs: unknown[]; next_cursor: string | null }>(
        "GET",
        `/api/v1/agents/${agent}/runs?${query}`,
        { key },
      );
      found += page.runs.length;
      cursor = page.next_cursor;
    }
    if (found === count) return;
    await setTimeout(POLL_MS);
  }
}

/** The statements of some time without requests, and what the service and the database have at its end. */
async function measureIdle(
  service: BenchService,
  { database, file, seconds }: { database: string; file: string; seconds: number },
): Promise<Measured> {
  await setTimeout(5_000); // what follows the last runs
  await runSql(database, "select pg_stat_statements_reset()");
  await setTimeout(seconds * 1_000);
  const [counted] = (await runSql(
    database,
    `select (select sum(calls)::integer from pg_stat_statements as s join pg_database as d on d.oid = s.dbid
          where d.datname = current_database() and query not like '%pg_stat_statements%') as statements,
        (select count(*)::integer from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()) as connections,
        (select count(*)::integer from run where phase <> 'ended' and (lease_until is not null or worker_id is not null)) as leases,
        (select count(*)::integer from hold) as holds`,
  )) as Omit<Measured, keyof Resources>[];
  rmSync(file, { force: true });
  process.kill(service.pid, "SIGUSR2");
  while (!existsSync(file)) await setTimeout(POLL_MS);
  return { ...(counted as Measured), ...(JSON.parse(readFileSync(file, "utf8")) as Resources) };
}
