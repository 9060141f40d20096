import type { RequestFacts } from "../contract/caller.ts";
import { labelsOf } from "../contract/labels.ts";
import { type ModelApi, modelApiOf } from "../contract/model-apis.ts";

/** What the request log keeps of a failed model call. Pure. */

export interface FailedCall {
  user_id: string;
  /** Null: the call got no hold. */
  hold_id: string | null;
  request_id: string;
  api: ModelApi;
  api_key_id: string | null;
  end_user: string | null;
  model: string | null;
  http_status: number;
  error_code: string;
  /** In our words; null: it repeats the request's text, or it is unknown. */
  error_message: string | null;
  param: string | null;
  duration_ms: number;
}

/** An answered request, as far as it is read here. */
interface AnsweredRequest {
  request_id: string;
  route: string;
  status: number;
  facts: RequestFacts;
}

/** Of a caller who left before the answer. The answer's status 499 is that of proxies. */
export const CLIENT_CLOSED_REQUEST = { http_status: 499, code: "client_closed_request" } as const;

const MODEL_NAME = /^[\w./:@+-]{1,128}$/;
/** A name as fields of requests have. Any other text in its place is the caller's. */
const FIELD = /^[A-Za-z_][\w-]{0,63}(\[\d{1,5}\]|\.[A-Za-z_][\w-]{0,63}){0,8}$/;

/** A message that names several unknown fields. */
const NAMES_FIELDS = / are not fields of this request/;

/** The model and the end user that a body names, before it is validated. */
export function askedOf(body: unknown): NonNullable<RequestFacts["asked"]> {
  if (typeof body !== "object" || body === null) return { model: null, end_user: null };
  const { model } = body as { model?: unknown };
  return {
    model: typeof model === "string" && MODEL_NAME.test(model) ? model : null,
    end_user: labelsOf(body)?.user ?? null,
  };
}

/** Null: the request did not fail, called no model, or its caller is unknown. */
export function failedCall(
  { route, request_id, status, facts }: AnsweredRequest,
  duration_ms: number,
): FailedCall | null {
  const { user_id, api_key_id = null, hold_id = null, asked, error } = facts;
  const has_left =
    facts.code === undefined && (status === CLIENT_CLOSED_REQUEST.http_status || facts.hungUp?.() === true);
  const code = has_left ? CLIENT_CLOSED_REQUEST.code : facts.code;
  const api = modelApiOf(route);
  if (code === undefined || api === null || user_id === undefined) return null;
  const { model = null, end_user = null } = asked ?? {};
  return {
    user_id,
    hold_id,
    request_id,
    api,
    api_key_id,
    end_user,
    model,
    http_status: has_left ? CLIENT_CLOSED_REQUEST.http_status : status,
    error_code: code,
    ...shownError(error, model),
    duration_ms,
  };
}

/** Left out are texts that may repeat more of the request than names of its fields and of its model. */
function shownError(error: RequestFacts["error"], model: string | null): Pick<FailedCall, "error_message" | "param"> {
  if (error === undefined || (error.param !== null && !FIELD.test(error.param))) {
    return { error_message: null, param: null };
  }
  const { message, param } = error;
  const quoted = message.match(/"[^"]*"/g) ?? [];
  const is_ours = quoted.every((name) => name === JSON.stringify(model)) && !NAMES_FIELDS.test(message);
  return { error_message: is_ours ? message : null, param };
}
