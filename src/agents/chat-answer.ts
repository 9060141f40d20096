import type { FinishReason, Usage } from "../contract/completions.ts";
import type { RunDetail } from "../contract/runs.ts";

/** What a finished turn of a chat is answered with, in OpenAI's shapes. Pure. */

/** The usages of a run's model calls, added up. */
export function totalUsage(usages: readonly Usage[]): Usage {
  const sum = (pick: (usage: Usage) => number) => usages.reduce((total, usage) => total + pick(usage), 0);
  const input_tokens = sum((usage) => usage.input_tokens);
  const output_tokens = sum((usage) => usage.output_tokens);
  return {
    input_tokens,
    output_tokens,
    total_tokens: input_tokens + output_tokens,
    cost_tokens: sum((usage) => usage.cost_tokens),
    prompt_tokens: input_tokens,
    completion_tokens: output_tokens,
    prompt_tokens_details: { cached_tokens: sum((usage) => usage.prompt_tokens_details.cached_tokens) },
    completion_tokens_details: { reasoning_tokens: sum((usage) => usage.completion_tokens_details.reasoning_tokens) },
    ...(usages.some((usage) => usage.estimated) ? { estimated: true as const } : {}),
  };
}

/** A turn that has succeeded. */
export interface FinishedTurn {
  run: RunDetail;
  usage: Usage;
  finish_reason: FinishReason;
}

/** The whole answer: a chat.completion with `run_id`. */
export function chatAnswer({ run, usage, finish_reason }: FinishedTurn) {
  const message = { role: "assistant" as const, content: run.output ?? "" };
  return {
    ...identity(run),
    object: "chat.completion" as const,
    model: run.model_id ?? "",
    choices: [{ index: 0, message, finish_reason }],
    usage,
    run_id: run.id,
    ...(run.routing === null ? {} : { routing: run.routing }),
  };
}

/** One event of a streamed answer. */
export function chatChunk(
  run: Pick<RunDetail, "id" | "queued_at" | "model_id">,
  delta: { role?: "assistant"; content?: string },
  last: { finish_reason: FinishReason } | null = null,
): string {
  const choices = [{ index: 0, delta, finish_reason: last?.finish_reason ?? null }];
  return event({
    ...identity(run),
    object: "chat.completion.chunk",
    model: run.model_id ?? "",
    choices,
    run_id: run.id,
  });
}

/** The last events: the usage of the whole run, and the end. */
export function chatEnd({ run, usage }: FinishedTurn): string {
  const routing = run.routing === null ? {} : { routing: run.routing };
  const chunk = {
    ...identity(run),
    object: "chat.completion.chunk",
    model: run.model_id ?? "",
    choices: [],
    usage,
    run_id: run.id,
    ...routing,
  };
  return `${event(chunk)}data: [DONE]\n\n`;
}

function event(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

function identity({ id, queued_at }: { id: string; queued_at: string }) {
  return { id: `chatcmpl-${id}`, created: Math.floor(Date.parse(queued_at) / 1000) };
}
