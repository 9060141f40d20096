import type { RunDetail } from "../../src/api/contract/runs.ts";
import { RUN_STATUSES } from "../../src/api/contract/runs.ts";
import type { BenchService } from "../support/service.ts";
import { type Asked, inParallel, type LoadedAgent } from "./load.ts";

export interface Occurrence {
  at: string;
  state: string;
  reason: string | null;
  run_id: string | null;
}

/** One agent with all of the service's records about it, after its runs have ended. */
export interface Told {
  agent: LoadedAgent;
  runs: RunDetail[];
  occurrences: Occurrence[];
  webhook_key: string;
  /** Billed tokens of each charge, by run. */
  charges: Map<string, number[]>;
}

const POLL_MS = 250;
const DELIVERED_MS = 180_000;

/**
 * Waits until each due instant has its occurrence and no run of these agents is open. Returns what is still missing or open
 * at the deadline.
 */
export async function untilEnded(
  service: BenchService,
  agents: readonly LoadedAgent[],
  due: Asked["due"],
  deadline_ms: number,
): Promise<string[]> {
  const left_over: string[] = [];
  await inParallel(agents, async (agent) => {
    for (;;) {
      const left = await openWork(service, agent, due.get(agent.schedule_id ?? "") ?? new Set());
      if (left.length === 0) return;
      if (performance.now() > deadline_ms) {
        left_over.push(...left);
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  });
  return left_over;
}

/** Due instants without an occurrence, and open runs. The occurrences are read first, because they begin the runs. */
async function openWork(service: BenchService, agent: LoadedAgent, due: ReadonlySet<string>): Promise<string[]> {
  const { label } = agent;
  const written = new Set((await listOccurrences(service, agent)).map(({ at }) => at));
  const runs = await listRuns(service, agent);
  return [
    ...[...due].filter((at) => !written.has(at)).map((at) => `${label} was due at ${at}, and nothing happened`),
    ...runs
      .filter(({ status }) => RUN_STATUSES[status].phase !== "ended")
      .map((run) => `run ${run.id} of ${label} is still ${run.status}`),
  ];
}

async function listRuns(service: BenchService, { user, id, schedule_id }: LoadedAgent): Promise<RunDetail[]> {
  const runs = await listed<RunDetail>(service, user.key, `/api/v1/agents/${id}/runs`, "runs");
  return runs.filter((run) => run.schedule_id === schedule_id);
}

async function listOccurrences(service: BenchService, { user, id, schedule_id }: LoadedAgent): Promise<Occurrence[]> {
  if (schedule_id === null) return [];
  const path = `/api/v1/agents/${id}/occurrences?schedule_id=${schedule_id}`;
  return listed<Occurrence>(service, user.key, path, "occurrences");
}

/** Reads everything about the agents through the API, as their owners would. */
export async function readAll(service: BenchService, agents: readonly LoadedAgent[]): Promise<Told[]> {
  const charges = new Map<string, number[]>();
  for (const key of new Set(agents.map(({ user }) => user.key))) {
    const entries = await listed<Entry>(service, key, "/api/v1/users/me/transactions?type=usage", "transactions");
    for (const { run_id, amount } of entries) {
      charges.set(run_id ?? "no run", [...(charges.get(run_id ?? "no run") ?? []), -amount]);
    }
  }
  const told = await inParallel(agents, async (agent): Promise<Told> => {
    const path = `/api/v1/agents/${agent.id}`;
    const { key } = agent.user;
    const runs: RunDetail[] = [];
    for (const { id } of await listRuns(service, agent)) {
      runs.push(await deliveredRun(() => service.call<RunDetail>("GET", `${path}/runs/${id}`, { key })));
    }
    const occurrences = await listOccurrences(service, agent);
    const webhook = await service.call<{ key: string }>("GET", `${path}/webhook-key`, { key });
    const mine = new Map(runs.map(({ id }) => [id, charges.get(id) ?? []]));
    for (const { id } of runs) charges.delete(id);
    return { agent, runs, occurrences, webhook_key: webhook.key, charges: mine };
  });
  if (charges.size > 0) throw new Error(`charges of runs that are not there: ${[...charges.keys()].join(", ")}`);
  return told;
}

/** The run, once its result is delivered or given up: a dead node's claim lasts a minute, and a refused try waits. */
async function deliveredRun(read: () => Promise<RunDetail>): Promise<RunDetail> {
  const deadline_ms = performance.now() + DELIVERED_MS;
  for (;;) {
    const run = await read();
    if (run.deliveries.every(({ status }) => status !== "pending") || performance.now() > deadline_ms) return run;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

interface Entry {
  run_id: string | null;
  amount: number;
}

/** All rows of a list, page after page. */
async function listed<Row>(service: BenchService, key: string, path: string, name: string): Promise<Row[]> {
  const rows: Row[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const query: string = `${path.includes("?") ? "&" : "?"}limit=100${cursor === "" ? "" : `&cursor=${cursor}`}`;
    const page = await service.call<Record<string, unknown>>("GET", `${path}${query}`, { key });
    rows.push(...(page[name] as Row[]));
    cursor = page.next_cursor as string | null;
  }
  return rows;
}
