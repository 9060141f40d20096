import type {
  ContentBlock,
  ContentBlockParam,
  Message,
  MessageCreateParams,
  RawMessageStreamEvent,
} from "@anthropic-ai/sdk/resources/messages";
import { events, json, type Reply } from "../upstream.ts";
import { claudeFault } from "./claude-rules.ts";
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

/** How many blocks before a breakpoint are looked up in the cache. */
const MAX_LOOKBACK_BLOCKS = 20;

/**
 * Anthropic's Messages API as its published schema has it. It rejects what the real API rejects: thinking with a
 * signature of another model, a tool call without its result, a thinking budget at or above the cap, five breakpoints.
 */
export function createMessagesApi(script: Script): { reply: Reply; tokens: Tokens[] } {
  const seals = createSeals();
  const cache = new Set<string>();
  const tokens: Tokens[] = [];
  let n = 0;
  const reply: Reply = (response, request) => {
    const body = request.body as MessageCreateParams;
    try {
      checkRequest(request.path, body, seals);
    } catch (error) {
      if (!(error instanceof Rejected)) throw error;
      const fault = { type: "error", error: { type: "invalid_request_error", message: error.message } };
      return json(fault, 400)(response, request);
    }
    const turn = script(n, request);
    n += 1;
    const counted = countOf(body, turn, cache);
    tokens.push(counted);
    const whole = messageOf({ id: n, body, turn, seals, counted });
    if (body.stream !== true) return json(whole)(response, request);
    return events(...eventsOf(whole).map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`))(
      response,
      request,
    );
  };
  return { reply, tokens };
}

type Seals = ReturnType<typeof createSeals>;

function checkRequest(path: string, body: MessageCreateParams, seals: Seals): void {
  if (!path.endsWith("/messages")) reject(`no such path: ${path}`);
  if (typeof body.max_tokens !== "number") reject("max_tokens: Field required");
  if (body.thinking?.type === "enabled" && body.thinking.budget_tokens >= body.max_tokens) {
    reject("`max_tokens` must be greater than `thinking.budget_tokens`.");
  }
  // The published schema has no temperature any more; models that reason reject it.
  const { temperature } = body as { temperature?: number };
  if (body.thinking !== undefined && temperature !== undefined && temperature !== 1) {
    reject("`temperature` may only be set to 1 when thinking is enabled.");
  }
  if (breakpointsOf(body).length > 4) reject("A maximum of 4 blocks with cache_control may be provided.");
  const fault = claudeFault(body);
  if (fault !== null) reject(fault);
  let called: string[] = [];
  for (const { role, content } of body.messages) {
    const blocks: ContentBlockParam[] = typeof content === "string" ? [{ type: "text", text: content }] : content;
    if (blocks.length === 0) reject(`${role} message has no content`);
    const results = blocks.flatMap((block) => (block.type === "tool_result" ? block.tool_use_id : []));
    if (called.some((id) => !results.includes(id))) reject(`tool_use ids were found without tool_result: ${called}`);
    for (const block of blocks) {
      if (block.type === "thinking") seals.check(block.signature, body.model);
      if (block.type === "redacted_thinking") seals.check(block.data, body.model);
    }
    called = role === "assistant" ? blocks.flatMap((block) => (block.type === "tool_use" ? block.id : [])) : [];
    if (body.thinking?.type === "enabled" && called.length > 0 && blocks[0]?.type.endsWith("thinking") !== true) {
      reject("Expected `thinking` or `redacted_thinking`, but found `tool_use`.");
    }
  }
}

function messageOf({
  id,
  body,
  turn,
  seals,
  counted,
}: {
  id: number;
  body: MessageCreateParams;
  turn: Turn;
  seals: Seals;
  counted: Tokens;
}): Message {
  const { reasoning, text } = turn;
  const content: ContentBlock[] = [];
  if (reasoning !== undefined && turn.hidden === true) {
    content.push({ type: "redacted_thinking", data: seals.seal(body.model, reasoning) });
  } else if (reasoning !== undefined) {
    content.push({ type: "thinking", thinking: reasoning, signature: seals.seal(body.model, reasoning) });
  }
  if (text !== undefined) content.push({ type: "text", text, citations: null });
  for (const [at, call] of (turn.calls ?? []).entries()) {
    const input = call.arguments as Record<string, unknown>;
    content.push({
      type: "tool_use",
      id: call.id ?? `toolu_${id}_${at}`,
      name: call.name,
      input,
      caller: { type: "direct" },
    });
  }
  return {
    id: `msg_${id}`,
    type: "message",
    role: "assistant",
    model: body.model,
    content,
    container: null,
    diagnostics: null,
    stop_details: null,
    stop_reason: turn.end === "length" ? "max_tokens" : (turn.calls?.length ?? 0) > 0 ? "tool_use" : "end_turn",
    stop_sequence: null,
    usage: {
      input_tokens: counted.input - counted.cached - counted.written,
      cache_read_input_tokens: counted.cached,
      cache_creation_input_tokens: counted.written,
      cache_creation: { ephemeral_5m_input_tokens: counted.written, ephemeral_1h_input_tokens: 0 },
      output_tokens: counted.output,
      output_tokens_details: { thinking_tokens: tokensOf(reasoning ?? "") },
      inference_geo: null,
      server_tool_use: null,
      service_tier: "standard",
      speed: null,
    },
  };
}

interface Block {
  text: string;
  is_breakpoint: boolean;
}

/** The blocks of a prompt in the order of the cache: tools, system, messages. */
function blocksOf({ tools = [], system = [], messages }: MessageCreateParams): Block[] {
  const listed = messages.flatMap(({ role, content }): object[] =>
    typeof content === "string" ? [{ role, text: content }] : content.map((block) => ({ role, ...block })),
  );
  const all: object[] = [...tools, ...(typeof system === "string" ? [{ text: system }] : system), ...listed];
  return all.map((block) => {
    const { cache_control, ...rest } = block as { cache_control?: object };
    return { text: JSON.stringify(rest), is_breakpoint: cache_control != null };
  });
}

const breakpointsOf = (body: MessageCreateParams) => blocksOf(body).filter(({ is_breakpoint }) => is_breakpoint);

/** The longest cached prefix before a breakpoint is read, and the rest up to the last breakpoint is written. */
function countOf(body: MessageCreateParams, turn: Turn, cache: Set<string>): Tokens {
  const blocks = blocksOf(body);
  const prefixes = blocks.map((_, at) =>
    blocks
      .slice(0, at + 1)
      .map(({ text }) => text)
      .join("\n"),
  );
  const ends = blocks.flatMap(({ is_breakpoint }, at) => (is_breakpoint ? at : []));
  let cached = 0;
  for (const end of ends) {
    for (let at = end; at >= Math.max(0, end - MAX_LOOKBACK_BLOCKS); at -= 1) {
      const prefix = prefixes[at] ?? "";
      if (cache.has(prefix)) cached = Math.max(cached, tokensOf(prefix));
    }
  }
  let written = 0;
  for (const end of ends) {
    const prefix = prefixes[end] ?? "";
    if (tokensOf(prefix) < LEAST_CACHED) continue;
    cache.add(prefix);
    written = Math.max(written, tokensOf(prefix) - cached);
  }
  return { input: tokensOf(prefixes.at(-1) ?? ""), cached, written, output: tokensOf(textOfTurn(turn)) };
}

function eventsOf(whole: Message): RawMessageStreamEvent[] {
  const { usage, stop_reason, content } = whole;
  const begun: Message = { ...whole, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } };
  return [
    { type: "message_start", message: begun },
    ...content.flatMap(eventsOfBlock),
    {
      type: "message_delta",
      delta: { stop_reason, stop_sequence: null, container: null, stop_details: null },
      usage: {
        input_tokens: usage.input_tokens,
        cache_creation_input_tokens: usage.cache_creation_input_tokens,
        cache_read_input_tokens: usage.cache_read_input_tokens,
        output_tokens: usage.output_tokens,
        output_tokens_details: usage.output_tokens_details,
        server_tool_use: null,
      },
    },
    { type: "message_stop" },
  ];
}

function eventsOfBlock(block: ContentBlock, index: number): RawMessageStreamEvent[] {
  const stop: RawMessageStreamEvent = { type: "content_block_stop", index };
  const delta = (
    piece: Extract<RawMessageStreamEvent, { type: "content_block_delta" }>["delta"],
  ): RawMessageStreamEvent => ({
    type: "content_block_delta",
    index,
    delta: piece,
  });
  const start = (content_block: ContentBlock): RawMessageStreamEvent => ({
    type: "content_block_start",
    index,
    content_block,
  });
  switch (block.type) {
    case "text": {
      const pieces = block.text.split(/(?= )/).map((text) => delta({ type: "text_delta", text }));
      return [start({ ...block, text: "" }), ...pieces, stop];
    }
    case "thinking":
      return [
        start({ ...block, thinking: "", signature: "" }),
        delta({ type: "thinking_delta", thinking: block.thinking }),
        delta({ type: "signature_delta", signature: block.signature }),
        stop,
      ];
    case "tool_use":
      return [
        start({ ...block, input: {} }),
        delta({ type: "input_json_delta", partial_json: JSON.stringify(block.input) }),
        stop,
      ];
    default:
      return [start(block), stop];
  }
}
