import { setTimeout } from "node:timers/promises";
import { newId } from "../../src/platform/ids.ts";
import type { BenchUser } from "../support/service.ts";
import { costOf } from "./upstream.ts";

/** More than any answer of the upstream, so that a hold's worst case is above its cost. */
const MAX_TOKENS = 64;
const RETRY_MS = 5;

/** What became of a user's requests, as their callers saw it. */
export interface Seen {
  /** Answered in full, with usage: by request id, what the answer said that it cost. */
  acknowledged: Map<string, number>;
  /** Sent, and the connection broke before the answer was complete. */
  unanswered: Set<string>;
  /** What should never have come back. */
  surprises: string[];
}

/** Calls that run until they are told to stop; while the service is away they wait for it. */
export interface Callers {
  seen: ReadonlyMap<string, Seen>;
  /** Where the service is from now on. */
  point(url: string): void;
  /** Sends nothing more until there is a new address; resolves when every call sent has come to its end. */
  pause(): Promise<void>;
  /** Lets the calls in flight finish. */
  stop(): Promise<void>;
}

/** `per_user` callers for each user; every other call is streamed. */
export function startCallers(users: readonly BenchUser[], per_user: number): Callers {
  const seen = new Map<string, Seen>();
  let url: string | null = null;
  let stopping = false;
  let in_flight = 0;

  const caller = async (user: BenchUser, mine: Seen, index: number) => {
    for (let turn = index; !stopping; turn += 1) {
      if (url === null) {
        await setTimeout(RETRY_MS);
        continue;
      }
      const request_id = newId();
      in_flight += 1;
      try {
        mine.acknowledged.set(request_id, await call(url, user, { request_id, stream: turn % 2 === 0 }));
      } catch (error) {
        if (error instanceof Surprise) mine.surprises.push(`${request_id}: ${error.message}`);
        else if (!isRefused(error)) mine.unanswered.add(request_id);
      }
      in_flight -= 1;
    }
  };
  const running = users.flatMap((user) => {
    const mine: Seen = { acknowledged: new Map(), unanswered: new Set(), surprises: [] };
    seen.set(user.id, mine);
    return Array.from({ length: per_user }, (_, index) => caller(user, mine, index));
  });
  return {
    seen,
    point: (to) => {
      url = to;
    },
    async pause() {
      url = null;
      while (in_flight > 0) await setTimeout(RETRY_MS);
    },
    async stop() {
      stopping = true;
      await Promise.all(running);
    },
  };
}

/** An answer that no crash explains. */
class Surprise extends Error {}

/** One call; the cost that its answer states. */
async function call(url: string, user: BenchUser, { request_id, stream }: { request_id: string; stream: boolean }) {
  const response = await fetch(`${url}/api/v1/chat/completions`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${user.key}`,
      "content-type": "application/json",
      "x-request-id": request_id,
    },
    body: JSON.stringify({
      model: "bench/instant",
      messages: [{ role: "user", content: request_id }],
      max_tokens: MAX_TOKENS,
      stream,
    }),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Surprise(`${response.status} ${text}`);
  const usage = stream ? streamedUsage(text) : JSON.parse(text).usage;
  if (usage?.cost_tokens !== costOf(request_id)) throw new Surprise(`a wrong cost: ${JSON.stringify(usage)}`);
  return usage.cost_tokens as number;
}

function streamedUsage(text: string) {
  const events = text.split("\n\n").filter((event) => event !== "");
  if (events.at(-1) !== "data: [DONE]") throw new Surprise(`a stream that ended without [DONE]: ${text.slice(-300)}`);
  return JSON.parse(events.at(-2)?.slice(6) ?? "null")?.usage;
}

/** Nobody listened, so nothing was sent. */
function isRefused(error: unknown): boolean {
  return ((error as Error).cause as { code?: string } | undefined)?.code === "ECONNREFUSED";
}
