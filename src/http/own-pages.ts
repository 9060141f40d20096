import type { Context } from "hono";
import { getCookie } from "hono/cookie";
import { sessionCookieName } from "../contract/sign-in.ts";
import { errors } from "../errors.ts";
import type { PublicAddress } from "../platform/public-address.ts";

/**
 * The session cookie, null when there is none. 403 when another site's page had the browser send it: SameSite=Lax keeps
 * most of that away, this the rest (neighbours on the same site, old browsers).
 */
export function sessionToken(c: Context, address: PublicAddress): string | null {
  const token = getCookie(c, sessionCookieName(address.secure));
  if (token === undefined || token === "") return null;
  if (!isFromOwnPage(c, address)) throw errors.originRefused();
  return token;
}

/** 403 for what another site's page sends: nobody is to be signed in as somebody else unawares. Programs send no Origin. */
export function refuseOtherPages(c: Context, address: PublicAddress): void {
  const origin = c.req.header("Origin");
  const site = c.req.header("Sec-Fetch-Site");
  const elsewhere = origin === undefined ? site !== undefined && site !== "same-origin" : !address.isOurs(origin);
  if (elsewhere && c.req.method !== "GET") throw errors.originRefused();
}

/** Browsers name the Origin of all but plain reads; of those, Sec-Fetch-Site or, on plain http, the Referer tells. */
function isFromOwnPage(c: Context, address: PublicAddress): boolean {
  const origin = c.req.header("Origin");
  if (origin !== undefined) return address.isOurs(origin);
  if (c.req.method !== "GET" && c.req.method !== "HEAD") return false;
  const site = c.req.header("Sec-Fetch-Site");
  if (site !== undefined) return site === "same-origin";
  const referer = URL.parse(c.req.header("Referer") ?? "");
  return referer !== null && address.isOurs(referer.origin);
}
