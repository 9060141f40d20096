import { errors, PurserError } from "../errors.ts";
import type { Model } from "./models.types.ts";

/**
 * A provider's failures in our words. The message never contains the provider's text, address or request, which may
 * hold the operator's key or another customer's text. The log gets a short description of the cause.
 */

const CONTEXT_LENGTH = /context.?length|context.?window|maximum context|too long|too many (input )?tokens/i;
/** A request field in `error.param` of a provider. Other values are not repeated. */
const FIELD_NAME = /^[A-Za-z_][A-Za-z0-9_]*(\[\d{1,4}\]|\.[A-Za-z_][A-Za-z0-9_]*){0,8}$/;

/** Settings that a model may reject. */
const SETTINGS = [
  ...["temperature", "top_p", "seed", "presence_penalty", "frequency_penalty", "tool_choice", "response_format"],
  ...["reasoning_effort", "parallel_tool_calls", "thinking", "stop_sequences", "dimensions"],
];
const MAX_MESSAGE = 2_000;

/** A provider's answer that is not a completion. Only the code and the field name in `body` are read. */
export interface Refusal {
  status: number;
  body: unknown;
  /** The seconds of the Retry-After header, if any. */
  retry_after_s: number | undefined;
}

/** The failure for an HTTP status other than 200. `main`: the field that a rejection is about if it names none. */
export function failureOfStatus(
  { status, body, retry_after_s }: Refusal,
  model: Model,
  main: "messages" | "input" = "messages",
): PurserError {
  const cause = new Error(`provider ${model.owned_by} answered ${status}`);
  if (status === 408 || status === 504) return errors.upstreamTimeout();
  if (status === 400 || status === 413 || status === 422) return refusal(body, model, main);
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

function refusal(body: unknown, model: Model, main: "messages" | "input"): PurserError {
  const { code, message, param } = errorFields(body);
  if (code === "context_length_exceeded" || CONTEXT_LENGTH.test(message)) {
    return errors.contextLengthExceeded(model.context_window, main);
  }
  const named = FIELD_NAME.test(param) ? param : namedIn(message);
  return errors.invalidValue(
    named ?? main,
    `The model's provider refused the request${named === null ? "" : ` because of ${named}`}. Check it against what ${model.id} accepts.`,
  );
}

/** The setting that a provider's message is about. Anthropic and Google name it nowhere else. */
function namedIn(message: string): string | null {
  const words = message.slice(0, MAX_MESSAGE).toLowerCase();
  return SETTINGS.find((field) => words.includes(field) || words.includes(field.replaceAll("_", ""))) ?? null;
}

function errorFields(body: unknown): { code: string; message: string; param: string } {
  const error = (body as { error?: unknown } | null)?.error;
  const fields = (typeof error === "object" && error !== null ? error : {}) as Record<string, unknown>;
  const textOf = (value: unknown) => (typeof value === "string" ? value : "");
  return { code: textOf(fields.code), message: textOf(fields.message), param: textOf(fields.param) };
}
