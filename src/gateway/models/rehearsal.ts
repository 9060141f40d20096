import type { ChatRequest, FinishReason, ToolCall } from "../../api/contract/completions.ts";
import { stableId } from "../../platform/lib/ids.ts";
import { type AnswerPart, newIdentity } from "./answer-events.ts";
import { callEvent } from "./answer-message.ts";
import type {
  CallOptions,
  Completion,
  Counts,
  Model,
  Provider,
  ProviderRequest,
  ProviderStream,
} from "./models.types.ts";
import { rehearse } from "./rehearsal-script.ts";
import { promptText, UNBOUNDED_PART_TOKENS } from "./token-count.ts";

/** contract 1: the built-in model. Deterministic, offline, rule-based; counted and billed like any other. */
export const REHEARSAL: Omit<Model, "price_version"> = {
  id: "purser/rehearsal",
  model_kind: "chat",
  uuid: stableId("model:purser/rehearsal"),
  name: "Rehearsal (built in, rule-based, offline)",
  owned_by: "purser",
  kind: "openai-compatible",
  forward: [],
  part_tokens: UNBOUNDED_PART_TOKENS,
  provider_model: "rehearsal",
  route: null,
  routes: [],
  context_window: 131_072,
  max_output_tokens: 8_192,
  trial_eligible: true,
  supports: { tools: true, streaming: true, json_schema: true, vision: false, files: false, audio: false },
  tier: "economy",
  rehearsal: true,
  input_rate_micro: 100_000,
  output_rate_micro: 400_000,
  cached_input_rate_micro: null,
  cache_write_rate_micro: null,
  cache_write_1h_rate_micro: null,
  tiers: [],
  upstream: {
    input_rate_micro: 0,
    output_rate_micro: 0,
    tiers: [],
    cached_input_rate_micro: null,
    cache_write_rate_micro: null,
    cache_write_1h_rate_micro: null,
  },
  deprecation: null,
};

const NO_PARTS = { cached_input_tokens: 0, cache_write_tokens: 0, cache_write_1h_tokens: 0, reasoning_tokens: 0 };

/** The final output: whole tokens up to the cap or a stop sequence, or tool calls. */
interface Generation {
  tokens: string[];
  tool_calls: ToolCall[];
  finish_reason: FinishReason;
  output_tokens: number;
}

/** The provider of the rehearsal model. It needs no network and no key. */
export function createRehearsal(): Provider {
  return {
    async prepare(call) {
      const input_tokens = rehearsalTokens(promptText(call.request)).length;
      return { ...call, input_tokens, media_tokens: 0, likely_tokens: input_tokens };
    },

    async complete(request, { signal, onSent }) {
      signal.throwIfAborted();
      onSent?.();
      return toCompletion(generate(request), request);
    },

    async stream(request, { signal, onSent }) {
      signal.throwIfAborted();
      onSent?.();
      return tokenStream(generate(request), request, signal);
    },
  };
}

function generate({ request, max_output_tokens }: ProviderRequest): Generation {
  const { text, tool_calls } = rehearse(request);
  if (tool_calls.length > 0) {
    const said = tool_calls.map(({ function: call }) => `${call.name} ${call.arguments}`).join("\n");
    const output_tokens = rehearsalTokens(said).length;
    // A tool call that does not fit into the cap is dropped, because half a call is invalid.
    if (output_tokens > max_output_tokens) {
      return { tokens: [], tool_calls: [], finish_reason: "length", output_tokens: max_output_tokens };
    }
    return { tokens: [], tool_calls, finish_reason: "tool_calls", output_tokens };
  }
  const all = rehearsalTokens(beforeStop(text, request.stop));
  const tokens = all.slice(0, max_output_tokens);
  const finish_reason = tokens.length < all.length ? "length" : "stop";
  return { tokens, tool_calls: [], finish_reason, output_tokens: tokens.length };
}

function beforeStop(text: string, stop: ChatRequest["stop"]): string {
  const sequences = typeof stop === "string" ? [stop] : (stop ?? []);
  const ends = sequences.filter((each) => each !== "").map((each) => text.indexOf(each));
  const end = Math.min(...ends.filter((at) => at !== -1), text.length);
  return text.slice(0, end);
}

function toCompletion(generation: Generation, request: ProviderRequest): Completion {
  const { tokens, tool_calls, finish_reason, output_tokens } = generation;
  const message = {
    role: "assistant" as const,
    content: tool_calls.length > 0 ? null : tokens.join(""),
    ...(tool_calls.length > 0 ? { tool_calls } : {}),
  };
  const choices = [{ index: 0, message, logprobs: null, finish_reason }];
  return {
    response: { ...newIdentity(), object: "chat.completion", model: request.model.id, choices },
    counts: toCounts(request, output_tokens),
  };
}

function tokenStream(generation: Generation, call: ProviderRequest, signal: CallOptions["signal"]): ProviderStream {
  const { tokens, tool_calls, finish_reason: reason } = generation;
  const said: AnswerPart[] =
    tool_calls.length > 0
      ? [{ events: tool_calls.map(callEvent) }]
      : tokens.map((text) => ({ events: [{ type: "text", choice: 0, text }] }));
  let sent = 0;

  function* parts(): Generator<AnswerPart> {
    yield { events: [{ type: "start", ...newIdentity(), model: call.model.id }] };
    for (const part of said) {
      sent += 1;
      yield part;
    }
    yield { events: [{ type: "finish", choice: 0, reason, stop_sequence: null }] };
  }

  const generated = parts();
  return {
    parts: {
      async next() {
        signal.throwIfAborted();
        // One turn of the event loop per token, so that a long answer does not block other requests.
        if (sent > 0) await new Promise(setImmediate);
        return generated.next();
      },
    },
    counts: () => toCounts(call, sent === said.length ? generation.output_tokens : sent),
    cancel: () => void generated.return(undefined),
  };
}

function toCounts({ input_tokens }: ProviderRequest, output_tokens: number): Counts {
  return { ...NO_PARTS, input_tokens, output_tokens, estimated: false };
}

/**
 * The rehearsal model's tokeniser. A token is up to eight letters and digits, or one other character, with the blanks
 * before it. Linear; the joined tokens are the text.
 */
const TOKEN = /\s{0,8}[\p{L}\p{N}_]{1,8}|\s{0,8}[^\s\p{L}\p{N}_]|\s{1,8}/gu;

/** The tokens of `text`, in order. */
export function rehearsalTokens(text: string): string[] {
  return text.match(TOKEN) ?? [];
}
