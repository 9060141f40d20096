import { isIP } from "node:net";
import { type EgressAllowance, isAddressOpen, isHostAllowed, isPortOpen, portOf } from "../platform/address.ts";

/** What URL parsers drop in silence, or what is no character of a URL. */
const SPACE_OR_CONTROL = /[^!-~\u0080-\u{10ffff}]/u;

/** Whether notices may go to `url`: over https, or http where the operator named the host. Asked again at each try. */
export function isSecureEnough(url: URL, allowance: EgressAllowance): boolean {
  return url.protocol === "https:" || (url.protocol === "http:" && isHostAllowed(url, allowance));
}

/**
 * Why an endpoint cannot have this URL, as a sentence for its owner, or null. What a name resolves to is judged when
 * it is dialled.
 */
export function urlProblem(text: string, allowance: EgressAllowance): string | null {
  const url = SPACE_OR_CONTROL.test(text) ? null : URL.parse(text);
  if (url === null) return "url is not a URL. Give an absolute one, such as https://example.com/hook.";
  if (!isSecureEnough(url, allowance)) {
    return "url must be https. For http, the operator names its host:port in PURSER_EGRESS_ALLOW.";
  }
  if (url.username !== "" || url.password !== "") {
    return "url carries a user name or password. Leave them out: deliveries are signed.";
  }
  if (isHostAllowed(url, allowance)) return null;
  if (!isPortOpen(portOf(url))) return `url has port ${portOf(url)}, which is not open. Use 443, or one from 1024 up.`;
  const literal = url.hostname.replace(/^\[(.*)\]$/, "$1");
  if (isIP(literal) !== 0 && !isAddressOpen(literal, allowance)) {
    return "url's address is not on the public internet. Give one that is.";
  }
  return null;
}
