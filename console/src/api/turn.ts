import { useRef, useState } from "react";
import { hasEnded } from "../run-words.ts";
import { addressOf, call, send } from "./client.ts";
import { eventsOf } from "./events.ts";
import { ApiError, type Problem } from "./problem.ts";
import { stale } from "./queries.ts";

/** The current turn of a conversation. */
export interface Turn {
  question: string;
  answer: string;
  going: boolean;
  stopped: boolean;
  /** Its run waits for a decision, and goes on by itself after it. */
  waits: boolean;
  error: unknown;
  run_id: string | null;
  cost_tokens: number | null;
}

interface Chunk {
  run_id?: string;
  choices?: { delta?: { content?: string | null } }[];
  usage?: { cost_tokens: number } | null;
  required_actions?: unknown[];
  error?: Partial<Problem>;
}

/** A stopped run ends within a moment. */
const STOP_CHECKS = 10;
const STOP_CHECK_MS = 300;

/** What a stopped run has cost; null: it has not ended. Its charge is booked at its end. */
async function costOfStopped(id: string, run_id: string): Promise<number | null> {
  for (let check = 0; check < STOP_CHECKS; check++) {
    const run = await call("GET /api/v1/agents/{id}/runs/{run_id}", { params: { id, run_id } });
    if (hasEnded(run.status)) return run.usage.cost_tokens;
    await new Promise((resolve) => setTimeout(resolve, STOP_CHECK_MS));
  }
  return null;
}

/** An id for a new conversation. Pages on plain http have no `crypto.randomUUID`. */
const newThread = (): string =>
  `console-${[...crypto.getRandomValues(new Uint32Array(3))].map((part) => part.toString(36)).join("")}`;
/** Whether the console made the id: it means nothing to a person. */
export const isOwnName = (thread_id: string): boolean => thread_id.startsWith("console-");

/** Sends a question, streams the answer and can stop it. `onEnd` runs after a successful turn. */
export function useTurn(id: string, thread: string | undefined, onEnd: (thread_id: string) => Promise<void>) {
  const [turn, setTurn] = useState<Turn | null>(null);
  const current_request = useRef<AbortController>(null);
  const change = (to: (turn: Turn) => Partial<Turn>) => setTurn((old) => (old === null ? old : { ...old, ...to(old) }));

  const stream = async (question: string, thread_id: string, signal: AbortSignal, onRun: (run_id: string) => void) => {
    const body = JSON.stringify({ messages: [{ role: "user", content: question }], stream: true, thread_id });
    const response = await send(addressOf("/api/v1/agents/{id}/chat", { id }), { method: "POST", body, signal });
    for await (const { data } of eventsOf(response)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data) as Chunk;
      if (chunk.run_id !== undefined) onRun(chunk.run_id);
      if (chunk.error !== undefined) throw new ApiError({ ...CUT_OFF, ...chunk.error });
      change(({ answer, run_id, cost_tokens }) => ({
        answer: answer + (chunk.choices?.[0]?.delta?.content ?? ""),
        run_id: chunk.run_id ?? run_id,
        cost_tokens: chunk.usage?.cost_tokens ?? cost_tokens,
        waits: chunk.required_actions !== undefined,
      }));
    }
    throw new ApiError(CUT_OFF);
  };

  const ask = async (question: string) => {
    const thread_id = thread ?? newThread();
    const left = new AbortController();
    current_request.current = left;
    setTurn({
      question,
      answer: "",
      going: true,
      stopped: false,
      waits: false,
      error: null,
      run_id: null,
      cost_tokens: null,
    });
    let run_id: string | null = null;
    try {
      await stream(question, thread_id, left.signal, (begun) => {
        run_id = begun;
      });
      await onEnd(thread_id);
      change(() => ({ going: false }));
    } catch (error) {
      // Each browser has another error for a broken stream, and none says what to do.
      const reason = error instanceof ApiError ? error : new ApiError(CUT_OFF);
      change(() => (left.signal.aborted ? { going: false, stopped: true } : { going: false, error: reason }));
      const stopped = left.signal.aborted ? run_id : null;
      const cost_tokens = stopped === null ? null : await costOfStopped(id, stopped).catch(() => null);
      if (cost_tokens !== null && current_request.current === left) change(() => ({ cost_tokens }));
      await stale("profile", "runs");
    }
  };
  return { turn, ask, stop: () => current_request.current?.abort(), clear: () => setTurn(null) };
}

const CUT_OFF: Problem = {
  status: 0,
  code: "cut_off",
  message: "The connection to the service was lost before the answer was complete. Try again.",
  param: null,
  request_id: null,
  metadata: {},
  retry_after_s: null,
};
