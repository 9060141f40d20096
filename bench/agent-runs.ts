import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type PostgresServer, runSql, startPostgres } from "../test/support/postgres-server.ts";
import { startLangGraph } from "./peers/langgraph.ts";
import { type InstantModel, startInstantModel } from "./support/instant-model.ts";
import { checked, closedLoop, type LoadMeasure, type Target } from "./support/load.ts";
import type { Effort, Outcome, Ratio } from "./support/outcome.ts";
import { onLoadCore, type ServerProcess, startServer } from "./support/processes.ts";
import { type BenchService, configure, createPlace, startService } from "./support/service.ts";
import { inTurn, medianOf, pairedRatio, percentile } from "./support/statistics.ts";

const CALLERS = [1, 32] as const;
const LOAD_SECONDS = 2;
/** As long as it takes until the runtime compiles nothing more (completions.ts). */
const WARM_UP_SECONDS = 8;
/** Sequential runs; each waits for its first model call. */
const DISPATCHES = 500;
const ON_POSTGRES = "Purser, PostgreSQL";
const EMBEDDED = "Purser, embedded";
const BARE = "bare Node, rows committed in batches";
const LANGGRAPH = "LangGraph with its PostgreSQL checkpointer";

const BARE_RUNS = fileURLToPath(import.meta.resolve("./peers/bare-runs.ts"));

/** A service that executes a run of one model call per request. */
interface Contender {
  process: ServerProcess;
  target: Target;
}

/**
 * Agent runs: the time from a manual run to its first model call, and whole runs per second, with a model that answers
 * at once.
 */
export async function agentRuns(effort: Effort): Promise<Outcome> {
  const started: { stop(): Promise<void> }[] = [];
  try {
    const model = await startInstantModel();
    started.push({ stop: async () => model.close() });
    const contenders = await startContenders(effort, model, started);
    return await onLoadCore(() => measure(contenders, model, effort));
  } finally {
    for (const each of started.toReversed()) await each.stop();
  }
}

async function startContenders(
  effort: Effort,
  model: InstantModel,
  started: { stop(): Promise<void> }[],
): Promise<Map<string, Contender>> {
  const keep = <Each extends { stop(): Promise<void> }>(each: Each): Each => {
    started.push(each);
    return each;
  };
  const postgres = keep(await startPostgres());
  const plain = (process: ServerProcess): Contender => ({
    process,
    target: { port: process.port, path: "/", body: {} },
  });
  const contenders = new Map<string, Contender>();
  const bare = [process.execPath, BARE_RUNS, model.url, await databaseOf(postgres, "bare")];
  contenders.set(BARE, plain(keep(await startServer(bare, { core: "service" }))));
  for (const [name, server] of [[ON_POSTGRES, postgres] as const, [EMBEDDED, null] as const]) {
    const place = await createPlace(server);
    started.push({ stop: place.drop });
    configure(place, model.url);
    allowMany(place.env.PURSER_CONFIG ?? "");
    const service = keep(await startService(place, { core: "service" }));
    const { key } = await service.newUser();
    contenders.set(name, { process: service, target: await agentRunTarget(service, key) });
  }
  if (effort.peers) {
    contenders.set(LANGGRAPH, plain(keep(await startLangGraph(model.url, await databaseOf(postgres, "langgraph")))));
  }
  return contenders;
}

async function databaseOf(server: PostgresServer, name: string): Promise<string> {
  await runSql(server.url("postgres"), `create database ${name}`);
  return server.url(name);
}

/** A run of a new agent, which makes one model call. The answer is the finished run. */
export async function agentRunTarget(service: BenchService, key: string): Promise<Target> {
  const agent = { name: "bench", model_id: "bench/instant", run_prompt: "go" };
  const { id } = await service.call<{ id: string }>("POST", "/api/v1/agents", { key, body: agent });
  const headers = { authorization: `Bearer ${key}`, prefer: "wait=30" };
  return { port: service.port, path: `/api/v1/agents/${id}/runs`, headers, body: {} };
}

/** Allows as many concurrent runs as there are callers. */
export function allowMany(config_file: string): void {
  const config = JSON.parse(readFileSync(config_file, "utf8"));
  Object.assign(config.limits, { concurrent_runs: 256, concurrent_runs_per_user: 256 });
  writeFileSync(config_file, JSON.stringify(config));
}

/** Milliseconds from each request to its model call, ascending. */
async function dispatches({ target }: Contender, model: InstantModel, count: number): Promise<number[]> {
  const delays: number[] = [];
  const url = `http://127.0.0.1:${target.port}${target.path}`;
  const request = {
    method: "POST",
    headers: { "content-type": "application/json", ...target.headers },
    body: JSON.stringify(target.body),
  };
  for (let index = 0; index < count; index += 1) {
    const sent_ms = performance.now();
    const response = await fetch(url, request);
    await response.arrayBuffer();
    if (!response.ok || model.lastCallMs() < sent_ms) throw new Error(`a request led to no call: ${response.status}`);
    delays.push(model.lastCallMs() - sent_ms);
  }
  return delays.sort((a, b) => a - b);
}

async function measure(
  contenders: Map<string, Contender>,
  model: InstantModel,
  { rounds, scale, peers }: Effort,
): Promise<Outcome> {
  const names = [...contenders.keys()];
  const each = <Found>(measureOne: (name: string, contender: Contender) => Promise<Found>) =>
    inTurn(new Map([...contenders].map(([name, contender]) => [name, () => measureOne(name, contender)])), rounds);
  const load =
    (callers: number, seconds: number) =>
    (name: string, { target }: Contender) =>
      checked(name, closedLoop(target, { callers, seconds: seconds * scale }));

  for (const [name, contender] of contenders) await load(32, WARM_UP_SECONDS)(name, contender);
  const runs: Map<string, LoadMeasure[]>[] = [];
  for (const callers of CALLERS) runs.push(await each(load(callers, LOAD_SECONDS)));
  const delays = await each((_, contender) => dispatches(contender, model, Math.ceil(DISPATCHES * scale)));

  const dispatch = (name: string, at: number) => medianOf(delays.get(name), (sorted) => percentile(sorted, at));
  const figure = (index: number, pick: (found: LoadMeasure) => number) => (name: string) =>
    medianOf(runs[index]?.get(name), pick);
  const per_second = [figure(0, (found) => found.per_second), figure(1, (found) => found.per_second)] as const;
  const ratio = (of: string, to: string, goal: string): Ratio => ({
    of: `${of}, runs a second at 32`,
    to,
    value: pairedRatio(runs[1]?.get(of), runs[1]?.get(to), (each) => each.per_second),
    goal,
  });
  return {
    name: "agent-runs",
    title: "Agent runs",
    tables: [
      {
        caption: "Runs of one model call a second at 1 and 32 callers who wait for them, and how long each takes",
        columns: ["1 caller", "32 callers", "p50 at 1, ms", "p50 at 32, ms", "p99 at 32, ms"],
        rows: names.map((name) => ({
          name,
          values: [
            per_second[0](name),
            per_second[1](name),
            figure(0, (found) => found.p50_ms)(name),
            figure(1, (found) => found.p50_ms)(name),
            figure(1, (found) => found.p99_ms)(name),
          ],
        })),
        drawn: [1],
      },
      {
        caption: "From run-now to the first model call, one run after the other",
        columns: ["p50, ms", "p99, ms"],
        rows: names.map((name) => ({ name, values: [dispatch(name, 0.5), dispatch(name, 0.99)] })),
      },
    ],
    ratios: [
      ratio(ON_POSTGRES, BARE, "≥ 0.25"),
      ratio(EMBEDDED, BARE, ""),
      ...(peers ? [ratio(ON_POSTGRES, LANGGRAPH, "≥ 5"), ratio(EMBEDDED, LANGGRAPH, "")] : []),
    ],
  };
}
