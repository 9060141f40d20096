import { setTimeout } from "node:timers/promises";
import { newId } from "../../src/platform/lib/ids.ts";
import { type CrashUser, MAX_TOKENS, nothingSeen, type Seen, streamedUsage, TOP_UP_CENTS } from "../crash/callers.ts";
import { costOf } from "../crash/upstream.ts";
import type { BenchService } from "../support/service.ts";

/** A request that has no answer after this time counts as cut off. */
const ANSWER_MS = 90_000;
/** Pause of a caller after an error. */
const RETRY_MS = 50;
/** Answers of a service that cannot work at the moment. Callers retry after them. */
const EXPECTED_ERRORS = new Set([429, 500, 502, 503, 504]);

/** The results of one phase, as its callers saw them. */
export interface PhaseFigures {
  /** Answers by status. `cut`: the connection failed. `stream`: a stream that ended with an error event. */
  statuses: Record<string, number>;
  /** The longest time in which no caller got a successful answer. */
  longest_gap_ms: number;
}

/** Callers that use all nodes and continue over errors. */
export interface Load {
  seen: ReadonlyMap<string, Seen>;
  /** Resolves when every sent request has ended. */
  pause(): Promise<void>;
  resume(): void;
  /** The figures since the last call. */
  take(): PhaseFigures;
  /** Resolves after `count` more successful answers. */
  untilAnswered(count: number): Promise<void>;
  stop(): Promise<void>;
}

/** `nodes` are the nodes that a load balancer would use. Each caller takes one of them by `random`. */
export function startLoad(options: {
  users: readonly CrashUser[];
  per_user: number;
  random: () => number;
  nodes(): readonly BenchService[];
}): Load {
  const { users, per_user, random, nodes } = options;
  const seen = new Map<string, Seen>(users.map(({ id }) => [id, nothingSeen()]));
  let statuses: Record<string, number> = {};
  let longest_gap_ms = 0;
  let last_success_ms = performance.now();
  let successes = 0;
  let in_flight = 0;
  let state: "running" | "paused" | "stopped" = "running";

  const count = (status: string) => {
    statuses[status] = (statuses[status] ?? 0) + 1;
  };
  const noteGap = () => {
    longest_gap_ms = Math.max(longest_gap_ms, performance.now() - last_success_ms);
  };
  const caller = async (user: CrashUser, mine: Seen) => {
    while (state !== "stopped") {
      const all = nodes();
      const node = all[Math.floor(random() * all.length)];
      if (state === "paused" || node === undefined) {
        await setTimeout(RETRY_MS);
        continue;
      }
      in_flight += 1;
      const status = await act(node, { user, seen: mine, lot: random() }).catch((error: unknown) => {
        mine.surprises.push(String(error));
        return "unreadable";
      });
      in_flight -= 1;
      count(status);
      if (!status.startsWith("2")) {
        await setTimeout(RETRY_MS);
        continue;
      }
      noteGap();
      last_success_ms = performance.now();
      successes += 1;
    }
  };
  const running = users.flatMap((user) =>
    Array.from({ length: per_user }, () => caller(user, seen.get(user.id) as Seen)),
  );
  return {
    seen,
    async pause() {
      state = "paused";
      while (in_flight > 0) await setTimeout(RETRY_MS);
    },
    resume() {
      state = "running";
      last_success_ms = performance.now();
    },
    take() {
      if (state === "running") noteGap();
      const taken = { statuses, longest_gap_ms };
      [statuses, longest_gap_ms, last_success_ms] = [{}, 0, performance.now()];
      return taken;
    },
    async untilAnswered(more) {
      const wanted = successes + more;
      const deadline_ms = performance.now() + 2 * ANSWER_MS;
      while (successes < wanted) {
        if (performance.now() > deadline_ms) throw new Error("the service does not answer any more");
        await setTimeout(RETRY_MS);
      }
    },
    async stop() {
      state = "stopped";
      await Promise.all(running);
    },
  };
}

interface Turn {
  user: CrashUser;
  seen: Seen;
  lot: number;
}

/** Sends one request, records its result, and returns its status. */
async function act(node: BenchService, { user, seen, lot }: Turn): Promise<string> {
  if (lot < 0.7) return complete(node, user, { seen, stream: lot < 0.35 });
  if (lot < 0.85) {
    const answer = await send(node, `/api/v1/agents/${user.agent_id}/runs`, { key: user.key, body: {} });
    if (answer.body !== null) seen.runs.add(answer.body.id);
    else noteSurprise(seen, answer);
    return answer.status;
  }
  const body = { amount_cents: TOP_UP_CENTS };
  const answer = await send(node, "/api/v1/billing/purchase", { key: user.key, body });
  if (answer.body !== null) seen.buckets.add(answer.body.bucket_id);
  else {
    // An answer with an error may come after the purchase's commit.
    seen.unanswered_top_ups += 1;
    noteSurprise(seen, answer);
  }
  return answer.status;
}

async function complete(node: BenchService, user: CrashUser, { seen, stream }: { seen: Seen; stream: boolean }) {
  const request_id = newId();
  const messages = [{ role: "user", content: request_id }];
  const body = { model: "bench/instant", messages, max_tokens: MAX_TOKENS, stream };
  const answer = await send(node, "/api/v1/chat/completions", { key: user.key, body, request_id });
  const usage = stream && answer.text !== null ? usageOfStream(answer.text) : answer.body?.usage;
  if (usage === undefined) {
    seen.unanswered.add(request_id);
    noteSurprise(seen, answer);
    return answer.status.startsWith("2") ? "stream" : answer.status;
  }
  seen.acknowledged.set(request_id, usage.cost_tokens);
  if (usage.cost_tokens !== costOf(request_id)) seen.surprises.push(`${request_id}: cost ${JSON.stringify(usage)}`);
  return answer.status;
}

/** Undefined if the stream ended with an error or was cut off. */
function usageOfStream(text: string): { cost_tokens: number } | undefined {
  return text.endsWith("data: [DONE]\n\n") ? streamedUsage(text) : undefined;
}

interface Sent {
  status: string;
  text: string | null;
  // biome-ignore lint/suspicious/noExplicitAny: each endpoint has its own answer
  body: any;
}

async function send(
  node: BenchService,
  path: string,
  { key, body, request_id }: { key: string; body: object; request_id?: string },
): Promise<Sent> {
  try {
    const response = await fetch(`${node.url}${path}`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${key}`,
        "content-type": "application/json",
        ...(request_id === undefined ? {} : { "x-request-id": request_id }),
      },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    const text = await response.text();
    const is_json = response.ok && text.startsWith("{");
    return { status: String(response.status), text, body: is_json ? JSON.parse(text) : null };
  } catch {
    return { status: "cut", text: null, body: null };
  }
}

function noteSurprise(seen: Seen, { status, text }: Sent): void {
  if (status === "cut" || status.startsWith("2") || EXPECTED_ERRORS.has(Number(status))) return;
  seen.surprises.push(`${status} ${text?.slice(0, 300)}`);
}
