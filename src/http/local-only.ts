import type { Context, MiddlewareHandler } from "hono";
import type { HttpEnv } from "../contract/caller.ts";
import { errors } from "../errors.ts";
import { isLoopback } from "../platform/address.ts";

/** Headers that proxies add. A client on this machine sends none of them. */
const PROXY_HEADERS = ["Forwarded", "Via", "X-Real-IP"];
const PROXY_PREFIX = "x-forwarded-";

/**
 * Rejects writes that came through a proxy, with 403. Without a configured proxy the service takes every request for
 * one of this machine, also one that a proxy on this machine forwards from the internet.
 */
export function rejectForwardedWrites(): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    const writes = c.req.method !== "GET" && c.req.method !== "HEAD";
    if (writes && (isForwarded(c) || !isLoopback(hostOf(c)))) throw errors.proxyNotConfigured();
    await next();
  };
}

function isForwarded(c: Context): boolean {
  if (PROXY_HEADERS.some((name) => c.req.header(name) !== undefined)) return true;
  return [...c.req.raw.headers.keys()].some((name) => name.startsWith(PROXY_PREFIX));
}

/** The host name that the client asked for, without its port. */
function hostOf(c: Context): string {
  return URL.parse(`http://${c.req.header("Host") ?? ""}`)?.hostname ?? "";
}
