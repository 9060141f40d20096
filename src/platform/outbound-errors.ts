/** Why a guarded request brought nothing back. */
export type OutboundCode =
  /** The destination, the URL or a redirect's target is not one that may be reached; nothing was sent there. */
  | "egress_refused"
  /** The method or a header is not one that a caller may send; nothing was sent. */
  | "invalid_request"
  | "dns_failed"
  | "connect_failed"
  | "timeout"
  | "too_large"
  | "too_many_redirects"
  /** The answer broke off, or its encoding is unknown or damaged. */
  | "bad_response"
  /** What came back holds a secret that had been sent; nothing of it is handed on. */
  | "secret_reflected"
  /** The answer could not be searched for secrets within the limits; it is discarded. */
  | "unsearched"
  | "aborted";

/**
 * A guarded request that failed. Its fields are a closed set on purpose (n8n#36836, axios#6919: an Authorization header
 * in an error text): host, status, code and secrets' names, never headers, bodies, or a URL that may carry a credential. No `cause`.
 */
export class OutboundError extends Error {
  readonly code: OutboundCode;
  /** `host:port` as dialled; null when the URL could not be read. */
  readonly host: string | null;
  /** Status of the last answer, if there was one. */
  readonly status: number | null;
  /** Names of the secrets that came back. */
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
