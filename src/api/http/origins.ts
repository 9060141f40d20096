import type { Context, MiddlewareHandler } from "hono";
import { getCookie } from "hono/cookie";
import { cors } from "hono/cors";
import { errors } from "../../kernel/errors.ts";
import type { PublicAddress } from "../../platform/net/public-address.ts";
import { OAUTH_CALLBACK } from "../contract/oauth-secrets.ts";
import { sessionCookieName } from "../contract/sign-in.ts";

/**
 * Returns the session cookie, or null. Throws 403 when another site's page sent it. SameSite=Lax prevents most of these
 * requests; this check prevents the rest (pages of the same site, old browsers).
 */
export function sessionToken(c: Context, address: PublicAddress): string | null {
  const token = getCookie(c, sessionCookieName(address.secure));
  if (token === undefined || token === "") return null;
  if (!isFromOwnPage(c, address) && !isOAuthCallback(c)) throw errors.originRefused();
  return token;
}

/** An authorization server sends the browser there. The sign-in's state, bound to the session, is the check instead. */
function isOAuthCallback(c: Context): boolean {
  return c.req.method === "GET" && c.req.path === OAUTH_CALLBACK && c.req.header("Origin") === undefined;
}

/** Throws 403 for another site's page, so that it cannot sign a person in (login CSRF). Programs send no Origin. */
export function rejectOtherOrigins(c: Context, address: PublicAddress): void {
  const origin = c.req.header("Origin");
  const site = c.req.header("Sec-Fetch-Site");
  const elsewhere = origin === undefined ? site !== undefined && site !== "same-origin" : !address.isOurs(origin);
  if (elsewhere && c.req.method !== "GET") throw errors.originRefused();
}

/** Browsers send Origin except for plain reads. For those, Sec-Fetch-Site decides, or on plain http the Referer. */
function isFromOwnPage(c: Context, address: PublicAddress): boolean {
  const origin = c.req.header("Origin");
  if (origin !== undefined) return address.isOurs(origin);
  if (c.req.method !== "GET" && c.req.method !== "HEAD") return false;
  const site = c.req.header("Sec-Fetch-Site");
  if (site !== undefined) return site === "same-origin";
  const referer = URL.parse(c.req.header("Referer") ?? "");
  return referer !== null && address.isOurs(referer.origin);
}

const EXPOSED = [
  "X-Request-Id",
  "Retry-After",
  "X-Should-Retry",
  "Location",
  "Idempotent-Replayed",
  "Purser-Archived-Before",
  "RateLimit-Limit",
  "RateLimit-Remaining",
  "RateLimit-Reset",
  "X-RateLimit-Limit-Requests",
  "X-RateLimit-Remaining-Requests",
  "X-RateLimit-Reset-Requests",
  "Mcp-Session-Id",
];
const PREFLIGHT_SECONDS = 600;

/**
 * Lets pages of these origins call the API with a key (PURSER_CORS_ORIGINS). Without credentials: a page of another
 * origin cannot use the console's cookie.
 */
export function allowOrigins(origins: readonly string[]): MiddlewareHandler {
  return cors({
    origin: [...origins],
    allowMethods: ["GET", "POST", "PUT", "PATCH", "DELETE"],
    exposeHeaders: EXPOSED,
    maxAge: PREFLIGHT_SECONDS,
  });
}
