import type { PublicAddress } from "../../platform/net/public-address.ts";
import type { Caller } from "../contract/caller.ts";
import type { Exchange } from "./exchange.ts";
import { sessionToken } from "./origins.ts";

/** The credential of a request. */
export interface CallerCredential {
  /** Equal for all requests with this credential. */
  name: string;
  /** Throws 401 or 403 when the credential is not valid, or no longer. */
  authenticate(): Promise<Caller>;
}

export interface Authentication {
  /** Returns the caller of an Authorization header. Throws 401. */
  authenticate(authorization: string | undefined): Promise<Caller>;
  /** Returns the caller of the console's session cookie. Throws 401. */
  authenticateSession(token: string): Promise<Caller>;
  /** The console's address. Its cookie is valid only there. */
  address: PublicAddress;
}

/** `x-api-key` is an Authorization header by another name, for Anthropic's clients. A Bearer key goes before it. */
export function keyOf(authorization: string | undefined, api_key: string | undefined): string | undefined {
  const is_bearer = authorization !== undefined && /^bearer /i.test(authorization);
  return api_key === undefined || api_key === "" || is_bearer ? authorization : `Bearer ${api_key}`;
}

/** The Authorization header that a request counts with. */
export function keyHeader({ header }: Exchange): string | undefined {
  return keyOf(header("authorization"), header("x-api-key"));
}

/** Prefers a key to a cookie, because a program that sends both means the key. */
export function credentialOf(exchange: Exchange, options: Authentication): CallerCredential {
  const authorization = keyHeader(exchange);
  const token = authorization === undefined ? sessionToken(exchange, options.address) : null;
  if (token === null) return { name: `key ${authorization}`, authenticate: () => options.authenticate(authorization) };
  return { name: `session ${token}`, authenticate: () => options.authenticateSession(token) };
}
