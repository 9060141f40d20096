import type {
  CompletionAnswer,
  CompletionCall,
  CompletionOutcome,
  Completions,
} from "../completions/completions.types.ts";
import type { FinishReason } from "../contract/completions.ts";
import type { Rider } from "../ledger/ledger.types.ts";
import { createAnswerReader } from "./answer-reader.ts";
import type { AssistantMessage } from "./transcript.ts";

/** A model's answer with what it cost. */
export interface ModelAnswer extends CompletionAnswer {
  message: AssistantMessage;
  finish_reason: FinishReason;
}

/** One model call of a run; `record` makes the rider that records the answer in the very transaction of its charge. */
export interface ModelCall extends Omit<CompletionCall, "rider"> {
  record(answer: ModelAnswer): Rider;
}

export type ModelOutcome = Pick<ModelAnswer, "message" | "finish_reason"> & CompletionOutcome;

/**
 * Makes the call: as a stream when somebody listens to its text, else in one piece. Null when it was aborted before the
 * model had said anything. Throws PurserErrors.
 */
export async function callModel(
  completions: Completions,
  { record, ...call }: ModelCall,
  onText: ((text: string) => void) | null,
): Promise<ModelOutcome | null> {
  if (onText !== null) return streamed(completions, { record, ...call }, onText);
  let said: Pick<ModelAnswer, "message" | "finish_reason"> | undefined;
  const outcome = await completions.complete({
    ...call,
    rider: (answer) => {
      const choice = answer.response?.choices[0];
      said = {
        message: choice?.message ?? { role: "assistant", content: null },
        finish_reason: choice?.finish_reason ?? "stop",
      };
      return record({ ...answer, ...said });
    },
  });
  if (said === undefined) throw new Error("a model call was settled without its rider");
  return { ...outcome, ...said };
}

async function streamed(
  completions: Completions,
  { record, ...call }: ModelCall,
  onText: (text: string) => void,
): Promise<ModelOutcome | null> {
  const reader = createAnswerReader();
  const said = () => ({ message: reader.message(), finish_reason: reader.finishReason() });
  const stream = await completions.stream({ ...call, rider: (answer) => record({ ...answer, ...said() }) });
  for await (const events of stream) {
    const text = reader.read(events);
    if (text !== "") onText(text);
  }
  const outcome = stream.outcome();
  return outcome === null ? null : { ...outcome, ...said() };
}
