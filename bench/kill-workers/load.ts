import type { Db } from "../../src/platform/db/db.ts";
import type { BenchService, BenchUser } from "../support/service.ts";
import type { Decision, SentDecision } from "./decide.ts";
import type { Nodes } from "./nodes.ts";
import type { Site } from "./site.ts";

/** An agent that runs once, manually (errand), or one of the two schedules of an agent (routine). */
export interface LoadedAgent {
  user: BenchUser;
  /** The agent's. */
  id: string;
  /** null: an errand. */
  schedule_id: string | null;
  /** The input of its runs. */
  input: object | null;
  label: string;
  /** Where the results of the agent's runs go. */
  result_label: string;
  kind: "errand" | "routine";
  /** What the person decides on the webhook of its run; null: the webhook needs no approval. */
  decision: Decision["decision"] | null;
  /** The first cap of its runs, which a person raises when a run asks; null: none. */
  cap_tokens: number | null;
}

/** Decisions on the webhooks of errands, in turn. */
const DECISIONS = [null, "approve", null, "edit", null, "reject"] as const;
/** One errand in this number has a cap that covers a part of its calls. */
const CAPPED_ONE_IN = 4;
const CAP_TOKENS = 400;

/** The requests to the service, and its answers. */
export interface Asked {
  /** Manual runs answered with 202: the run's id by the agent's. */
  accepted: Map<string, string>;
  /** Agents of manual runs whose connection broke before the answer. */
  unanswered: Set<string>;
  /** Instants at which routines were due, by schedule. */
  due: Map<string, Set<string>>;
  /** Every decision that was sent, by its action. */
  decided: Map<string, SentDecision>;
  surprises: string[];
}

const IN_PARALLEL = 8;

/**
 * Creates the agents, distributed over the users. A routine's agent has two schedules, the second one with a task and an
 * input of its own. They become due only through the harness.
 */
export async function makeAgents(
  service: BenchService,
  users: readonly BenchUser[],
  site: Site,
  counts: { errands: number; routines: number },
): Promise<LoadedAgent[]> {
  const half_a_day_on = new Date(Date.now() + 12 * 3_600_000).toISOString().slice(11, 16);
  const wanted = (["errand", "routine"] as const).flatMap((kind) =>
    Array.from({ length: kind === "errand" ? counts.errands : counts.routines }, (_, index) => ({ kind, index })),
  );
  const made = await inParallel(wanted, async ({ kind, index }): Promise<LoadedAgent[]> => {
    const user = users[index % users.length] as BenchUser;
    const label = `${kind}-${index}`;
    const decision = kind === "errand" ? (DECISIONS[index % DECISIONS.length] ?? null) : null;
    const cap_tokens = kind === "errand" && index % CAPPED_ONE_IN === 0 ? CAP_TOKENS : null;
    const urls = [`${site.url}/hook/${label}`, `${site.url}/hook/${label}-b`];
    const schedule = { schedule_enabled: true, schedule_interval: "daily", schedule_time: half_a_day_on };
    const body = {
      name: label,
      model_id: "bench/instant",
      run_prompt: `Carry out ${label}.`,
      tools_config: {
        web_fetch: { enabled: true, hosts: [site.host] },
        send_webhook: { enabled: true, urls, permission_policy: decision === null ? "always_allow" : "always_ask" },
      },
      limits: { max_cost_tokens_per_run: cap_tokens },
      on_budget: "ask",
      deliveries: [{ to: `${site.url}/result/${label}` }],
      ...(kind === "routine" ? schedule : {}),
    };
    const { id } = await service.call<{ id: string }>("POST", "/api/v1/agents", { key: user.key, body });
    const agent = { user, id, kind, result_label: label, decision, cap_tokens };
    if (kind === "errand") return [{ ...agent, label, schedule_id: null, input: null }];
    const path = `/api/v1/agents/${id}/schedules`;
    const { schedules } = await service.call<{ schedules: { id: string }[] }>("GET", path, { key: user.key });
    const input = { label: `${label}-b` };
    const daily = { name: "second", interval: "daily", times: [half_a_day_on] };
    const second = await service.call<{ id: string }>("POST", path, {
      key: user.key,
      body: { ...daily, run_prompt: `Carry out ${label}-b.`, input },
    });
    return [
      { ...agent, label, schedule_id: schedules[0]?.id ?? "none", input: null },
      { ...agent, label: `${label}-b`, schedule_id: second.id, input },
    ];
  });
  return made.flat();
}

/** Runs `work` for all, a few at a time. Returns the results in order. */
export async function inParallel<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  let next = 0;
  const lane = async () => {
    for (let index = next++; index < items.length; index = next++) results[index] = await work(items[index] as Item);
  };
  await Promise.all(Array.from({ length: IN_PARALLEL }, lane));
  return results;
}

/** Runs an errand. Returns false while the API is down; retry later. */
export async function runNow(nodes: Nodes, agent: LoadedAgent, asked: Asked): Promise<boolean> {
  const service = nodes.api();
  if (service === null) return false;
  try {
    const response = await fetch(`${service.url}/api/v1/agents/${agent.id}/runs`, {
      method: "POST",
      headers: { authorization: `Bearer ${agent.user.key}` },
    });
    const record = JSON.parse(await response.text());
    if (response.status === 202) asked.accepted.set(agent.id, record.id);
    else asked.surprises.push(`run-now of ${agent.label} was answered ${response.status} ${JSON.stringify(record)}`);
  } catch {
    asked.unanswered.add(agent.id);
  }
  return true;
}

/**
 * Makes every routine due now and records the instant; nodes find it at their next poll. Routines that are already due
 * keep their instant.
 */
export async function bringDue(db: Db, asked: Asked): Promise<void> {
  const rows = await db.query<{ id: string; next_run_at: string }>({
    text: `update schedule set next_run_at = clock_timestamp() where next_run_at > clock_timestamp()
      returning id, next_run_at`,
  });
  for (const { id, next_run_at } of rows) {
    const instants = asked.due.get(id) ?? new Set();
    asked.due.set(id, instants.add(next_run_at));
  }
}
