import { Webhook } from "standardwebhooks";
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
  /** What the person decides on the call of its run; null: the call needs no approval. */
  decision: Decision["decision"] | null;
  /** The first cap of its runs, which a person raises when a run asks; null: none. */
  cap_tokens: number | null;
  /** The trigger that starts its run; null: a run-now. */
  hook: { path: string; secret: string } | null;
  /** Its run saves a contact in a CRM in place of sending a webhook. The CRM cannot recognize a repetition. */
  has_crm: boolean;
}

/** One errand in this number is started by a delivery to a trigger. */
const HOOKED_ONE_IN = 3;

/** Decisions on the calls of errands, in turn. */
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
    const has_crm = decision !== null && index % (2 * DECISIONS.length) >= DECISIONS.length;
    const crm = { enabled: true, servers: [{ name: "crm", url: `${site.url}/crm/${label}` }] };
    const permission_policy = decision === null ? "always_allow" : "always_ask";
    const urls = [`${site.url}/hook/${label}`, `${site.url}/hook/${label}-b`];
    const schedule = { schedule_enabled: true, schedule_interval: "daily", schedule_time: half_a_day_on };
    const body = {
      name: label,
      model_id: "bench/instant",
      run_prompt: `Carry out ${label}.`,
      tools_config: {
        web_fetch: { enabled: true, hosts: [site.host] },
        ...(has_crm ? { mcp: crm } : { send_webhook: { enabled: true, urls, permission_policy } }),
      },
      limits: { max_cost_tokens_per_run: cap_tokens },
      on_budget: "ask",
      deliveries: [{ to: `${site.url}/result/${label}` }],
      ...(kind === "routine" ? schedule : {}),
    };
    const { id } = await service.call<{ id: string }>("POST", "/api/v1/agents", { key: user.key, body });
    const agent = { user, id, kind, result_label: label, decision, cap_tokens, has_crm, hook: null };
    if (kind === "errand") {
      const hook = index % HOOKED_ONE_IN === 1 ? await makeTrigger(service, user, id) : null;
      return [{ ...agent, label, schedule_id: null, hook, input: hook === null ? null : { label } }];
    }
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

async function makeTrigger(service: BenchService, { key }: BenchUser, agent_id: string) {
  const body = { name: "started", verify: "standard_webhooks" };
  const path = `/api/v1/agents/${agent_id}/triggers`;
  const made = await service.call<{ url: string; secret: string }>("POST", path, { key, body });
  return { path: new URL(made.url).pathname, secret: made.secret };
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

/** Starts an errand's run. Returns false while the API is down; retry later. */
export function startErrand(nodes: Nodes, agent: LoadedAgent, asked: Asked): Promise<boolean> {
  return agent.hook === null ? runNow(nodes, agent, asked) : deliver(nodes, agent, asked);
}

/** Sends the errand's delivery, which its sender repeats until it is answered, and once more: all are one run. */
async function deliver(nodes: Nodes, { id, label, hook }: LoadedAgent, asked: Asked): Promise<boolean> {
  const service = nodes.api();
  if (service === null || hook === null) return false;
  const was_accepted = asked.accepted.has(id);
  const body = JSON.stringify({ label });
  const delivery_id = `delivery_${label}`;
  const sent_at = new Date();
  try {
    const response = await fetch(`${service.url}${hook.path}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "webhook-id": delivery_id,
        "webhook-timestamp": String(Math.floor(sent_at.getTime() / 1_000)),
        "webhook-signature": new Webhook(hook.secret).sign(delivery_id, sent_at, body),
      },
      body,
    });
    const { run_id } = JSON.parse(await response.text());
    const run_before = asked.accepted.get(id) ?? run_id;
    if (response.status !== 202 || run_id !== run_before) {
      asked.surprises.push(
        `${delivery_id} was answered ${response.status} with the run ${run_id}, and ${run_before} before`,
      );
    }
    asked.accepted.set(id, run_before);
    return was_accepted;
  } catch {
    return false;
  }
}

/** Runs an errand. Returns false while the API is down; retry later. */
async function runNow(nodes: Nodes, agent: LoadedAgent, asked: Asked): Promise<boolean> {
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
