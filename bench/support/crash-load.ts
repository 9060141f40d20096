import { randomUUID } from "node:crypto";
import type { BenchService, BenchUser } from "./service.ts";

/** What the service has answered for: a crash may lose none of it. */
export interface Acknowledged {
  /** Billed tokens by request id. */
  charges: Map<string, number>;
  /** Granted or bought. */
  buckets: Set<string>;
  runs: Set<string>;
}

/** A user with an agent, under load. */
export interface LoadedUser extends BenchUser {
  agent_id: string;
  acknowledged: Acknowledged;
}

const WORKERS_PER_USER = 4;
const TOP_UP_TOKENS = 1_000_000;
const MESSAGES = [{ role: "user", content: "Where does the train go?" }];

/** Calls, streams, runs and top-ups of all users, one after the other in each of their workers, up to `end`. */
export function startLoad(service: BenchService, users: readonly LoadedUser[], random: () => number) {
  const problems: string[] = [];
  let ending = false;
  const work = async (user: LoadedUser) => {
    while (!ending) {
      try {
        await act(service, user, random());
      } catch (error) {
        // Cut off by the kill: nothing was acknowledged. Before it, nothing may fail.
        if (!ending) problems.push(`before the kill: ${error}`);
        return;
      }
    }
  };
  const workers = users.flatMap((user) => Array.from({ length: WORKERS_PER_USER }, () => work(user)));
  return {
    /** Carries out `kill` while the load goes on, and waits until every worker has its answer or lost its connection; what failed before. */
    async end(kill: () => Promise<void>): Promise<string[]> {
      ending = true;
      await kill();
      await Promise.all(workers);
      return problems;
    },
  };
}

function act(service: BenchService, user: LoadedUser, lot: number): Promise<void> {
  if (lot < 0.4) return complete(service, user, lot < 0.1 ? "bench/slow" : "bench/instant");
  if (lot < 0.7) return stream(service, user);
  if (lot < 0.85) return run(service, user);
  return lot < 0.93 ? grant(service, user) : purchase(service, user);
}

async function send(service: BenchService, user: BenchUser, path: string, body: object, headers: object = {}) {
  return fetch(`${service.url}/api/v1${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${user.key}`, "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
}

async function complete(service: BenchService, user: LoadedUser, model: string): Promise<void> {
  const request_id = randomUUID();
  const body = { model, messages: MESSAGES, max_tokens: 100 };
  const response = await send(service, user, "/chat/completions", body, { "x-request-id": request_id });
  const answer = await response.json();
  if (response.ok) user.acknowledged.charges.set(request_id, answer.usage.cost_tokens);
}

async function stream(service: BenchService, user: LoadedUser): Promise<void> {
  const request_id = randomUUID();
  const body = { model: "bench/instant", messages: MESSAGES, max_tokens: 100, stream: true };
  const response = await send(service, user, "/chat/completions", body, { "x-request-id": request_id });
  const events = (await response.text()).split("\n\n").filter((event) => event !== "");
  if (events.at(-1) !== "data: [DONE]") return;
  const { usage } = JSON.parse(events.at(-2)?.slice("data: ".length) ?? "{}");
  user.acknowledged.charges.set(request_id, usage.cost_tokens);
}

async function run(service: BenchService, user: LoadedUser): Promise<void> {
  const response = await send(service, user, `/agents/${user.agent_id}/runs`, {});
  const record = await response.json();
  if (response.status === 202) user.acknowledged.runs.add(record.id);
}

async function grant(service: BenchService, user: LoadedUser): Promise<void> {
  const body = { amount_tokens: TOP_UP_TOKENS, source: "top_up" };
  const bucket = await service.call<{ id: string }>("POST", `/api/v1/admin/users/${user.id}/grants`, { body });
  user.acknowledged.buckets.add(bucket.id);
}

async function purchase(service: BenchService, user: LoadedUser): Promise<void> {
  const response = await send(service, user, "/billing/purchase", { amount_cents: 160 });
  const record = await response.json();
  if (response.ok && record.status === "succeeded") user.acknowledged.buckets.add(record.bucket_id);
}
