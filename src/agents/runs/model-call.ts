import type { TransactionHook } from "../../account/ledger/ledger.types.ts";
import type { FinishReason } from "../../api/contract/completions.ts";
import { finishReasonOf } from "../../gateway/completions/answer-pieces.ts";
import type {
  CompletionAnswer,
  CompletionCall,
  CompletionOutcome,
  Completions,
} from "../../gateway/completions/completions.types.ts";
import { createAnswerReader } from "./answer-reader.ts";
import type { AssistantMessage } from "./transcript.ts";

/** A model's answer, complete or partial, with its cost. */
export interface ModelAnswer extends CompletionAnswer {
  message: AssistantMessage;
  finish_reason: FinishReason;
}

/** One model call of a run. `record` makes the hook that records the answer in the transaction of its charge. */
export interface ModelCall extends Omit<CompletionCall, "hook"> {
  record(answer: ModelAnswer): TransactionHook;
}

/** `thrown` is the error that ended an incomplete answer. */
export type ModelOutcome = Pick<ModelAnswer, "message" | "finish_reason"> & CompletionOutcome & { thrown: unknown };

/**
 * Makes the call. An interrupted answer is also an outcome once it is charged, whichever side stopped it. Null when the
 * call was aborted before it was sent, or handed back before the model generated anything. Throws the PurserError of a
 * call without an outcome.
 */
export async function callModel(
  completions: Completions,
  call: ModelCall,
  { in_one_piece, onText }: { in_one_piece: boolean; onText: ((text: string) => void) | null },
): Promise<ModelOutcome | null> {
  if (!in_one_piece) return streamed(completions, call, onText);
  const outcome = await whole(completions, call);
  if (typeof outcome.message.content === "string") onText?.(outcome.message.content);
  return outcome;
}

async function whole(completions: Completions, { record, ...call }: ModelCall): Promise<ModelOutcome> {
  let said: Pick<ModelAnswer, "message" | "finish_reason"> | undefined;
  const outcome = await completions.complete({
    ...call,
    hook: (answer) => {
      const choice = answer.response?.choices[0];
      said = {
        message: choice?.message ?? { role: "assistant", content: null },
        finish_reason: finishReasonOf(choice?.finish_reason),
      };
      return record({ ...answer, ...said });
    },
  });
  if (said === undefined) throw new Error("a model call was settled without its hook");
  return { ...outcome, ...said, thrown: null };
}

async function streamed(
  completions: Completions,
  { record, ...call }: ModelCall,
  onText: ((text: string) => void) | null,
): Promise<ModelOutcome | null> {
  const reader = createAnswerReader();
  const said = () => ({ message: reader.message(), finish_reason: reader.finishReason() });
  const stream = await completions.stream({ ...call, hook: (answer) => record({ ...answer, ...said() }) });
  let thrown: unknown = null;
  try {
    for await (const events of stream) {
      const text = reader.read(events);
      if (text !== "") onText?.(text);
    }
  } catch (failure) {
    thrown = failure;
  }
  // An aborted stream may still be charging.
  await stream.return();
  const outcome = stream.outcome();
  if (outcome === null && thrown !== null) throw thrown;
  return outcome === null ? null : { ...outcome, ...said(), thrown };
}
