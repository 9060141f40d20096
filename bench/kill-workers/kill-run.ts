import { setTimeout } from "node:timers/promises";
import type { Db } from "../../src/platform/db/db.ts";
import { openDb } from "../../src/platform/db/open-db.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import type { BenchService, BenchUser, Place } from "../support/service.ts";
import { seededRandom } from "../support/statistics.ts";
import { type Evidence, violations } from "./checks.ts";
import { makeApprovers, startPerson } from "./decide.ts";
import { expireHolds } from "./holds.ts";
import { type Asked, bringDue, type LoadedAgent, makeAgents, startErrand } from "./load.ts";
import { API, type Nodes, startNodes } from "./nodes.ts";
import { readAll, untilEnded } from "./read.ts";
import { recoveries } from "./recovery.ts";
import { startScriptedModel } from "./scripted-model.ts";
import { type Site, startSite } from "./site.ts";

const USERS = 4;
/** The delay before an errand is retried while the API is down. */
const RETRY_MS = 50;
/** Two leases and the work after them. */
const END_MS = 180_000;

export interface KillPlan {
  seed: number;
  /** How long nodes are killed, errands run and routines become due. */
  for_ms: number;
  /** On a busy machine with fewer kills by then, the run continues up to this time. */
  least_kills: number;
  /** The workers on PostgreSQL, beside one API node. */
  workers: number;
  /** Whether the API node is killed too. Embedded storage has one node for everything. */
  kill_api: boolean;
  /** Agents that run once, manually, spread over the time. */
  errands: number;
  /** Agents that are due every `due_ms`. */
  routines: number;
  due_ms: number;
  /** Bounds of the time from one kill to the next. */
  kill_ms: { least: number; most: number };
  /**
   * `end` ends all leases and claims in the database with each kill, so that nothing waits for them; live workers continue
   * without notice. Embedded storage does not need it.
   */
  leases: "wait" | "end";
}

export interface KillReport {
  kills: number;
  runs: number;
  /** Runs that a delivery to a trigger started. */
  hooked: number;
  occurrences: number;
  /** All model calls, and the calls that a kill made necessary again. */
  calls: number;
  calls_again: number;
  webhooks: number;
  webhooks_again: number;
  /** Results that the receiver got, and repetitions among them. */
  results: number;
  results_again: number;
  /** Decisions on calls and on budgets that are recorded. */
  approvals: number;
  /** Contacts that were saved in the CRM. */
  contacts: number;
  budgets: number;
  given_up: number;
  /** Holds left by dead nodes after all runs had ended. */
  open_holds: number;
  recovery_ms: number[];
  violations: string[];
}

/**
 * Kills nodes during runs at moments chosen by the seed, waits until all runs end, and compares the records of all
 * sides.
 */
export async function killRun(place: Place, plan: KillPlan): Promise<KillReport> {
  const site = await startSite();
  const model = await startScriptedModel(() => site.url);
  const workers = Array.from({ length: plan.workers }, (_, index) => `worker_${index}`);
  const names = place.storage === "embedded" ? ["all"] : [API, ...workers];
  try {
    const nodes = await startNodes(place, { names, model_url: model.url, egress: site.host });
    const asked: Asked = {
      accepted: new Map(),
      unanswered: new Set(),
      due: new Map(),
      decided: new Map(),
      surprises: [],
    };
    const found = await loadAndKill(place, plan, { nodes, site, asked }).finally(nodes.stop);
    const { deliveries, results, crm_calls } = site;
    const evidence = {
      asked,
      calls: model.calls,
      deliveries,
      results,
      crm_calls,
      losses: nodes.losses,
      told: found.told,
    };
    const db = await openPlace(place);
    const holds = await expireHolds(db).finally(db.close);
    return reportOf(evidence, { open_holds: holds.open, problems: [...found.problems, ...holds.problems] });
  } finally {
    await model.close();
    await site.close();
  }
}

interface Stage {
  nodes: Nodes;
  site: Site;
  asked: Asked;
}

async function loadAndKill(place: Place, plan: KillPlan, stage: Stage) {
  const { nodes, site } = stage;
  const first = apiOf(nodes);
  const users: BenchUser[] = [];
  for (let index = 0; index < USERS; index += 1) users.push(await first.newUser());
  const agents = await makeAgents(first, users, site, plan);
  const approvers = await makeApprovers(first, users);
  const person = startPerson(nodes, agents, { asked: stage.asked, approvers });
  await (place.storage === "embedded"
    ? onEmbedded(place, plan, stage, agents)
    : onPostgres(place, plan, stage, agents));
  await nodes.allUp();
  const service = apiOf(nodes);
  const open = await untilEnded(service, agents, stage.asked.due, performance.now() + END_MS);
  await person.stop();
  const told = await readAll(service, agents);
  const audit = await service.call<{ ok: boolean; violations: unknown[] }>("GET", "/api/v1/admin/audit");
  return { told, problems: [...open, ...audit.violations.map((problem) => `audit: ${JSON.stringify(problem)}`)] };
}

function apiOf(nodes: Nodes): BenchService {
  const service = nodes.api();
  if (service === null) throw new Error("there is no API");
  return service;
}

const openPlace = (place: Place): Promise<Db> =>
  openDb({ database_url: place.database_url, data_dir: place.folder, log: createLog("silent") });

async function onPostgres(place: Place, plan: KillPlan, stage: Stage, agents: readonly LoadedAgent[]): Promise<void> {
  const { nodes, asked } = stage;
  const random = seededRandom(plan.seed);
  const goesOn = durationOf(plan, nodes);
  const db = await openPlace(place);
  const endLeases = async () => {
    if (plan.leases === "wait") return;
    nodes.losses.push({ process: null, at_ms: performance.now() });
    await db.query({ text: "update run set lease_until = clock_timestamp() where lease_until is not null" });
    await db.query({ text: "update delivery set next_attempt_at = clock_timestamp() where status = 'pending'" });
  };
  const killing = async () => {
    for (;;) {
      await setTimeout(between(plan.kill_ms, random()));
      if (!goesOn()) return;
      const victims = nodes.alive().filter((name) => name !== API || plan.kill_api);
      const victim = victims[Math.floor(random() * victims.length)];
      if (victim === undefined) continue;
      await nodes.kill(victim);
      await endLeases();
    }
  };
  const bringing = async () => {
    while (goesOn()) {
      await bringDue(db, asked);
      await setTimeout(plan.due_ms);
    }
  };
  try {
    await Promise.all([killing(), bringing(), runErrands(nodes, plan, agents, asked)]);
    await nodes.allUp();
    await endLeases(); // a dead worker's last statement may still have claimed a run
  } finally {
    await db.close();
  }
}

/** The only node does everything. While it is down, this process can open the database. */
async function onEmbedded(place: Place, plan: KillPlan, stage: Stage, agents: readonly LoadedAgent[]): Promise<void> {
  const { nodes, asked } = stage;
  const random = seededRandom(plan.seed);
  const goesOn = durationOf(plan, nodes);
  let due_from_ms = 0;
  const bringing = async () => {
    if (performance.now() < due_from_ms) return;
    due_from_ms = performance.now() + plan.due_ms;
    const db = await openPlace(place);
    await bringDue(db, asked).finally(db.close);
  };
  const killing = async () => {
    while (goesOn()) {
      await setTimeout(between(plan.kill_ms, random()));
      for (const name of nodes.alive()) await nodes.kill(name, bringing);
      await nodes.allUp();
    }
  };
  await Promise.all([killing(), runErrands(nodes, plan, agents, asked)]);
}

/** Whether to continue killing. */
function durationOf(plan: KillPlan, { losses }: Nodes): () => boolean {
  const until_ms = performance.now() + plan.for_ms;
  return () =>
    performance.now() < until_ms || losses.filter(({ process }) => process !== null).length < plan.least_kills;
}

const between = ({ least, most }: KillPlan["kill_ms"], share: number) => least + share * (most - least);

async function runErrands(nodes: Nodes, plan: KillPlan, agents: readonly LoadedAgent[], asked: Asked): Promise<void> {
  const errands = agents.filter(({ kind }) => kind === "errand");
  const begun_ms = performance.now();
  for (const [nth, agent] of errands.entries()) {
    const wait_ms = begun_ms + (nth * plan.for_ms) / errands.length - performance.now();
    if (wait_ms > 0) await setTimeout(wait_ms);
    while (!(await startErrand(nodes, agent, asked))) await setTimeout(RETRY_MS);
  }
}

const countAgain = (deliveries: Evidence["deliveries"]) =>
  deliveries.length - new Set(deliveries.map(({ headers }) => headers["webhook-id"])).size;

function reportOf(
  evidence: Evidence,
  { open_holds, problems }: { open_holds: number; problems: string[] },
): KillReport {
  const { calls, deliveries, results, losses, told } = evidence;
  const runs = told.flatMap((each) => each.runs);
  const recorded = runs.flatMap(({ steps }) =>
    steps.filter(({ type, status }) => type === "model" && status === "succeeded"),
  );
  const decisions = runs.flatMap((run) => run.decisions);
  const recovered = recoveries(evidence);
  return {
    kills: losses.filter(({ process }) => process !== null).length,
    runs: runs.length,
    hooked: runs.filter(({ trigger }) => trigger === "webhook").length,
    occurrences: told.reduce((sum, { occurrences }) => sum + occurrences.length, 0),
    calls: calls.length,
    calls_again: calls.length - recorded.length,
    webhooks: deliveries.length,
    webhooks_again: countAgain(deliveries),
    results: results.length,
    results_again: countAgain(results),
    contacts: evidence.crm_calls.length,
    approvals: decisions.filter(({ type }) => type === "tool_approval").length,
    budgets: decisions.filter(({ type }) => type === "budget").length,
    given_up: runs.filter(({ error }) => error?.code === "worker_lost").length,
    open_holds,
    recovery_ms: recovered.ms,
    violations: [...problems, ...violations(evidence), ...recovered.problems],
  };
}
