import type { ChatRequest, ChatResponse } from "../../api/contract/completions.ts";
import { errors } from "../../kernel/errors.ts";
import { chunkEvent } from "./chunks.ts";
import type {
  CallOptions,
  Completion,
  ModelRequest,
  Provider,
  ProviderRequest,
  ProviderStream,
} from "./models.types.ts";
import { correctionOf, jsonText, WORDS_TOKENS } from "./structured-answer.ts";
import { checkedStream } from "./structured-stream.ts";
import { estimateCounts, sumOfCounts } from "./token-count.ts";

/**
 * JSON answers of models whose provider does not sell them: the schema is part of the prompt, the answer is checked, and
 * the model may correct it once. Both calls are one charge under one hold.
 */

const ANY_OBJECT = { type: "object" };

/** `provider` with JSON answers for all models. */
export function withStructuredOutput(provider: Provider): Provider {
  return {
    ...provider,
    async prepare(call) {
      const schema = schemaToCheck(call);
      if (schema === null) return provider.prepare(call);
      // One answer is checked and corrected; more would be billed and dropped.
      if ((call.request.n ?? 1) > 1) throw errors.unsupportedParameter("n");
      const { native: _, ...converted } = call;
      const first = await provider.prepare({ ...converted, request: instructed(call.request, schema) });
      // The second call sends the first one again, with its answer and the fault.
      const input_tokens = 2 * first.input_tokens + WORDS_TOKENS;
      const held = { input_tokens, call_input_tokens: first.input_tokens, resends_output: true as const };
      return { ...first, ...held, checked_schema: schema };
    },
    complete(request, options) {
      if (request.checked_schema === undefined) return provider.complete(request, options);
      const { checked_schema, ...call } = request;
      return checkedCompletion(provider, { call, schema: checked_schema, options });
    },
    async stream(request, options) {
      if (request.checked_schema === undefined) return provider.stream(request, options);
      const { checked_schema, ...call } = request;
      const checked = { call, schema: checked_schema, options };
      if (request.model.supports.streaming) return checkedStream(provider, checked);
      const whole = { ...call, stream: false };
      return streamOf(await checkedCompletion(provider, { call: whole, schema: checked_schema, options }));
    },
  };
}

/** The schema that the service must check; null: the provider does, or the request has none. */
function schemaToCheck({ request: { response_format: format }, model }: ModelRequest): Record<string, unknown> | null {
  if (format?.type === "json_schema")
    return model.supports.json_schema ? null : (format.json_schema.schema ?? ANY_OBJECT);
  // Claude's API has schemas, and no plain JSON mode.
  return format?.type === "json_object" && model.kind === "anthropic" ? ANY_OBJECT : null;
}

function instructed({ response_format: _, ...request }: ChatRequest, schema: object): ChatRequest {
  const content = `Answer with one JSON value and nothing else. It must be valid against this JSON schema: ${JSON.stringify(schema)}`;
  const first_other = request.messages.findIndex(({ role }) => role !== "system" && role !== "developer");
  const messages = request.messages.toSpliced(Math.max(0, first_other), 0, { role: "system", content });
  return { ...request, messages };
}

/** Whole answers, for callers that want no stream and for models without streams. */
async function checkedCompletion(
  provider: Provider,
  { call, schema, options }: { call: ProviderRequest; schema: Record<string, unknown>; options: CallOptions },
): Promise<Completion> {
  const first = await provider.complete(call, options);
  const content = textOf(first.response);
  const correction = correctionOf(call, { content, counts: first.counts, schema });
  if (correction === null || options.hung_up?.aborted === true) return answered(first, content);
  let sent: ProviderRequest | null = null;
  try {
    const second_call = await provider.prepare(correction);
    const onSent = () => {
      sent = second_call;
    };
    const second = await provider.complete(second_call, { ...options, onSent });
    return answered({ ...second, counts: sumOfCounts([first.counts, second.counts]) }, textOf(second.response));
  } catch {
    // The first answer is billed. It is invalid, but it is an answer. A caller that left pays for the second input too.
    if (sent === null || !options.signal.aborted) return first;
    return { ...first, counts: sumOfCounts([first.counts, estimateCounts(sent, 0)]) };
  }
}

/** The JSON text of an answer; null when it has none. Calls of tools are not checked. */
function textOf({ choices }: ChatResponse): string | null {
  const message = choices[0]?.message;
  if (typeof message?.content !== "string" || (message.tool_calls?.length ?? 0) > 0) return null;
  return jsonText(message.content);
}

function answered(completion: Completion, content: string | null): Completion {
  const message = completion.response.choices[0]?.message;
  if (message !== undefined && content !== null) message.content = content;
  return completion;
}

/** The whole answer as a stream: it can only be checked once it is whole. */
function streamOf({ response, counts }: Completion): ProviderStream {
  const { id, created, model, choices } = response;
  const [choice] = choices;
  const { role, content, reasoning_content, reasoning_details, tool_calls } = choice?.message ?? {
    role: "assistant",
    content: "",
  };
  const calls = tool_calls?.map((call, index) => ({ index, ...call }));
  const delta = { role, content, reasoning_content, reasoning_details, tool_calls: calls };
  const event = (fields: object, finish_reason: unknown) =>
    chunkEvent({ id, created }, model, [{ index: 0, delta: fields, finish_reason }]);
  const events = [event(delta, null), event({}, choice?.finish_reason ?? "stop")].values();
  return {
    blocks: { next: async () => events.next() as IteratorResult<string> },
    identity: () => ({ id, created }),
    counts: () => counts,
    cancel: () => {},
  };
}
