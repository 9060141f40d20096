import { isUtf8 } from "node:buffer";
import { OutboundError } from "./outbound-errors.ts";

/** Headers of guarded requests and their answers. Pure. */

/** The characters of a header's name (RFC 9110, token). */
export const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/;
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
/** Headers that set a request's destination and length. Only this client writes them, to prevent request smuggling. */
const OWN_HEADERS =
  /^(host|connection|content-length|transfer-encoding|accept-encoding|te|trailer|upgrade|keep-alive|expect|proxy-.*)$/i;

/** Throws `invalid_request` if callers may not send one of these headers. */
export function assertSendable(headers: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(headers)) {
    if (!HEADER_NAME.test(name) || !HEADER_VALUE.test(value) || OWN_HEADERS.test(name)) {
      // The value stays out of the message: it may be a credential.
      throw new OutboundError("invalid_request", `the header ${JSON.stringify(name)} cannot be sent`);
    }
  }
}

/** The headers with lower-case names. */
export function lowerCased(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/** The headers with one value each: several are joined, as in one line. */
export function flattened(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const flat: Record<string, string> = Object.create(null);
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) flat[name] = typeof value === "string" ? value : value.join(", ");
  }
  return flat;
}

/**
 * The target of a redirect, as browsers read it: bytes that are not ASCII are UTF-8, or are kept as they are. The URL
 * parser encodes spaces. `header` has one character per byte.
 */
export function locationIn(header: string): string {
  const bytes = Buffer.from(header, "latin1");
  const text = isUtf8(bytes)
    ? bytes.toString("utf8")
    : header.replace(/[\x80-\xff]/g, (each) => `%${each.charCodeAt(0).toString(16).toUpperCase()}`);
  return text.replace(/^[\t ]+|[\t ]+$/g, "");
}
