/** Why a guarded request failed. */
export type OutboundCode =
  /** The destination, the URL or a redirect's target is blocked. Nothing was sent there. */
  | "egress_refused"
  /** Callers may not send this method or header. Nothing was sent. */
  | "invalid_request"
  | "dns_failed"
  | "connect_failed"
  | "timeout"
  | "too_large"
  | "too_many_redirects"
  /** The answer broke off, or its encoding is unknown or damaged. */
  | "bad_response"
  /** The answer holds a secret of the request. The caller gets no part of it. */
  | "secret_reflected"
  /** The answer could not be searched for secrets within the limits. It is discarded. */
  | "unsearched"
  /** The answer is within the client's limits and exceeds one of the caller's. */
  | "limit_exceeded"
  | "aborted";

/**
 * A failed guarded request. It carries only host, status, code and secrets' names: never headers, bodies, a `cause`, or
 * a URL that may carry a credential.
 *
 * Other projects leaked an Authorization header in an error text (n8n#36836, axios#6919).
 */
export class OutboundError extends Error {
  readonly code: OutboundCode;
  /** `host:port` as dialled; null when the URL could not be read. */
  readonly host: string | null;
  /** Status of the last answer, if there was one. */
  readonly status: number | null;
  /** Names of the secrets in the answer. */
  readonly secrets: readonly string[];
  constructor(
    code: OutboundCode,
    message: string,
    at: { host?: string | null; status?: number | null; secrets?: readonly string[] } = {},
  ) {
    super(message);
    this.name = "OutboundError";
    this.code = code;
    this.host = at.host ?? null;
    this.status = at.status ?? null;
    this.secrets = at.secrets ?? [];
  }
}
