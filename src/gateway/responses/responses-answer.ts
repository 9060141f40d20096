import type { ChatResponse, FinishReason, Routing, Usage } from "../../api/contract/completions.ts";
import type { ResponseRecord, ResponseRequest, ResponseTool } from "../../api/contract/responses.ts";
import type { PurserError } from "../../kernel/errors.ts";
import type { AnswerWriter } from "../completions/completions.types.ts";
import type { Envelope } from "../completions/reasoning-envelope.ts";
import type { AnswerEvent, AnswerPart } from "../models/answer-events.ts";
import { responseEvents } from "../models/answer-message.ts";
import { createItemEvents } from "./item-events.ts";
import type { ResponseContext } from "./responses.types.ts";

/** Writes an answer as a response of OpenAI's API. A whole answer takes the same way as a stream. */

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
/** The most characters of a setting that answers repeat. */
const MAX_REPEATED_CHARS = 65_536;

/** The writer of one answer. Its events and its whole response have the same output. */
export function createResponseWriter(context: ResponseContext): AnswerWriter {
  const { asked, newId } = context;
  const identity = { id: `resp_${newId()}`, object: "response" as const, created_at: context.created_at };
  const seen: Seen = {
    model: asked.model,
    finish_reason: "stop",
    usage: null,
    routing: null,
    service_tier: "default",
    calls: {},
  };
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
  const finish = (): ResponseRecord["status"] =>
    INCOMPLETE[seen.finish_reason] === undefined ? "completed" : "incomplete";
  /** The signatures of calls go into an item of their own: the Responses API has no field for them. */
  const closing = () => items.close(Object.keys(seen.calls).length === 0 ? {} : { calls: seen.calls });
  /** The response as it is answered and stored. Without room for it, it says so. */
  const finished = async (): Promise<ResponseRecord> => {
    const response = record(finish());
    return (await context.keep(response)) ? response : { ...response, store: false };
  };

  const begin = (): object[] => {
    if (has_begun) return [];
    has_begun = true;
    const response = record("in_progress");
    return [
      { type: "response.created", response },
      { type: "response.in_progress", response },
    ];
  };
  const failed = ({ shape: { code, message } }: PurserError): object[] => [
    ...begin(),
    { type: "response.failed", response: record("failed", { code: FAILURES[code] ?? code, message }) },
  ];

  /** The events of the Responses API for one of the answer. */
  const take = (event: AnswerEvent): object[] => {
    switch (event.type) {
      case "start":
        seen.model = event.model;
        return begin();
      case "model":
        seen.model = event.model;
        return [];
      case "service_tier":
        if (event.tier.length <= MAX_TIER) seen.service_tier = event.tier;
        return [];
      case "reasoning":
        return items.reasoning(event.text);
      case "reasoning_details":
        return items.details(event.details);
      case "text":
      case "refusal":
        return items.text(event.type, event.text);
      case "call":
        if (event.extra_content !== undefined) seen.calls[event.id] = event.extra_content;
        return items.call(event);
      case "arguments":
        return items.callArguments(event);
      case "finish":
        seen.finish_reason = event.reason;
        return [];
      case "end":
        seen.usage = event.usage ?? seen.usage;
        seen.routing = event.routing ?? seen.routing;
        return closing();
      case "error":
        return failed(event.error);
    }
  };
  const takeAll = (events: readonly AnswerEvent[]): object[] =>
    events.flatMap((event) => ("choice" in event && event.choice !== 0 ? [] : take(event)));

  return {
    paramOf: context.paramOf,
    async write({ events }: AnswerPart): Promise<string> {
      const out = takeAll(events);
      if (!events.some(({ type }) => type === "end")) return written(out);
      const response = await finished();
      return written([...out, { type: `response.${response.status}`, response }]);
    },
    failed: (error: PurserError): string => written(failed(error)),
    async whole(response: ChatResponse): Promise<ResponseRecord> {
      takeAll(responseEvents(response));
      seen.usage = response.usage ?? null;
      seen.routing = response.routing ?? null;
      closing();
      return await finished();
    },
  };
}

/** What the events have told so far, besides the output. */
interface Seen {
  model: string;
  finish_reason: FinishReason;
  usage: Usage | null;
  /** The tier that the provider reports. */
  service_tier: string;
  routing: Routing | null;
  /** The signatures of calls, by the call's id. */
  calls: NonNullable<Envelope["calls"]>;
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
 * left out: metadata costs no tokens.
 */
function repeatedSettings(request: ResponseRequest) {
  const is_repeated = ([, value]: [string, unknown]) => (JSON.stringify(value)?.length ?? 0) <= MAX_REPEATED_CHARS;
  const { input: _input, ...settings } = request;
  const asked = Object.fromEntries(Object.entries(settings).filter(is_repeated)) as Partial<ResponseRequest>;
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
    ...(routing === null ? {} : { routing }),
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
