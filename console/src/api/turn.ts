import { useRef, useState } from "react";
import { addressOf, send } from "./client.ts";
import { eventsOf } from "./events.ts";
import { ApiError, type Problem } from "./problem.ts";

/** A turn of a conversation as far as it has come. */
export interface Turn {
  question: string;
  answer: string;
  going: boolean;
  stopped: boolean;
  error: unknown;
  run_id: string | null;
  cost_tokens: number | null;
}

interface Chunk {
  run_id?: string;
  choices?: { delta?: { content?: string | null } }[];
  usage?: { cost_tokens: number } | null;
  error?: Partial<Problem>;
}

/** A name for a new conversation. `crypto.randomUUID` is not there on plain http. */
const newThread = (): string =>
  `console-${[...crypto.getRandomValues(new Uint32Array(3))].map((part) => part.toString(36)).join("")}`;
/** Whether a conversation was named by the console: such a name tells a person nothing. */
export const isOwnName = (thread_id: string): boolean => thread_id.startsWith("console-");

/** Asks the agent, hears its answer as it is generated, and can stop it. `onEnd` is told of a turn that succeeded. */
export function useTurn(id: string, thread: string | undefined, onEnd: (thread_id: string) => Promise<void>) {
  const [turn, setTurn] = useState<Turn | null>(null);
  const under_way = useRef<AbortController>(null);
  const change = (to: (turn: Turn) => Partial<Turn>) => setTurn((old) => (old === null ? old : { ...old, ...to(old) }));

  const hear = async (question: string, thread_id: string, signal: AbortSignal) => {
    const body = JSON.stringify({ messages: [{ role: "user", content: question }], stream: true, thread_id });
    const response = await send(addressOf("/api/v1/agents/{id}/chat", { id }), { method: "POST", body, signal });
    for await (const { data } of eventsOf(response)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data) as Chunk;
      if (chunk.error !== undefined) throw new ApiError({ ...UNKNOWN, ...chunk.error });
      change(({ answer, run_id, cost_tokens }) => ({
        answer: answer + (chunk.choices?.[0]?.delta?.content ?? ""),
        run_id: chunk.run_id ?? run_id,
        cost_tokens: chunk.usage?.cost_tokens ?? cost_tokens,
      }));
    }
    throw new ApiError(UNKNOWN);
  };

  const ask = async (question: string) => {
    const thread_id = thread ?? newThread();
    const left = new AbortController();
    under_way.current = left;
    setTurn({ question, answer: "", going: true, stopped: false, error: null, run_id: null, cost_tokens: null });
    try {
      await hear(question, thread_id, left.signal);
      await onEnd(thread_id);
      change(() => ({ going: false }));
    } catch (error) {
      change(() => (left.signal.aborted ? { going: false, stopped: true } : { going: false, error }));
    }
  };
  return { turn, ask, stop: () => under_way.current?.abort(), clear: () => setTurn(null) };
}

const UNKNOWN: Problem = {
  status: 0,
  code: "cut_off",
  message: "The answer broke off. Try again.",
  param: null,
  request_id: null,
  metadata: {},
};
