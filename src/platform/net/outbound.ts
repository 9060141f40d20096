import { isIP, type LookupFunction } from "node:net";
import { Client, type Dispatcher } from "undici";
import { monotonicMs } from "../lib/clock.ts";
import { contentTypeIn } from "../lib/media-type.ts";
import { raceAbort } from "../lib/race-abort.ts";
import {
  type EgressAllowance,
  isAddressOpen,
  isHostAllowed,
  isNamed,
  isPortOpen,
  parseEgressAllow,
  readPort,
} from "./address.ts";
import { type Credential, withCredentials } from "./credentials.ts";
import { createCookies } from "./fetch-cookies.ts";
import { ACCEPT_ENCODING, readBody } from "./outbound-body.ts";
import { OutboundError } from "./outbound-errors.ts";
import { isUncompressedEventStream, readEvents } from "./outbound-events.ts";
import { assertSendable, flattened, locationIn, lowerCased } from "./outbound-headers.ts";
import { createResolver, type Resolve } from "./resolver.ts";
import { isScrubbed } from "./scrub.ts";
import { createSecretScanner, type SecretScanner } from "./secret-scanner.ts";

export interface OutboundRequest {
  readonly url: string;
  readonly method: string;
  /** Sent to the first origin only. */
  readonly headers: Readonly<Record<string, string>>;
  /** Sent to the first origin only. */
  readonly body?: string | Uint8Array | undefined;
  /** Maximum size of the body, counted after decompression. */
  readonly max_bytes: number;
  /** Timeout of the whole request: name resolution, connections, redirects and body. */
  readonly timeout_ms: number;
  readonly max_redirects: number;
  /**
   * The caller's own check of destinations, called for each hop. A destination that it denies fails with
   * `egress_refused`.
   */
  readonly permits?: ((url: URL) => boolean) | undefined;
  /**
   * Injected at the moment of sending, only over https or to a host that the operator allowed by name. Never sent after
   * a redirect to another origin.
   *
   * An answer that holds one of them fails with `secret_reflected`; one that cannot be searched fails with
   * `unsearched`. Both answers are discarded.
   */
  readonly credentials?: readonly Credential[] | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface OutboundResponse {
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /** The last valid Content-Type, normalised; "" if there is none. */
  readonly content_type: string;
  readonly body: Buffer;
  readonly final_url: string;
  /** Number of redirects followed. */
  readonly hops: number;
  /** The request sent a secret that is too short to search for. So headers and body are left out. */
  readonly withheld: boolean;
}

/** An answer whose events are read as they come. */
export interface OutboundStream extends OutboundResponse {
  /**
   * The events of a `text/event-stream`, searched for secrets one by one; null for every other answer, which is read
   * whole. The caller must read to the end or leave the loop. Errors: OutboundError.
   */
  readonly events: AsyncGenerator<Buffer, void> | null;
}

/** The only client for destinations that a user or a model may name. */
export interface Outbound {
  /**
   * Errors: OutboundError; its `code` is the reason. `egress_refused` means that nothing was sent to that destination.
   */
  request(request: OutboundRequest): Promise<OutboundResponse>;
  /** The same, for an answer that may be a stream of events. `timeout_ms` and `signal` also end the stream. */
  stream(request: OutboundRequest): Promise<OutboundStream>;
  /** Whether a secret may be sent to `url`: over https, or to a host that the operator allowed by name. */
  isConfidential(url: URL): boolean;
  /** The names of the secrets in the bytes. null: the search exceeded its limits, and the bytes must be discarded. */
  secretsIn(pieces: readonly Buffer[], credentials: readonly Credential[]): Promise<string[] | null>;
  /** The error that would block a request to `url` at once; null when none is known. Sends nothing to `url`. */
  refusal(url: URL, signal: AbortSignal): Promise<OutboundError | null>;
}

/** One hop: the request to one origin. */
interface Hop {
  readonly url: URL;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | undefined;
}

/** Timeout of name resolution in `refusal`. A slower name is checked only by the request itself. */
const REFUSAL_MS = 5_000;
const AHEAD_MS = 5_000;
const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);
/** Matches a space or an ASCII control character. */
const SPACE_OR_CONTROL = /[^!-~\u0080-\u{10ffff}]/u;
const CONTROL = /[^ -~\u0080-\u{10ffff}]/u;
/**
 * Creates the guarded client. It uses no proxy from the environment, because undici's Client does not support that.
 * @param options.allow entries of PURSER_EGRESS_ALLOW. A wrong entry throws an Error that names it.
 * @param options.resolve resolves names to addresses, once per hop. The default is `createResolver`.
 * @param options.scanner searches answers for secrets. The default has the usual limits.
 */
export function createOutbound(options: {
  allow: readonly string[];
  resolve?: Resolve;
  scanner?: SecretScanner;
}): Outbound {
  const scanner = options.scanner ?? createSecretScanner();
  const allowance = parseEgressAllow(options.allow);
  const resolve = options.resolve ?? createResolver({ bySystem: (hostname) => isNamed(hostname, allowance) });
  // Addresses that `refusal` resolved. The next request uses them, because a second DNS answer could be another host.
  const ahead = new Map<string, { addresses: string[]; until_ms: number }>();
  const resolveAhead: Resolve = async (hostname) => {
    const addresses = await resolve(hostname);
    for (const [name, { until_ms }] of ahead) if (until_ms < monotonicMs()) ahead.delete(name);
    ahead.set(hostname, { addresses, until_ms: monotonicMs() + AHEAD_MS });
    return addresses;
  };
  const resolveOnce: Resolve = async (hostname) => {
    const known = ahead.get(hostname);
    ahead.delete(hostname);
    return known !== undefined && known.until_ms >= monotonicMs() ? known.addresses : resolve(hostname);
  };
  const isConfidential = (url: URL) => url.protocol === "https:" || isHostAllowed(url, allowance);

  const secretsIn: Outbound["secretsIn"] = async (pieces, credentials) => {
    const [first] = credentials;
    if (first === undefined) return [];
    const searched = credentials.flatMap(({ name, value, unsent = [] }) =>
      [value, ...unsent].map((each) => ({ name, value: each })),
    );
    const values = searched.map(({ value }) => value);
    const found = await scanner.search(pieces, values, first.user_id);
    return found === null ? null : [...new Set(found.flatMap((index) => searched[index]?.name ?? []))];
  };

  /**
   * Throws `secret_reflected` when the answer holds a secret, and `unsearched` when the search cannot finish in time.
   */
  const refuseReflection = async (
    { status, headers, body }: Answer,
    credentials: readonly Credential[],
    { url, signal }: { url: URL; signal: AbortSignal },
  ): Promise<void> => {
    if (credentials.length === 0) return;
    const head = Buffer.from(Object.entries(headers).flat().join("\n"));
    const secrets = await raceAbort(secretsIn([head, body], credentials), signal).catch(() => null);
    if (secrets === null) {
      const end = ended(signal, url);
      if (end?.code === "aborted") throw end;
      const message = "the answer could not be searched for secrets in time and was discarded";
      throw new OutboundError("unsearched", message, at(url, status));
    }
    if (secrets.length === 0) return;
    throw new OutboundError("secret_reflected", "the host sent a secret back", { ...at(url, status), secrets });
  };

  return {
    isConfidential,
    secretsIn,
    async refusal(url, signal) {
      const within = AbortSignal.any([signal, AbortSignal.timeout(REFUSAL_MS)]);
      try {
        await checkedAddresses(destination(url.href), { allowance, resolve: resolveAhead, signal: within });
      } catch (error) {
        if (error instanceof OutboundError && error.code === "egress_refused") return error;
      }
      return null;
    },
    request: (request) => follow(request, false),
    stream: (request) => follow(request, true),
  };

  async function follow(request: OutboundRequest, streamed: boolean): Promise<OutboundStream> {
    const timer = AbortSignal.timeout(request.timeout_ms);
    const signal = request.signal === undefined ? timer : AbortSignal.any([timer, request.signal]);
    const { max_bytes, permits = () => true, credentials = [] } = request;
    let hop = firstHop(request);
    const { origin } = hop.url;
    let is_home = true;
    const cookies = createCookies();
    for (let hops = 0; ; hops++) {
      if (!permits(hop.url))
        throw new OutboundError("egress_refused", "the host is not one that may be reached", at(hop.url));
      // After a redirect to another origin, a redirect back does not count as the first origin.
      is_home &&= hop.url.origin === origin;
      const carried = is_home ? credentials.filter((each) => each.isFor(hop.url, hop.method)) : [];
      if (carried.length > 0 && !isConfidential(hop.url)) {
        throw new OutboundError("egress_refused", "secrets are sent over https only", at(hop.url));
      }
      const sent = withCookies({ ...hop, ...withCredentials(hop, carried) }, cookies.header(hop.url));
      const addresses = await checkedAddresses(hop.url, { allowance, resolve: resolveOnce, signal });
      const { events, leave, set_cookies, ...answer } = await send(sent, addresses, { signal, max_bytes, streamed });
      cookies.note(hop.url, set_cookies);
      if (carried.some(({ value }) => !isScrubbed(value))) {
        leave();
        return { ...answer, ...NOTHING, final_url: hop.url.href, hops, withheld: true, events: null };
      }
      // Also searches for secrets of earlier hops: a host that got one may have told the host that answers now.
      const place = { url: hop.url, signal };
      await refuseReflection(answer, credentials, place).catch((error: unknown) => {
        leave();
        throw error;
      });
      const next = redirectTarget(hop, answer);
      if (next === null) {
        const searched = events === null ? null : searchedEvents(events, credentials, place);
        return { ...answer, final_url: hop.url.href, hops, withheld: false, events: searched };
      }
      if (hops === request.max_redirects) {
        throw new OutboundError("too_many_redirects", `more than ${hops} redirects`, at(hop.url, answer.status));
      }
      hop = next;
    }
  }
  /** Yields each event once it has been searched. */
  async function* searchedEvents(
    events: AsyncGenerator<Buffer, void>,
    credentials: readonly Credential[],
    place: { url: URL; signal: AbortSignal },
  ): AsyncGenerator<Buffer, void> {
    for await (const body of events) {
      await refuseReflection({ status: 200, headers: {}, content_type: "", body }, credentials, place);
      yield body;
    }
  }
}

/** Replaces headers and body of an answer that may hold a secret too short to search for. */
const NOTHING = { headers: {}, content_type: "", body: Buffer.alloc(0) } as const;

function firstHop({ url, method, headers, body }: OutboundRequest): Hop {
  if (!METHODS.has(method))
    throw new OutboundError("invalid_request", `the method is not one of ${[...METHODS].join(", ")}`);
  assertSendable(headers);
  return { url: destination(url), method, headers, body };
}

/**
 * Parses a URL as the client that dials it does. Blocks other schemes and credentials in the URL.
 *
 * Also blocks characters that URL parsers drop silently (a tab inside a host name), because the person who approved the
 * text saw another host.
 */
function destination(text: string, base?: URL): URL {
  const url = (base === undefined ? SPACE_OR_CONTROL : CONTROL).test(text) ? null : URL.parse(text, base);
  if (url === null) throw new OutboundError("egress_refused", "the URL cannot be read");
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new OutboundError("egress_refused", "only http and https URLs are fetched");
  }
  if (url.username !== "" || url.password !== "") {
    throw new OutboundError("egress_refused", "the URL carries a user name or password", at(url));
  }
  url.hash = "";
  return url;
}

/** The addresses to dial for `url`, resolved once. Throws `egress_refused` unless all of them are permitted. */
async function checkedAddresses(
  url: URL,
  { allowance, resolve, signal }: { allowance: EgressAllowance; resolve: Resolve; signal: AbortSignal },
): Promise<string[]> {
  const allowed = isHostAllowed(url, allowance);
  if (!allowed && !isPortOpen(readPort(url))) {
    throw new OutboundError("egress_refused", `port ${readPort(url)} is not open to tools`, at(url));
  }
  // URL has already rewritten octal, hex, decimal and short IPv4 spellings into dotted ones.
  const literal = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const addresses = isIP(literal) ? [literal] : await resolved(url, resolve, signal);
  if (!allowed && !addresses.every((address) => isAddressOpen(address, allowance))) {
    throw new OutboundError("egress_refused", "the host is not on the public internet", at(url));
  }
  return addresses;
}

async function resolved(url: URL, resolve: Resolve, signal: AbortSignal): Promise<string[]> {
  let addresses: string[];
  try {
    addresses = await raceAbort(resolve(url.hostname), signal);
  } catch {
    throw ended(signal, url) ?? new OutboundError("dns_failed", "the host name does not resolve", at(url));
  }
  if (addresses.length === 0) throw new OutboundError("dns_failed", "the host name does not resolve", at(url));
  return addresses;
}

type Answer = Omit<OutboundResponse, "final_url" | "hops" | "withheld">;
/** The answer of one hop. `leave` closes its connection. */
type Sent = Answer & Pick<OutboundStream, "events"> & { set_cookies: string[]; leave(): void };

/** Adds the cookies that this request's earlier hops got to one that the caller may send itself. */
function withCookies(hop: Hop, cookies: string): Hop {
  if (cookies === "") return hop;
  const own = Object.entries(hop.headers).find(([name]) => name.toLowerCase() === "cookie");
  const others = Object.entries(hop.headers).filter((each) => each !== own);
  return { ...hop, headers: { ...Object.fromEntries(others), cookie: [own?.[1] ?? [], cookies].flat().join("; ") } };
}

/** Sends one hop over a new connection, to `addresses` only. With `streamed`, the events keep the connection. */
async function send(
  hop: Hop,
  addresses: readonly string[],
  { signal, max_bytes, streamed }: { signal: AbortSignal; max_bytes: number; streamed: boolean },
): Promise<Sent> {
  // Set explicitly: NODE_TLS_REJECT_UNAUTHORIZED, set for another purpose, must not send secrets to unverified hosts.
  const connect = { lookup: pinned(addresses), rejectUnauthorized: true };
  // `signal` ends a request in time, so a stream needs no timeouts of its own.
  const timeouts = streamed ? { headersTimeout: 0, bodyTimeout: 0 } : {};
  const client = new Client(hop.url.origin, { allowH2: false, pipelining: 0, connect, ...timeouts });
  const leave = () => void client.destroy().catch(() => {});
  let status: number | null = null;
  let events: OutboundStream["events"] = null;
  try {
    const response = await client.request({
      path: hop.url.pathname + hop.url.search,
      method: hop.method as Dispatcher.HttpMethod,
      headers: {
        "user-agent": "Purser",
        accept: "*/*",
        ...lowerCased(hop.headers),
        // A compressed stream could not be split into events.
        "accept-encoding": streamed ? "identity" : ACCEPT_ENCODING,
      },
      body: hop.body ?? null,
      signal,
    });
    status = response.statusCode;
    const headers = flattened(response.headers);
    const content_type = contentTypeIn(headers["content-type"] ?? "");
    const set_cookies = [response.headers["set-cookie"] ?? []].flat();
    const limit = { max_bytes, host: hop.url.host, status };
    if (streamed && isUncompressedEventStream(headers, content_type)) {
      events = readEvents(response.body.on("error", leave), limit, {
        leave,
        broken: () => ended(signal, hop.url) ?? new OutboundError("bad_response", "the answer broke off", limit),
      });
    }
    const unread = events !== null || isRedirect(status, headers) || hop.method === "HEAD";
    const body = unread ? Buffer.alloc(0) : await readBody(response.body, headers["content-encoding"] ?? "", limit);
    return { status, headers, content_type, body, events, set_cookies, leave };
  } catch (error) {
    if (error instanceof OutboundError) throw error;
    const code = status === null ? "connect_failed" : "bad_response";
    const message = status === null ? "the host could not be reached" : "the answer broke off";
    throw ended(signal, hop.url) ?? new OutboundError(code, message, at(hop.url, status));
  } finally {
    if (events === null) leave();
  }
}

/** A lookup that returns the checked addresses. No second DNS query happens, which prevents DNS rebinding. */
function pinned(addresses: readonly string[]): LookupFunction {
  const answers = addresses.map((address) => ({ address, family: isIP(address) }));
  return (_hostname, options, done) => {
    const [first] = answers;
    if (options.all || first === undefined) done(null, answers);
    else done(null, first.address, first.family);
  };
}

function isRedirect(status: number, headers: Readonly<Record<string, string>>): boolean {
  return [301, 302, 303, 307, 308].includes(status) && headers.location !== undefined;
}

/**
 * The next hop of a redirect, or null if `answer` is not a redirect. The target is checked like a first URL.
 *
 * A redirect to another origin carries no header and no body of the caller (undici#4917), so it is always a GET or
 * HEAD.
 */
function redirectTarget(hop: Hop, { status, headers }: Answer): Hop | null {
  if (!isRedirect(status, headers)) return null;
  const url = destination(locationIn(headers.location ?? ""), hop.url);
  const method = hop.method === "HEAD" ? "HEAD" : "GET";
  if (url.origin !== hop.url.origin) return { url, method, headers: {}, body: undefined };
  if (status === 307 || status === 308) return { ...hop, url };
  if (hop.method === method) return { ...hop, url, body: undefined };
  const kept = Object.entries(hop.headers).filter(([name]) => !/^content-/i.test(name));
  return { url, method, headers: Object.fromEntries(kept), body: undefined };
}

/** The error of a request that `signal` ended, or undefined if it did not. */
function ended(signal: AbortSignal, url: URL): OutboundError | undefined {
  if (!signal.aborted) return undefined;
  const isTimeout = signal.reason instanceof DOMException && signal.reason.name === "TimeoutError";
  return new OutboundError(
    isTimeout ? "timeout" : "aborted",
    isTimeout ? "the host took too long" : "stopped",
    at(url),
  );
}

function at(url: URL, status: number | null = null): { host: string; status: number | null } {
  return { host: url.host, status };
}
