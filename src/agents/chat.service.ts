import type { AgentChat } from "../contract/agents.ts";
import type { Caller } from "../contract/caller.ts";
import type { RunDetail, RunRecord } from "../contract/runs.ts";
import { errors, PurserError } from "../errors.ts";
import { newId } from "../platform/ids.ts";
import type { Scheduling } from "../scheduling/scheduling.service.ts";
import type { ClaimedRun } from "../scheduling/scheduling.types.ts";
import { type FinishedTurn, totalUsage } from "./chat-answer.ts";
import type { RunResult } from "./engine.ts";
import type { Runs } from "./runs.service.ts";
import type { RunInput } from "./transcript.ts";

/** contract 6: how long a chat waits for a place. */
const WAIT_MS = 30_000;
/** The reservation outlives the wait a little, so that it is the caller's wait that decides. */
const RESERVED_MS = WAIT_MS + 5_000;

/** Who waits for a chat's run on this node. */
interface Listener {
  onStart(): void;
  onText: ((text: string) => void) | null;
  onEnd(result: RunResult | null): void;
}

/** A turn of a conversation that has been queued. */
export interface Turn {
  run: RunRecord;
  /** The answer. Throws what the turn failed with: 402, 429, 502 and so on. */
  finished: Promise<FinishedTurn>;
}

/** Chat with an agent: every turn is a run that this very node carries out, so that its caller hears it. */
export function createChat(deps: { runs: Runs; scheduling: Scheduling; worker_id: string }) {
  const { runs, scheduling, worker_id } = deps;
  const listeners = new Map<string, Listener>();

  return {
    /** Who waits for the run, if it is a chat of this node; from here on it has started. */
    listenerOf(run: ClaimedRun): Listener | null {
      const listener = listeners.get((run.input as RunInput).ticket ?? "") ?? null;
      listener?.onStart();
      return listener;
    },

    /** Queues a turn. `onText` hears the answer as it is generated; when `signal` is aborted the run is cancelled. */
    async turn(
      caller: Caller,
      id: string,
      chat: AgentChat,
      options: { request_id: string; signal: AbortSignal; onText: ((text: string) => void) | null },
    ): Promise<Turn> {
      for (const field of ["thread_id", "on_disconnect"] as const) {
        if (chat[field] !== undefined)
          throw errors.invalidValue(field, `${field} is not available yet. Send the conversation in messages.`);
      }
      const agent = await runs.ready(caller, id);
      const ticket = newId();
      const started = new AbortController();
      const ended = Promise.withResolvers<RunResult | null>();
      listeners.set(ticket, { onStart: () => started.abort(), onText: options.onText, onEnd: ended.resolve });
      const forget = () => listeners.delete(ticket);
      const { api_key_id, key_budget_tokens } = caller;
      const input: RunInput = {
        messages: chat.messages,
        request_id: options.request_id,
        api_key_id,
        key_budget_tokens,
        ticket,
      };
      try {
        const reserved = { worker_id, for_ms: RESERVED_MS };
        const run = await scheduling.enqueue({ ...runs.newRun(agent, input), trigger: "chat", reserved });
        const finished = answerOf(run, caller.user_id, {
          started: started.signal,
          ended: ended.promise,
          signal: options.signal,
        });
        return { run, finished: finished.finally(forget) };
      } catch (error) {
        forget();
        throw error;
      }
    },
  };

  async function answerOf(
    run: RunRecord,
    user_id: string,
    wait: { started: AbortSignal; ended: Promise<RunResult | null>; signal: AbortSignal },
  ): Promise<FinishedTurn> {
    const key = { user_id, agent_id: run.agent_id };
    const cancel = () => {
      scheduling.requestCancel(key, run.id).catch(() => {}); // it has finished: nothing is left to cancel
    };
    if (wait.signal.aborted) cancel();
    else wait.signal.addEventListener("abort", cancel, { once: true });
    try {
      // Over when it has started, when it was cancelled in the queue, when its caller is gone, when this process ends.
      await scheduling.waitFinished(user_id, run.id, WAIT_MS, AbortSignal.any([wait.started, wait.signal]));
      const result = wait.started.aborted ? await wait.ended : null;
      const now = await scheduling.getRun(key, run.id);
      if (wait.started.aborted || now.finished_at !== null) return finishedTurn(now, result);
      cancel();
      throw errors.rateLimited(1, "Too many runs are at work. Retry when one has finished.");
    } finally {
      wait.signal.removeEventListener("abort", cancel);
    }
  }
}

function finishedTurn(run: RunDetail, result: RunResult | null): FinishedTurn {
  if (run.status === "succeeded" && result !== null) {
    return { run, usage: totalUsage(result.usages), finish_reason: result.finish_reason };
  }
  throw failureOf(run, result);
}

/** The failure that the caller of a chat is answered with. */
function failureOf(run: RunDetail, result: RunResult | null): PurserError {
  if (result?.thrown instanceof PurserError) return result.thrown;
  if (run.status === "cancelled")
    return errors.conflict("run_cancelled", "The run was cancelled before it had answered.");
  if (run.error?.code === "timeout") return errors.upstreamTimeout();
  if (run.error === null || run.error.code === "internal") return errors.internal(result?.thrown);
  return errors.conflict(run.error.code, run.error.message);
}
