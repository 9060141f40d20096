import { setTimeout } from "node:timers/promises";
import { newId } from "../../src/platform/lib/ids.ts";
import type { BenchService, BenchUser } from "../support/service.ts";
import { costOf } from "./upstream.ts";

/** More tokens than any answer of the upstream, so that a hold's worst case exceeds its cost. */
export const MAX_TOKENS = 64;
export const TOP_UP_TOKENS = 1_000_000;
export const TOP_UP_CENTS = 160;
const RETRY_MS = 5;

/** A user with an agent to run. */
export interface CrashUser extends BenchUser {
  agent_id: string;
}

/** The results of a user's requests, as their callers saw them. */
export interface Seen {
  /** Calls with a complete answer and usage: the stated cost by request id. */
  acknowledged: Map<string, number>;
  /** Calls sent whose connection broke before the answer was complete. */
  unanswered: Set<string>;
  /** The bucket ids in the answers to grants and purchases. */
  buckets: Set<string>;
  /** Grants and purchases whose connection broke. */
  unanswered_top_ups: number;
  /** The ids of accepted runs. */
  runs: Set<string>;
  /** Answers that should never occur. */
  surprises: string[];
}

export function nothingSeen(): Seen {
  return {
    acknowledged: new Map(),
    unanswered: new Set(),
    buckets: new Set(),
    unanswered_top_ups: 0,
    runs: new Set(),
    surprises: [],
  };
}

/** Callers that run until stopped. While the service is down they wait for it. */
export interface Callers {
  seen: ReadonlyMap<string, Seen>;
  /** Sets the service to call. */
  point(service: BenchService): void;
  /** Pauses until there is a new service. Resolves when every sent request has finished. */
  pause(): Promise<void>;
  /** Waits for the running requests. */
  stop(): Promise<void>;
}

/**
 * `per_user` callers for each user. They call models, whole and streamed, start runs, get grants and buy, as chosen by
 * `random`.
 */
export function startCallers(users: readonly CrashUser[], per_user: number, random: () => number): Callers {
  const seen = new Map<string, Seen>();
  let service: BenchService | null = null;
  let stopping = false;
  let in_flight = 0;

  const caller = async (user: CrashUser, mine: Seen) => {
    while (!stopping) {
      if (service === null) {
        await setTimeout(RETRY_MS);
        continue;
      }
      in_flight += 1;
      try {
        await act(service, { user, seen: mine, lot: random() });
      } catch (error) {
        mine.surprises.push(String(error));
      }
      in_flight -= 1;
    }
  };
  const running = users.flatMap((user) => {
    const mine = nothingSeen();
    seen.set(user.id, mine);
    return Array.from({ length: per_user }, () => caller(user, mine));
  });
  return {
    seen,
    point: (to) => {
      service = to;
    },
    async pause() {
      service = null;
      while (in_flight > 0) await setTimeout(RETRY_MS);
    },
    async stop() {
      stopping = true;
      await Promise.all(running);
    },
  };
}

/** Sends one request and records its result. Throws for results that no crash explains. */
async function act(service: BenchService, { user, seen, lot }: { user: CrashUser; seen: Seen; lot: number }) {
  if (lot < 0.7) return complete(service, user, { seen, stream: lot < 0.35 });
  if (lot < 0.85) {
    const path = `/api/v1/agents/${user.agent_id}/runs`;
    const run = await unlessCut(service.call<{ id: string }>("POST", path, { key: user.key, body: {} }));
    if (run !== null) seen.runs.add(run.id);
    return;
  }
  const bucket_id = await unlessCut(lot < 0.93 ? grant(service, user) : purchase(service, user));
  if (bucket_id === null) seen.unanswered_top_ups += 1;
  else seen.buckets.add(bucket_id);
}

async function grant(service: BenchService, user: CrashUser): Promise<string> {
  const body = { amount_tokens: TOP_UP_TOKENS, source: "top_up" };
  return (await service.call<{ id: string }>("POST", `/api/v1/admin/users/${user.id}/grants`, { body })).id;
}

async function purchase(service: BenchService, { key }: CrashUser): Promise<string> {
  const body = { amount_cents: TOP_UP_CENTS };
  const bought = await service.call<{ bucket_id: string }>("POST", "/api/v1/billing/purchase", { key, body });
  return bought.bucket_id;
}

async function complete(service: BenchService, user: CrashUser, { seen, stream }: { seen: Seen; stream: boolean }) {
  const request_id = newId();
  const cost = await unlessCut(call(service, user, { request_id, stream }));
  if (cost === null) seen.unanswered.add(request_id);
  else seen.acknowledged.set(request_id, cost);
}

/** A model call. Returns the cost stated in its answer. */
async function call(service: BenchService, user: CrashUser, sent: { request_id: string; stream: boolean }) {
  const { request_id, stream } = sent;
  const messages = [{ role: "user", content: request_id }];
  const response = await fetch(`${service.url}/api/v1/chat/completions`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${user.key}`,
      "content-type": "application/json",
      "x-request-id": request_id,
    },
    body: JSON.stringify({ model: "bench/instant", messages, max_tokens: MAX_TOKENS, stream }),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${request_id}: ${response.status} ${text}`);
  const usage = stream ? streamedUsage(text) : JSON.parse(text).usage;
  if (usage?.cost_tokens !== costOf(request_id)) throw new Error(`${request_id}: cost ${JSON.stringify(usage)}`);
  return usage.cost_tokens as number;
}

export function streamedUsage(text: string) {
  const events = text.split("\n\n").filter((event) => event !== "");
  if (events.at(-1) !== "data: [DONE]") throw new Error(`a stream that ended without [DONE]: ${text.slice(-300)}`);
  return JSON.parse(events.at(-2)?.slice("data: ".length) ?? "null")?.usage;
}

/** The errors of fetch for a failed and for a broken connection. */
const CUT = new Set(["fetch failed", "terminated"]);

/** The answer; null when the connection failed or broke. */
async function unlessCut<Answer>(answer: Promise<Answer>): Promise<Answer | null> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof TypeError && CUT.has(error.message)) return null;
    throw error;
  }
}
