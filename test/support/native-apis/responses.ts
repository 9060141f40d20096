import type {
  Response as OpenAiResponse,
  ResponseCreateParams,
  ResponseInputItem,
  ResponseOutputItem,
  ResponseStreamEvent,
} from "openai/resources/responses/responses";
import { events, json, type Reply } from "../upstream.ts";
import {
  createSeals,
  LEAST_CACHED,
  Rejected,
  reject,
  type Script,
  type Tokens,
  type Turn,
  textOfTurn,
  tokensOf,
} from "./turn.ts";

/**
 * OpenAI's Responses API as its published schema has it. It stores nothing, so reasoning must come back encrypted. It
 * rejects what the real API rejects: reasoning of another model, a call without its result, unknown settings.
 */
export function createResponsesApi(script: Script): { reply: Reply; tokens: Tokens[] } {
  const seals = createSeals();
  const prompts: string[] = [];
  const tokens: Tokens[] = [];
  let n = 0;
  const reply: Reply = async (response, request) => {
    const body = request.body as ResponseCreateParams;
    try {
      checkRequest(request.path, body, seals);
    } catch (error) {
      if (!(error instanceof Rejected)) throw error;
      const fault = { message: error.message, type: "invalid_request_error", param: null, code: null };
      return json({ error: fault }, 400)(response, request);
    }
    const turn = script(n, request);
    n += 1;
    const output = outputOf(turn, { id: n, model: String(body.model), seals, include: body.include ?? [] });
    const counted = countOf(body, turn, prompts);
    tokens.push(counted);
    const whole = responseOf({ id: n, body, output, turn, counted });
    if (body.stream !== true) return json(whole)(response, request);
    return events(...eventsOf(whole).map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`))(
      response,
      request,
    );
  };
  return { reply, tokens };
}

type Seals = ReturnType<typeof createSeals>;

function checkRequest(path: string, body: ResponseCreateParams, seals: Seals): void {
  if (!path.endsWith("/responses")) reject(`no such path: ${path}`);
  for (const field of ["messages", "max_tokens", "stop", "seed"])
    if (field in body) reject(`Unknown parameter: '${field}'.`);
  if (body.store !== false) reject("this organization stores nothing: store must be false");
  if (!Array.isArray(body.input)) reject("input must be a list");
  const open = new Set<string>();
  for (const [at, item] of body.input.entries()) checkItem(item, { body, seals, open, next: body.input[at + 1] });
  if (open.size > 0) reject(`No tool output found for function call ${[...open].join(", ")}.`);
}

function checkItem(
  item: ResponseInputItem,
  {
    body,
    seals,
    open,
    next,
  }: { body: ResponseCreateParams; seals: Seals; open: Set<string>; next?: ResponseInputItem | undefined },
): void {
  if (item.type === "reasoning") {
    seals.check(item.encrypted_content, String(body.model));
    if (next === undefined) reject("Item 'reasoning' was provided without its required following item.");
  }
  if (item.type === "function_call" || item.type === "custom_tool_call") open.add(String(item.call_id));
  if (item.type === "function_call_output" || item.type === "custom_tool_call_output") {
    if (!open.delete(String(item.call_id)))
      reject(`No tool call found for function call output with call_id ${item.call_id}.`);
  }
  if (item.type === "item_reference") reject("Item not found: items are not persisted when store is false.");
}

function outputOf(
  turn: Turn,
  { id, model, seals, include }: { id: number; model: string; seals: Seals; include: readonly string[] },
): ResponseOutputItem[] {
  const output: ResponseOutputItem[] = [];
  if (turn.reasoning !== undefined) {
    const is_asked = include.includes("reasoning.encrypted_content");
    output.push({
      type: "reasoning",
      id: `rs_${id}`,
      summary: turn.hidden === true ? [] : [{ type: "summary_text", text: turn.reasoning }],
      ...(is_asked ? { encrypted_content: seals.seal(model, turn.reasoning) } : {}),
    });
  }
  if (turn.text !== undefined) {
    const part = { type: "output_text" as const, text: turn.text, annotations: [], logprobs: [] };
    output.push({ type: "message", id: `msg_${id}`, role: "assistant", status: "completed", content: [part] });
  }
  for (const [at, call] of (turn.calls ?? []).entries()) {
    output.push({
      type: "function_call",
      id: `fc_${id}_${at}`,
      call_id: `call_${id}_${at}`,
      name: call.name,
      arguments: JSON.stringify(call.arguments),
      status: "completed",
    });
  }
  return output;
}

/** A prefix that an earlier request with the same key had is cached, in steps of 128 tokens. */
function countOf(body: ResponseCreateParams, turn: Turn, prompts: string[]): Tokens {
  const prompt = JSON.stringify([body.prompt_cache_key ?? null, body.tools ?? [], body.input]);
  const input = tokensOf(prompt);
  const common = Math.max(0, ...prompts.map((earlier) => tokensOf(prompt.slice(0, commonLength(prompt, earlier)))));
  const cached = common < LEAST_CACHED ? 0 : Math.floor(Math.min(common, input) / 128) * 128;
  prompts.push(prompt);
  return { input, cached, written: 0, output: tokensOf(textOfTurn(turn)) };
}

function commonLength(one: string, other: string): number {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at += 1;
  return at;
}

function responseOf({
  id,
  body,
  output,
  turn,
  counted,
}: {
  id: number;
  body: ResponseCreateParams;
  output: ResponseOutputItem[];
  turn: Turn;
  counted: Tokens;
}): OpenAiResponse {
  const is_cut = turn.end === "length";
  const text = turn.text ?? "";
  return {
    id: `resp_${id}`,
    object: "response",
    access_programs: null,
    created_at: 1_760_000_000,
    output_text: text,
    status: is_cut ? "incomplete" : "completed",
    error: null,
    incomplete_details: is_cut ? { reason: "max_output_tokens" } : null,
    instructions: null,
    metadata: null,
    model: String(body.model),
    output,
    parallel_tool_calls: true,
    temperature: null,
    tool_choice: "auto",
    tools: [],
    top_p: null,
    usage: {
      input_tokens: counted.input,
      input_tokens_details: { cached_tokens: counted.cached, cache_write_tokens: counted.written },
      output_tokens: counted.output,
      output_tokens_details: { reasoning_tokens: tokensOf(turn.reasoning ?? "") },
      total_tokens: counted.input + counted.output,
    },
  };
}

/** The events of a whole answer, in the order of the real API. */
function eventsOf(whole: OpenAiResponse): ResponseStreamEvent[] {
  const begun = { ...whole, status: "in_progress" as const, output: [], usage: undefined } as unknown as OpenAiResponse;
  const body: ResponseStreamEvent[] = [
    { type: "response.created", response: begun, sequence_number: 0 },
    { type: "response.in_progress", response: begun, sequence_number: 0 },
    ...whole.output.flatMap(eventsOfItem),
    whole.status === "incomplete"
      ? { type: "response.incomplete", response: whole, sequence_number: 0 }
      : { type: "response.completed", response: whole, sequence_number: 0 },
  ];
  return body.map((event, sequence_number) => ({ ...event, sequence_number }));
}

function eventsOfItem(item: ResponseOutputItem, output_index: number): ResponseStreamEvent[] {
  const sequence_number = 0;
  const added = (begun: ResponseOutputItem): ResponseStreamEvent => ({
    type: "response.output_item.added",
    item: begun,
    output_index,
    sequence_number,
  });
  const done: ResponseStreamEvent = { type: "response.output_item.done", item, output_index, sequence_number };
  const at = { item_id: String(item.id), output_index, sequence_number };
  if (item.type === "reasoning") {
    const parts = item.summary.flatMap((part, summary_index): ResponseStreamEvent[] => [
      { type: "response.reasoning_summary_part.added", part: { ...part, text: "" }, summary_index, ...at },
      { type: "response.reasoning_summary_text.delta", delta: part.text, summary_index, ...at },
      { type: "response.reasoning_summary_text.done", text: part.text, summary_index, ...at },
      { type: "response.reasoning_summary_part.done", part, summary_index, ...at },
    ]);
    return [added({ ...item, summary: [], encrypted_content: null }), ...parts, done];
  }
  if (item.type === "message") {
    const [part] = item.content;
    if (part?.type !== "output_text") throw new Error("only texts");
    const pieces = part.text.split(/(?= )/);
    return [
      added({ ...item, status: "in_progress", content: [] }),
      { type: "response.content_part.added", part: { ...part, text: "" }, content_index: 0, ...at },
      ...pieces.map(
        (delta): ResponseStreamEvent => ({
          type: "response.output_text.delta",
          delta,
          logprobs: [],
          content_index: 0,
          ...at,
        }),
      ),
      { type: "response.output_text.done", text: part.text, logprobs: [], content_index: 0, ...at },
      { type: "response.content_part.done", part, content_index: 0, ...at },
      done,
    ];
  }
  if (item.type !== "function_call") throw new Error("not scripted");
  return [
    added({ ...item, arguments: "", status: "in_progress" }),
    { type: "response.function_call_arguments.delta", delta: item.arguments, ...at },
    { type: "response.function_call_arguments.done", arguments: item.arguments, ...at },
    done,
  ];
}
