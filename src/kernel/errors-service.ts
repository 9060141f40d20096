import { failure } from "./purser-error.ts";

/** 5xx: the service, or a server that it depends on, could not do what was asked. */

export const serviceErrors = {
  internal: (cause?: unknown) =>
    failure(
      {
        status: 500,
        type: "api_error",
        code: "internal",
        message: "Something went wrong here. Retry; if it stays, report the request id.",
      },
      cause,
    ),
  upstream: (message: string, cause?: unknown, retry_after_s?: number) =>
    failure({ status: 502, type: "api_error", code: "upstream_error", message, retry_after_s }, cause),
  upstreamTimeout: () =>
    failure({
      status: 504,
      type: "api_error",
      code: "upstream_timeout",
      message: "The model did not answer in time; nothing was charged. Retry, or use another model.",
    }),
  overloaded: (retry_after_s = 1) =>
    failure({
      status: 503,
      type: "api_error",
      code: "overloaded",
      message: "The service is at its limit. Retry after the time in Retry-After.",
      retry_after_s,
    }),
  /** `code` overloaded: the ledger could not be asked, and nothing was begun. */
  databaseAway: (cause: unknown) =>
    failure(
      {
        status: 503,
        type: "api_error",
        code: "overloaded",
        message: "The service's database does not answer at the moment. Retry after the time in Retry-After.",
        retry_after_s: 1,
      },
      cause,
    ),
  diskFull: () =>
    failure({
      status: 503,
      type: "api_error",
      code: "overloaded",
      message:
        "The service's database has no space left, so nothing can be saved. Retry later; if it stays, tell the operator of this service.",
      retry_after_s: 5,
    }),
  starting: (retry_after_s: number) =>
    failure({
      status: 503,
      type: "api_error",
      code: "overloaded",
      message: "The service starts: /readyz says when it is ready. Retry after the time in Retry-After.",
      retry_after_s,
    }),
  stopping: () =>
    failure({
      status: 503,
      type: "api_error",
      code: "overloaded",
      message: "This node stops and could not wait for the end of the answer. Send the request again.",
      retry_after_s: 1,
    }),
  noWorker: () =>
    failure({
      status: 503,
      type: "api_error",
      code: "overloaded",
      message: "Runs are queued and no worker takes them. Start a node whose PURSER_ROLE is worker or all, then retry.",
      retry_after_s: 5,
    }),
  paymentsNotConfigured: () =>
    failure({
      status: 503,
      type: "api_error",
      code: "payments_not_configured",
      message: "Nothing can be bought here yet. Ask the operator of this service to set up payments, or for tokens.",
    }),
  /** `reason` is a sentence of our own, never of the authorization server. */
  oauthFailed: (reason: string) =>
    failure({
      status: 502,
      type: "api_error",
      code: "oauth_failed",
      message: `The sign-in could not begin: ${reason}. Correct the secret's settings, or ask the server's operator.`,
    }),
  /** `error` is that of a run's step, with a sentence of our own. */
  serverUnusable: ({ code, message }: { code: string; message: string }) =>
    failure({ status: 502, type: "api_error", code, message: `${message[0]?.toUpperCase()}${message.slice(1)}.` }),
  /** `message` names the secret, and says that it is out of use. */
  secretReflected: (message: string) => failure({ status: 502, type: "api_error", code: "secret_reflected", message }),
  vaultUnavailable: () =>
    failure({
      status: 503,
      type: "api_error",
      code: "vault_unavailable",
      message:
        "The vault cannot be used now; nothing was changed. Retry; if it stays, tell the operator of this service.",
    }),
};
