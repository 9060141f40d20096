import type { ChatMessage, ChatRequest, ChatResponse } from "../contract/completions.ts";
import { errors } from "../errors.ts";
import { schemaFault } from "./json-schema.ts";
import type {
  CallOptions,
  Completion,
  Counts,
  ModelRequest,
  Provider,
  ProviderRequest,
  ProviderStream,
} from "./models.types.ts";

/**
 * JSON answers of models whose provider does not sell them: the schema is part of the prompt, the answer is checked, and
 * the model may correct it once. Both calls are one charge under one hold.
 */

const ANY_OBJECT = { type: "object" };
/** A shorter correction is of no use. */
const LEAST_OUTPUT_TOKENS = 64;
/** The most tokens of the words around the schema and the fault. */
const WORDS_TOKENS = 300;
const FENCED = /^```(?:json)?\s*\n([\s\S]*?)\n?```$/;

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
      const input_tokens = 2 * first.input_tokens + call.max_output_tokens + WORDS_TOKENS;
      return { ...first, input_tokens, checked_schema: schema };
    },
    complete(request, options) {
      const { checked_schema, ...call } = request;
      if (checked_schema === undefined) return provider.complete(request, options);
      return checkedCompletion(provider, { call, schema: checked_schema, options });
    },
    async stream(request, options) {
      const { checked_schema, ...call } = request;
      if (checked_schema === undefined) return provider.stream(request, options);
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

async function checkedCompletion(
  provider: Provider,
  { call, schema, options }: { call: ProviderRequest; schema: Record<string, unknown>; options: CallOptions },
): Promise<Completion> {
  const first = await provider.complete(call, options);
  const { content, fault } = checkedText(first.response, schema);
  const left = call.max_output_tokens - first.counts.output_tokens;
  if (fault === null || content === null) return answered(first, content);
  if (left < LEAST_OUTPUT_TOKENS) return first;
  const messages: ChatMessage[] = [
    ...call.request.messages,
    { role: "assistant", content },
    { role: "user", content: `This is not valid: ${fault}. Answer with the corrected JSON and nothing else.` },
  ];
  const again = { ...call, request: { ...call.request, messages }, max_output_tokens: left };
  try {
    const second = await provider.complete(await provider.prepare(again), options);
    const counts = sumOf(first.counts, second.counts);
    return answered({ ...second, counts }, checkedText(second.response, schema).content);
  } catch {
    // The first answer is billed, also if the caller has left since. It is invalid, but it is an answer.
    return first;
  }
}

/** The JSON text of an answer, and what is wrong with it. Calls of tools are not checked. */
function checkedText(
  { choices }: ChatResponse,
  schema: Record<string, unknown>,
): { content: string | null; fault: string | null } {
  const message = choices[0]?.message;
  if (typeof message?.content !== "string" || (message.tool_calls?.length ?? 0) > 0)
    return { content: null, fault: null };
  const content = FENCED.exec(message.content.trim())?.[1] ?? message.content.trim();
  try {
    return { content, fault: schemaFault(JSON.parse(content), schema) };
  } catch {
    return { content, fault: "it is not JSON" };
  }
}

function answered(completion: Completion, content: string | null): Completion {
  const message = completion.response.choices[0]?.message;
  if (message !== undefined && content !== null) message.content = content;
  return completion;
}

function sumOf(one: Counts, other: Counts): Counts {
  const sums = Object.entries(one).map(([name, value]) => {
    const added = other[name as keyof Counts];
    return [name, typeof value === "number" ? value + Number(added) : value || added];
  });
  return Object.fromEntries(sums) as Counts;
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
  const event = (fields: object, finish_reason: unknown) => {
    const chunk = {
      id,
      created,
      model,
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta: fields, finish_reason }],
    };
    return `data: ${JSON.stringify(chunk)}\n\n`;
  };
  const events = [event(delta, null), event({}, choice?.finish_reason ?? "stop")].values();
  return {
    blocks: { next: async () => events.next() as IteratorResult<string> },
    identity: () => ({ id, created }),
    counts: () => counts,
    cancel: () => {},
  };
}
