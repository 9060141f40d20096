import type { ChatRequest } from "../../api/contract/completions.ts";
import { errors } from "../../kernel/errors.ts";
import { fieldsOf } from "../../platform/lib/json.ts";
import type { Body, Dialect, LanguageModel, LanguageModelCall } from "./language-model-dialect.ts";
import { languageModelCall } from "./language-model-prompt.ts";
import type { Model, ModelRequest, Provider, ProviderRequest } from "./models.types.ts";
import { createNativeReader, nativeCompletion } from "./native-reader.ts";
import { MAX_ANSWER_BYTES, partStream, type Receiving, send } from "./provider-answers.ts";
import { readText } from "./provider-connections.ts";
import { collectSecrets, failureOfThrown } from "./provider-errors.ts";
import { isDefault } from "./request-fields.ts";
import { heldInput } from "./token-count.ts";

/** Timeout before the first byte and between two bytes. A model that reasons may send nothing for minutes. */
const SILENCE_MS = 300_000;

/** Settings of the reasoning and of the context, which the dialect corrects in the body. */
const ADJUSTED = ["reasoning_effort", "reasoning", "thinking", "output_config", "context_management"];

/** The AI SDK's own errors about a prompt, before it sends a request. */
const REFUSED_HERE = new Set(["AI_UnsupportedFunctionalityError", "AI_InvalidPromptError", "AI_InvalidArgumentError"]);

/** A request as the SDK has written it. */
interface WrittenRequest {
  url: URL;
  headers: Record<string, string>;
  body: string;
}

/**
 * A provider with an API of its own. The AI SDK's language models write its requests: one conversion for all these APIs.
 * Its answers are read here. The first call loads the SDK, because most services use only some providers.
 */
export function createLanguageModelProvider(
  dialect: Dialect,
  connection: { base_url: string | null; api_key: string | null },
  load: () => Promise<(provider_model: string, fetch: typeof globalThis.fetch) => LanguageModel>,
): Provider {
  const secrets = collectSecrets(connection);
  let loading: ReturnType<typeof load> | undefined;

  /** The request as the SDK writes it. The SDK would also send it, so its `fetch` ends the call. */
  async function written(request: ProviderRequest, call: LanguageModelCall): Promise<WrittenRequest> {
    loading ??= load();
    let found: WrittenRequest | null = null;
    const language_model = (await loading)(request.model.provider_model, async (input, init) => {
      const headers = Object.fromEntries(new Headers(init?.headers));
      found = { url: new URL(String(input)), headers, body: String(init?.body) };
      throw new Error("the request is written");
    });
    try {
      await (request.stream ? language_model.doStream(call) : language_model.doGenerate(call));
    } catch (thrown) {
      if (found === null) throw failureOfPrompt(thrown, request.model);
    }
    if (found === null) throw new Error("the AI SDK has written no request");
    return found;
  }

  async function ask(request: ProviderRequest, receiving: Receiving) {
    const headers = request.headers === undefined || dialect.name !== "anthropic" ? {} : { headers: request.headers };
    const converted = languageModelCall(request.request, { model: request.model, dialect });
    const call = { ...converted, maxOutputTokens: request.max_output_tokens, ...headers };
    const { url, headers: sent_headers, body } = await written(request, call);
    const bytes = Buffer.from(adjustedBody(body, request, dialect));
    return send(request, { url, headers: sent_headers, body: bytes, silence_ms: SILENCE_MS }, receiving);
  }

  return {
    async prepare(call) {
      const native_fields = call.native?.kind === dialect.name ? call.native.fields(call.model) : undefined;
      const length = jsonLength(call.request);
      const native_bytes = native_fields === undefined ? 0 : nativeBytes(call, native_fields, length);
      const native = native_fields === undefined ? {} : { native_fields, native_bytes };
      const added_tokens = (call.request.tools ?? []).length === 0 ? 0 : dialect.tool_prompt_tokens;
      // The caller's own fields may be any text, so each byte of them is held as a token.
      const input = heldInput(call, length, native_bytes + added_tokens);
      const held = { ...call, ...native, ...input };
      if (dialect.name !== "anthropic") return held;
      return { ...held, cache_writes: longestCache([...hintsOf(call.request), ...nativeHints(native_fields)]) };
    },

    async complete(request, options) {
      const receiving = { ...options, secrets };
      try {
        const text = await readText(await ask(request, receiving), MAX_ANSWER_BYTES);
        return nativeCompletion(text, request, dialect, receiving);
      } catch (thrown) {
        throw failureOfThrown(thrown, request.model, options.signal);
      }
    },

    async stream(request, options) {
      const receiving = { ...options, secrets };
      try {
        const answer = await ask(request, receiving);
        return partStream(answer, createNativeReader(request, dialect, receiving), request, options);
      } catch (thrown) {
        throw failureOfThrown(thrown, request.model, options.signal);
      }
    },
  };
}

/** The bytes that the caller's own fields have more than the converted request, of `length`. */
function nativeBytes({ request }: ModelRequest, native_fields: object, length: number): number {
  const { messages: _messages, tools: _tools, ...settings } = request;
  return Math.max(0, jsonLength({ ...settings, ...native_fields }) - length);
}

function jsonLength(value: object): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** The failure when the SDK cannot write a prompt. */
function failureOfPrompt(thrown: unknown, { id }: Model): unknown {
  if (!REFUSED_HERE.has(String(fieldsOf(thrown).name))) return thrown;
  return errors.invalidValue(
    "messages",
    `${id} cannot take these messages. Check the types of their parts (GET /api/v1/models, supports).`,
  );
}

interface Hinted {
  cache_control?: unknown;
  content?: unknown;
}

/** The cache hints of a request. */
function hintsOf({ messages, tools, cache_control }: ChatRequest): unknown[] {
  const parts = messages.flatMap(({ content }) => (Array.isArray(content) ? content : []));
  const hinted = [{ cache_control }, ...(tools ?? []), ...messages, ...parts] as Hinted[];
  return hinted.flatMap((each) => each.cache_control ?? []);
}

/** The cache hints of Anthropic's own fields: of tools, of the system prompt, of blocks, and of blocks in blocks. */
function nativeHints(fields: Readonly<Record<string, unknown>> = {}): unknown[] {
  const listed = (value: unknown) => (Array.isArray(value) ? (value as (Hinted | null)[]) : []);
  const inside = (list: (Hinted | null)[]) => list.flatMap((each) => listed(each?.content));
  const blocks = inside(listed(fields.messages));
  const all = [...listed(fields.tools), ...listed(fields.system), ...blocks, ...inside(blocks)];
  return all.flatMap((each) => each?.cache_control ?? []);
}

/** The longest time to live among cache hints, which decides the price of a cache write. */
function longestCache(hints: readonly unknown[]): NonNullable<ProviderRequest["cache_writes"]> {
  if (hints.length === 0) return "none";
  return hints.some((hint) => fieldsOf(hint).ttl === "1h") ? "1h" : "5m";
}

/** The body that the SDK wrote, corrected and with the caller's own fields. */
function adjustedBody(written: string, call: ProviderRequest, dialect: Dialect): string {
  const { request, model, native_fields } = call;
  const settings = Object.keys(dialect.settings).filter((field) => isSet(field, request[field]));
  // A body is parsed only where that can matter: a large one takes long.
  const is_adjusted = settings.length > 0 || [...ADJUSTED, ...model.forward].some((field) => request[field] != null);
  if (!is_adjusted && native_fields === undefined) return written;
  const body = dialect.adjust({ ...(JSON.parse(written) as Body), ...native_fields }, call);
  const given = Object.fromEntries(settings.map((field) => [dialect.settings[field], request[field]]));
  const { settings_in } = dialect;
  if (settings_in === null) return JSON.stringify({ ...body, ...given });
  return JSON.stringify({ ...body, [settings_in]: { ...fieldsOf(body[settings_in]), ...given } });
}

/** Whether a setting differs from what holds without it. */
function isSet(field: string, value: unknown): boolean {
  return value != null && !isDefault(field, value);
}
