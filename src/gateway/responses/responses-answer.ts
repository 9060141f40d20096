import type { ChatResponse, FinishReason, Routing, Usage } from "../../api/contract/completions.ts";
import type { ResponseRecord, ResponseRequest, ResponseTool } from "../../api/contract/responses.ts";
import type { ErrorShape } from "../../kernel/errors.ts";
import { isSmallJson } from "../../platform/lib/json.ts";
import { type Chunk, createPieceReader, type Delta, finishReasonOf, type Piece } from "../completions/answer-pieces.ts";
import type { AnswerWriter } from "../completions/endpoint.ts";
import type { Envelope } from "../completions/reasoning-envelope.ts";
import { createItemEvents, type ItemEvents } from "./item-events.ts";
import type { ResponseContext } from "./responses.types.ts";

/** Writes a chat completion as a response. A whole answer takes the same way as a stream, as one chunk. */

const INCOMPLETE: Partial<Record<FinishReason, string>> = {
  length: "max_output_tokens",
  content_filter: "content_filter",
};
/** Codes that OpenAI's clients show with their message. */
const FAILURES: Readonly<Record<string, string>> = {
  rate_limited: "rate_limit_exceeded",
  upstream_error: "server_error",
  upstream_timeout: "server_error",
  internal: "server_error",
  overloaded: "server_error",
};

/** OpenAI's longest name of a service tier is `priority`. */
const MAX_TIER = 64;

/** The writer of one answer. Its events and its whole response have the same output. */
export function createResponseWriter(context: ResponseContext): AnswerWriter {
  const { asked, newId } = context;
  const identity = { id: `resp_${newId()}`, object: "response" as const, created_at: context.created_at };
  const piecesOf = createPieceReader();
  const seen: Seen = { model: asked.model, finish_reason: "stop", usage: null, service_tier: "default", envelope: {} };
  const items = createItemEvents(context, (found) => ({ ...found, model: seen.model }));
  const settings = repeatedSettings(asked);
  let sequence = 0;
  let has_begun = false;

  /** A penalty that the answer was made with. */
  const applied = (field: "presence_penalty" | "frequency_penalty"): number =>
    (context.takes(seen.model, field) ? asked[field] : null) ?? 0;
  const record = (status: ResponseRecord["status"], error: ResponseRecord["error"] = null): ResponseRecord => ({
    ...identity,
    status,
    error,
    completed_at: status === "completed" ? context.nowSeconds() : null,
    ...settings,
    store: asked.store !== false && status !== "failed",
    service_tier: seen.service_tier,
    presence_penalty: applied("presence_penalty"),
    frequency_penalty: applied("frequency_penalty"),
    ...outcomeOf(seen, status),
    output: [...items.output()],
  });
  const written = (events: readonly object[]): string =>
    events
      .map((event) => {
        const { type } = event as { type: string };
        const numbered = { ...event, sequence_number: sequence };
        sequence += 1;
        return `event: ${type}\ndata: ${JSON.stringify(numbered)}\n\n`;
      })
      .join("");
  const begin = (): object[] => {
    if (has_begun) return [];
    has_begun = true;
    const response = record("in_progress");
    return [
      { type: "response.created", response },
      { type: "response.in_progress", response },
    ];
  };
  const take = (delta: Delta): object[] => {
    noteSecrets(delta, seen.envelope);
    return piecesOf(delta).flatMap((piece) => eventsOf(piece, items));
  };
  const finish = (): ResponseRecord["status"] =>
    INCOMPLETE[seen.finish_reason] === undefined ? "completed" : "incomplete";
  const closing = () => items.close(seen.envelope);
  /** The response as it is answered and stored. Without room for it, it says so. */
  const finished = async (): Promise<ResponseRecord> => {
    const response = record(finish());
    return (await context.keep(response)) ? response : { ...response, store: false };
  };

  return {
    paramOf: context.paramOf,
    chunk(chunk: Chunk): string {
      note(chunk, seen);
      return written([...begin(), ...(chunk.choices ?? []).slice(0, 1).flatMap(({ delta }) => take(delta ?? {}))]);
    },
    async end(): Promise<string> {
      const events = [...begin(), ...closing()];
      const response = await finished();
      return written([...events, { type: `response.${response.status}`, response }]);
    },
    failed(error: Pick<ErrorShape, "type" | "code" | "message">): string {
      const code = FAILURES[error.code] ?? error.code;
      const response = record("failed", { code, message: error.message });
      return written([...begin(), { type: "response.failed", response }]);
    },
    async whole(response: ChatResponse): Promise<ResponseRecord> {
      const [choice] = response.choices;
      note({ ...response, choices: [{ finish_reason: choice?.finish_reason ?? null }] } as unknown as Chunk, seen);
      take((choice?.message ?? {}) as Delta);
      closing();
      return await finished();
    },
  };
}

/** What the chunks have told so far, besides the output. */
interface Seen {
  model: string;
  finish_reason: FinishReason;
  usage: Usage | null;
  /** The tier that the provider reports. */
  service_tier: string;
  routing?: Routing;
  envelope: Envelope;
}

function note({ model, usage, routing, choices, ...others }: Chunk, seen: Seen): void {
  if (typeof model === "string") seen.model = model;
  if (usage != null) seen.usage = usage;
  const { service_tier } = others as { service_tier?: unknown };
  if (typeof service_tier === "string" && service_tier.length <= MAX_TIER) seen.service_tier = service_tier;
  if (routing !== undefined) seen.routing = routing;
  const reason = choices?.[0]?.finish_reason;
  if (reason != null) seen.finish_reason = finishReasonOf(reason);
}

/** Keeps the signatures of calls: the Responses API has no field for them. */
function noteSecrets({ tool_calls }: Delta, envelope: Envelope): void {
  for (const { id, extra_content } of tool_calls ?? []) {
    if (id === undefined || extra_content === undefined) continue;
    envelope.calls = { ...envelope.calls, [id]: extra_content };
  }
}

function eventsOf(piece: Piece, items: ItemEvents): object[] {
  switch (piece.type) {
    case "reasoning":
      return items.reasoning(piece.text);
    case "details":
      return items.details(piece.details);
    case "text":
    case "refusal":
      return items.text(piece.type, piece.text);
    case "call":
      return items.call(piece);
    case "arguments":
      return items.callArguments(piece);
  }
}

/** A function with every field that OpenAI's answers have. */
function repeatedTool(tool: ResponseTool): ResponseTool {
  if (tool.type !== "function") return tool;
  const { description = null, parameters = null, strict = false } = tool as Record<string, unknown>;
  return { ...tool, description, parameters, strict: strict ?? false } as ResponseTool;
}

/** The format with every field that OpenAI's answers have. */
function repeatedText({ format, verbosity }: NonNullable<ResponseRequest["text"]>) {
  const repeated =
    format?.type === "json_schema"
      ? {
          ...format,
          description: format.description ?? null,
          schema: format.schema ?? null,
          strict: format.strict ?? false,
        }
      : (format ?? { type: "text" as const });
  return { format: repeated, ...(verbosity == null ? {} : { verbosity }) };
}

/**
 * The request's settings, as OpenAI's answers repeat them. Each event with a response has them all, so large ones are
 * left out: metadata and tools of 31 MB cost no tokens.
 */
function repeatedSettings(request: ResponseRequest) {
  const is_repeated = ([, value]: [string, unknown]) => isSmallJson(value);
  const asked = Object.fromEntries(Object.entries(request).filter(is_repeated)) as Partial<ResponseRequest>;
  return {
    background: false,
    instructions: asked.instructions ?? null,
    max_output_tokens: asked.max_output_tokens ?? null,
    metadata: asked.metadata ?? {},
    parallel_tool_calls: asked.parallel_tool_calls ?? true,
    max_tool_calls: asked.max_tool_calls ?? null,
    previous_response_id: asked.previous_response_id ?? null,
    prompt_cache_key: asked.prompt_cache_key ?? null,
    reasoning: { effort: asked.reasoning?.effort ?? null, summary: asked.reasoning?.summary ?? null },
    safety_identifier: asked.safety_identifier ?? null,
    temperature: asked.temperature ?? 1,
    text: repeatedText(asked.text ?? {}),
    tool_choice: asked.tool_choice ?? "auto",
    tools: (asked.tools ?? []).map(repeatedTool),
    top_logprobs: asked.top_logprobs ?? 0,
    top_p: asked.top_p ?? 1,
    truncation: asked.truncation ?? "disabled",
    user: asked.user ?? null,
  };
}

function outcomeOf({ model, usage, routing, finish_reason }: Seen, status: ResponseRecord["status"]) {
  const reason = INCOMPLETE[finish_reason];
  return {
    model,
    incomplete_details: status === "incomplete" && reason !== undefined ? { reason } : null,
    usage: usage === null ? null : responseUsage(usage),
    ...(routing === undefined ? {} : { routing }),
  };
}

function responseUsage({
  prompt_tokens: _,
  completion_tokens: __,
  prompt_tokens_details: input_tokens_details,
  completion_tokens_details: output_tokens_details,
  ...usage
}: Usage) {
  return { ...usage, input_tokens_details, output_tokens_details };
}
