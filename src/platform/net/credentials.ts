import { createHmac } from "node:crypto";
import type { SecretValue } from "../lib/secret-value.ts";
import { OutboundError } from "./outbound-errors.ts";
import { HEADER_NAME } from "./outbound-headers.ts";
import { isScrubbed, SCRUBBED_CHARACTERS } from "./scrub.ts";

/** How a secret becomes part of a request. */
export type Injection =
  | { readonly type: "bearer" }
  | { readonly type: "basic"; readonly username: string }
  | { readonly type: "header"; readonly name: string }
  | { readonly type: "query"; readonly name: string }
  /** HMAC-SHA256 in hex, over the body. Without a body, over the path and query as sent. */
  | { readonly type: "hmac"; readonly header: string };

/** A secret that may go along with a request. */
export interface Credential {
  /** The owner's name for the secret. Errors show it. */
  readonly name: string;
  /** The owner. */
  readonly user_id: string;
  readonly value: SecretValue;
  /** Never sent, but answers are searched for them, too: the other side can know them. */
  readonly unsent?: readonly SecretValue[];
  /** null: the secret is not sent. The other side knows it, so answers are still searched for it. */
  readonly inject: Injection | null;
  /** Whether the secret may be sent. Checked for the first request and for each redirect on the same origin. */
  isFor(url: URL, method: string): boolean;
}

/** The parts of a request that the injection of a credential reads or changes. */
export interface Sending {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | undefined;
}

/** Maximum number of credentials per request, because the answer is searched for each of them. */
export const MAX_CREDENTIALS = 3;
/** Headers that set a request's destination, length or type. They must not carry a secret. */
const RESERVED_HEADERS =
  /^(host|connection|content-.*|transfer-encoding|accept(-.*)?|te|trailer|upgrade|keep-alive|expect|proxy-.*|mcp-.*|last-event-id|user-agent)$/i;
/** Characters that a header's value may contain, in UTF-8. */
const HEADER_TEXT = /^[\t\x20-\x7e\u0080-\u{10ffff}]*$/u;

/** Whether a secret may be sent in the header `name`. */
export function mayCarrySecret(name: string): boolean {
  return HEADER_NAME.test(name) && !RESERVED_HEADERS.test(name);
}

/**
 * Adds `credentials` to the request. If two of them use the same place, the first one wins.
 * Errors: OutboundError `invalid_request` for a value that its place cannot carry.
 */
export function withCredentials(request: Sending, credentials: readonly Credential[]): Sending {
  const headers: Record<string, string> = {};
  let url = request.url;
  const taken = new Set<string>();
  // Parameters first: a signature is for the address that is sent.
  const isLater = ({ inject }: Credential) => Number(inject?.type !== "query");
  for (const credential of credentials.toSorted((one, other) => isLater(one) - isLater(other))) {
    const { inject, value } = credential;
    if (inject === null) continue;
    if (!isScrubbed(value) && inject.type !== "basic" && inject.type !== "hmac") {
      const short = `the secret ${credential.name} has fewer than ${SCRUBBED_CHARACTERS} characters`;
      throw new OutboundError("invalid_request", `${short}: it can be sent by basic and hmac only`);
    }
    const place = injectionPlace(inject);
    if (taken.has(place)) continue;
    taken.add(place);
    if (inject.type === "query") url = withParameter(url, inject.name, value.reveal());
    else
      headers[readHeader(inject)] = headerText(
        headerValue(inject, value.reveal(), { ...request, url }),
        credential.name,
      );
  }
  return { ...request, url, headers: { ...request.headers, ...headers } };
}

/** Names the place in a request where a secret goes. */
export function injectionPlace(inject: Injection): string {
  return inject.type === "query" ? `query ${inject.name}` : `header ${readHeader(inject)}`;
}

function readHeader(inject: Exclude<Injection, { type: "query" }>): string {
  if (inject.type === "header") return inject.name.toLowerCase();
  return inject.type === "hmac" ? inject.header.toLowerCase() : "authorization";
}

function headerValue(inject: Exclude<Injection, { type: "query" }>, value: string, { url, body }: Sending): string {
  switch (inject.type) {
    case "bearer":
      return `Bearer ${value}`;
    case "basic":
      return `Basic ${Buffer.from(`${inject.username}:${value}`).toString("base64")}`;
    case "header":
      return value;
    case "hmac":
      return createHmac("sha256", value)
        .update(body ?? url.pathname + url.search)
        .digest("hex");
  }
}

/** Node sends each character of a header value as one byte. So each UTF-8 byte becomes one latin1 character. */
function headerText(text: string, name: string): string {
  if (!HEADER_TEXT.test(text)) {
    throw new OutboundError("invalid_request", `the secret ${name} holds characters that no header can carry`);
  }
  return Buffer.from(text).toString("latin1");
}

/** Sets the parameter in `url`. Removes existing ones of that name, so that only the credential's value is sent. */
function withParameter(url: URL, name: string, value: string): URL {
  const changed = new URL(url);
  if (changed.searchParams.has(name)) changed.searchParams.delete(name);
  const parameter = `${encodeURIComponent(name)}=${encodeURIComponent(value)}`;
  changed.search = changed.search === "" ? parameter : `${changed.search}&${parameter}`;
  return changed;
}
