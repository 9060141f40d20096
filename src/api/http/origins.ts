import { parseCookie } from "cookie";
import type { PublicAddress } from "../../platform/net/public-address.ts";
import { OAUTH_CALLBACK } from "../contract/oauth-secrets.ts";
import { sessionCookieName } from "../contract/sign-in.ts";
import { httpErrors } from "./errors.ts";
import type { Exchange } from "./exchange.ts";

/**
 * Returns the session cookie, or null. Throws 403 when another site's page sent it. SameSite=Lax prevents most of these
 * requests; this check prevents the rest (pages of the same site, old browsers).
 */
export function sessionToken(exchange: Exchange, address: PublicAddress): string | null {
  const token = parseCookie(exchange.header("cookie") ?? "")[sessionCookieName(address.secure)];
  if (token === undefined || token === "") return null;
  if (!isFromOwnPage(exchange, address) && !isOAuthCallback(exchange)) throw httpErrors.originRefused();
  return token;
}

/** An authorization server sends the browser there. The sign-in's state, bound to the session, is the check instead. */
function isOAuthCallback({ method, path, header }: Exchange): boolean {
  return method === "GET" && path === OAUTH_CALLBACK && header("origin") === undefined;
}

/** Throws 403 for another site's page, so that it cannot sign a person in (login CSRF). Programs send no Origin. */
export function rejectOtherOrigins({ method, header }: Exchange, address: PublicAddress): void {
  const origin = header("origin");
  const site = header("sec-fetch-site");
  const elsewhere = origin === undefined ? site !== undefined && site !== "same-origin" : !address.isOurs(origin);
  if (elsewhere && method !== "GET") throw httpErrors.originRefused();
}

/** Browsers send Origin except for plain reads. For those, Sec-Fetch-Site decides, or on plain http the Referer. */
function isFromOwnPage({ method, header }: Exchange, address: PublicAddress): boolean {
  const origin = header("origin");
  if (origin !== undefined) return address.isOurs(origin);
  if (method !== "GET" && method !== "HEAD") return false;
  const site = header("sec-fetch-site");
  if (site !== undefined) return site === "same-origin";
  const referer = URL.parse(header("referer") ?? "");
  return referer !== null && address.isOurs(referer.origin);
}

const EXPOSED = [
  "X-Request-Id",
  "Request-Id",
  "WWW-Authenticate",
  "Retry-After",
  "X-Should-Retry",
  "Location",
  "Idempotent-Replayed",
  "Purser-Archived-Before",
  "RateLimit",
  "RateLimit-Policy",
  "RateLimit-Limit",
  "RateLimit-Remaining",
  "RateLimit-Reset",
  "X-RateLimit-Limit-Requests",
  "X-RateLimit-Remaining-Requests",
  "X-RateLimit-Reset-Requests",
  "Mcp-Session-Id",
];
const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"];
const PREFLIGHT_SECONDS = 600;

/**
 * Lets pages of these origins call the API with a key (PURSER_CORS_ORIGINS). Without credentials: a page of another
 * origin cannot use the console's cookie. Returns true if the request was a preflight, which it has answered.
 */
export function allowOrigins(origins: readonly string[], { method, path, header, head }: Exchange): boolean {
  if (origins.length === 0 || !path.startsWith("/api/v1/")) return false;
  head.Vary = "Origin";
  const origin = header("origin");
  if (origin === undefined || !origins.includes(origin)) return method === "OPTIONS";
  head["Access-Control-Allow-Origin"] = origin;
  head["Access-Control-Expose-Headers"] = EXPOSED.join(",");
  if (method !== "OPTIONS") return false;
  head["Access-Control-Max-Age"] = String(PREFLIGHT_SECONDS);
  head["Access-Control-Allow-Methods"] = METHODS.join(",");
  const asked = header("access-control-request-headers");
  if (asked !== undefined) head["Access-Control-Allow-Headers"] = asked;
  return true;
}
