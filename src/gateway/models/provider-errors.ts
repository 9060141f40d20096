import { errors, PurserError } from "../../kernel/errors.ts";
import { retryAfterSeconds } from "../../platform/lib/retry.ts";
import { saysTooLong } from "./dialects.ts";
import { type ErrorFields, errorFields } from "./error-fields.ts";
import { gatewayErrors } from "./errors.ts";
import type { Model } from "./models.types.ts";

/**
 * A provider's failures in our words. `metadata.provider` has the provider's own code and message for the caller who
 * sent the request, without keys. The log gets the status and the code only, because messages may quote prompts.
 */

/** A request field in `error.param` of a provider. Other values are not repeated. */
const FIELD_NAME = /^[A-Za-z_][A-Za-z0-9_]*(\[\d{1,4}\]|\.[A-Za-z_][A-Za-z0-9_]*){0,8}$/;

/** Settings that a model may reject. */
const SETTINGS = [
  ...["temperature", "top_p", "seed", "presence_penalty", "frequency_penalty", "tool_choice", "response_format"],
  ...["reasoning_effort", "parallel_tool_calls", "thinking", "stop_sequences", "dimensions"],
];
const MAX_MESSAGE = 2_000;
const MAX_SHOWN = 500;
const REDACTED = "[redacted]";
/** Words as in `rate_limit_exceeded`. Codes are in the log, so none may have the shape of a key, an id or a text. */
const CODE = /^(?=.{1,64}$)[A-Za-z]{1,24}([_.-]([A-Za-z]{1,24}|\d{1,4})){0,7}$|^\d{1,6}$/;
/** Keys and accounts by their usual beginnings, everything after Bearer, and addresses: URLs, e-mail, host:port, IP. */
const KEYS = new RegExp(
  [
    /\bBearer\s+\S+|\b[a-z][a-z0-9+.-]{0,30}:\/\/\S+|[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+/,
    /\b(?:localhost|(?:[\w-]+\.)+[a-z][\w-]*):\d{2,5}\b|\b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d{2,5}\b)?/,
    /\b(?:sk|pk|rk|gsk|xai|key|api|org|proj)[-_][\w*.-]{4,}|\bAIza[\w-]{8,}/,
  ]
    .map(({ source }) => source)
    .join("|"),
  "gi",
);
/** A text that is masked in part. */
const MASKED = /\S*\*{3,}\S*/g;
/** A number that is no count: of an account by its name, or a long one without a unit. */
const NO_COUNT = /(?!\s*(?:tokens?|bytes?|char(?:acter)?s?|requests?|ms|(?:milli)?seconds?)\b|[.,]?\d)/.source;
const ACCOUNT = new RegExp(
  `\\b((?:account|customer|tenant|subscription|organi[sz]ation|workspace|project)(?:\\s+(?:id|number|no\\.?))?\\s*[:#=]?\\s*)\\d{5,}${NO_COUNT}`,
  "gi",
);
const LONG_NUMBER = new RegExp(`(?<![\\d.,])\\d{9,}${NO_COUNT}`, "g");
/** Limits of integer types, and round limits. */
const LIMIT = /^(?:\d+0{6}|2147483647|2147483648|4294967295|4294967296|9007199254740991|9223372036854775807)$/;
/** Any other text that is as long and as mixed as a key. */
const LONG = /[\w*-]{20,}/g;
/** A shorter key is a placeholder such as EMPTY or none, which is also a word of messages. */
const MIN_KEY_CHARACTERS = 8;

/** Codes and types of a provider at its limit. */
const BUSY = /rate.?limit|too.?many.?requests|resource.?exhausted|overloaded|unavailable/i;

/** What the provider said of its error. */
export interface ProviderError {
  status: number;
  code: string | null;
  message: string | null;
}

/** A provider's answer that is not a completion. */
export interface Refusal {
  status: number;
  /** A text, or what was read from it. */
  body: unknown;
  /** In lower case. Absent: unknown. */
  headers?: Readonly<Record<string, string | string[] | undefined>>;
  /** Texts that no caller may see, from `collectSecrets`. */
  secrets: readonly string[];
}

/** The key and the address of a provider's connection, which its messages may repeat. */
export function collectSecrets({ api_key, base_url }: { api_key: string | null; base_url: string | null }): string[] {
  const key = api_key !== null && api_key.length >= MIN_KEY_CHARACTERS ? [api_key] : [];
  if (base_url === null) return key;
  const { host, hostname } = new URL(base_url);
  // A name without a dot or a port may be any word.
  return [...key, ...[host, hostname].filter((name) => /[.:]/.test(name))];
}

/** The failure for an HTTP status other than 200. `main`: the field with the prompt. */
export function failureOfStatus(refused: Refusal, model: Model, main: "messages" | "input" = "messages"): PurserError {
  const fields = errorFields(refused.body);
  const provider = providerError(refused, fields, model);
  const failure = failureInOurWords(refused, { model, main, fields, code: provider.code });
  return failure.with({ metadata: { ...failure.shape.metadata, provider } });
}

/**
 * The failure that a provider reports in an answer of status 200: in a body, or in an event of a stream. A prompt that is
 * too long and a limit count as with their own status; everything else is a broken answer.
 */
export function failedAnswer(
  model: Model,
  detail: string,
  { body, secrets }: Pick<Refusal, "body" | "secrets">,
): PurserError {
  const fields = errorFields(body);
  const is_busy = [429, 503, 529].includes(fields.status ?? 0) || BUSY.test(`${fields.type} ${fields.code}`);
  if (is_busy || saysTooLong(fields)) return failureOfStatus({ status: fields.status ?? 429, body, secrets }, model);
  const failure = brokenProvider(model, detail);
  const provider = providerError({ status: 200, secrets }, fields, model);
  return failure.with({ metadata: { ...failure.shape.metadata, provider } });
}

function providerError(
  { status, secrets }: Pick<Refusal, "status" | "secrets">,
  { codes, message }: ErrorFields,
  { provider_model }: Model,
): ProviderError {
  const shown = (text: string) => withoutKeys(text, { provider_model, secrets });
  const named = codes.find((text) => CODE.test(text) && shown(text) === text) ?? null;
  return { status, code: named, message: message === "" ? null : shown(message).slice(0, MAX_SHOWN) };
}

/** The provider's message without anything that may be a key, an account or an address of the operator. */
function withoutKeys(
  message: string,
  { provider_model, secrets }: { provider_model: string; secrets: readonly string[] },
): string {
  const isMixed = (text: string) => /\d/.test(text) && /[A-Za-z]/.test(text) && text !== provider_model;
  return secrets
    .reduce((text, secret) => text.replaceAll(secret, REDACTED), message)
    .slice(0, MAX_MESSAGE)
    .replaceAll(KEYS, REDACTED)
    .replaceAll(MASKED, REDACTED)
    .replaceAll(LONG, (text) => (isMixed(text) ? REDACTED : text))
    .replaceAll(ACCOUNT, `$1${REDACTED}`)
    .replaceAll(LONG_NUMBER, (text) => (LIMIT.test(text) ? text : REDACTED));
}

function failureInOurWords(
  { status, headers = {} }: Refusal,
  { model, main, fields, code }: { model: Model; main: "messages" | "input"; fields: ErrorFields; code: string | null },
): PurserError {
  const cause = new Error(`provider ${model.owned_by} answered ${status}${code === null ? "" : ` ${code}`}`);
  const retry_after_s = waitSeconds(headers, fields);
  // llama.cpp and gateways say so with a status of the server's own failures. 413 is a limit in bytes.
  if (status === 413 || (![401, 403, 404].includes(status) && saysTooLong(fields))) {
    return gatewayErrors.contextLengthExceeded(model.context_window, main);
  }
  if (status === 408 || status === 504) return errors.upstreamTimeout();
  if (status === 400 || status === 422) return refusal(fields, model);
  if (status === 401 || status === 403) {
    return errors.upstream(
      "The model's provider refused this service. Use another model, and tell the operator.",
      cause,
    );
  }
  if (status === 404) {
    return errors.upstream("The model is not available at its provider now. Use another model.", cause);
  }
  if (status === 429) {
    return errors.upstream(
      "The model's provider is at its limit; nothing was charged. Retry shortly, or use another model.",
      cause,
      retry_after_s,
    );
  }
  return errors.upstream(
    "The model's provider failed; nothing was charged. Retry, or use another model.",
    cause,
    retry_after_s,
  );
}

/** The failure when the provider could not be reached or sent an invalid answer. */
export function brokenProvider(model: Model, detail: string): PurserError {
  const cause = new Error(`provider ${model.owned_by}: ${detail}`);
  return errors.upstream("The model's provider did not give a usable answer. Retry, or use another model.", cause);
}

/** The failure for any error that a request to the provider threw. An abort is passed on unchanged. */
export function failureOfThrown(thrown: unknown, model: Model, signal: AbortSignal): unknown {
  if (thrown instanceof PurserError) return thrown;
  if (signal.aborted) return signal.reason;
  const { name, code } = thrown as { name?: string; code?: string };
  if (isTimeout(name) || isTimeout(code)) return errors.upstreamTimeout();
  return brokenProvider(model, code ?? name ?? "failed");
}

/** Whether another model may answer after this failure. False if the request itself caused it. */
export function isProviderFailure(error: unknown): error is PurserError {
  return error instanceof PurserError && (error.code === "upstream_error" || error.code === "upstream_timeout");
}

function isTimeout(name: string | undefined): boolean {
  return name === "TimeoutError" || (name?.startsWith("UND_ERR_") === true && name.includes("TIMEOUT"));
}

/** The seconds that the provider asks to wait. OpenAI and Azure name milliseconds too, Gemini only writes it in the body. */
function waitSeconds(headers: NonNullable<Refusal["headers"]>, { retry_delay }: ErrorFields): number | undefined {
  const in_header = retryAfterSeconds(headers["retry-after"]);
  if (in_header !== undefined) return in_header;
  const ms = Number(headers["retry-after-ms"] ?? Number.NaN);
  if (Number.isFinite(ms) && ms >= 0) return Math.ceil(ms / 1_000);
  return retryAfterSeconds(retry_delay.replace(/s$/, ""));
}

function refusal({ param, message }: ErrorFields, model: Model): PurserError {
  const named = FIELD_NAME.test(param) ? param : namedIn(message);
  return errors.invalidValue(
    named ?? undefined,
    `The model's provider refused the request${named === null ? "" : ` because of ${named}`}. Check it against what ${model.id} accepts.`,
  );
}

/** The setting that a provider's message is about. Anthropic and Google name it nowhere else. */
function namedIn(message: string): string | null {
  const words = message.slice(0, MAX_MESSAGE).toLowerCase();
  return SETTINGS.find((field) => words.includes(field) || words.includes(field.replaceAll("_", ""))) ?? null;
}
