import { isIP } from "node:net";
import {
  type EgressAllowance,
  isAddressOpen,
  isHostAllowed,
  isPortOpen,
  readPort,
} from "../../platform/net/address.ts";

/** Characters that URL parsers silently drop or that a URL cannot contain. */
const SPACE_OR_CONTROL = /[^!-~\u0080-\u{10ffff}]/u;

/**
 * Whether notices may be sent to `url`: over https, or over http to a host that the operator allowed. Checked again at
 * each try.
 */
export function isSecureEnough(url: URL, allowance: EgressAllowance): boolean {
  return url.protocol === "https:" || (url.protocol === "http:" && isHostAllowed(url, allowance));
}

/**
 * The reason why nothing can be delivered to this URL, as a sentence for its owner, or null. The resolved address is
 * checked when connecting. `param`: the field that has it.
 */
export function urlProblem(text: string, allowance: EgressAllowance, param = "url"): string | null {
  const url = SPACE_OR_CONTROL.test(text) ? null : URL.parse(text);
  if (url === null) return `${param} is not a URL. Give an absolute one, such as https://example.com/hook.`;
  if (!isSecureEnough(url, allowance)) {
    return `${param} must be https. For http, the operator must add its host:port to PURSER_EGRESS_ALLOW.`;
  }
  if (url.username !== "" || url.password !== "") {
    return `${param} contains a user name or password. Remove them; deliveries are signed.`;
  }
  if (isHostAllowed(url, allowance)) return null;
  if (!isPortOpen(readPort(url)))
    return `${param} has port ${readPort(url)}, which is not open. Use 443, or one from 1024 up.`;
  const literal = url.hostname.replace(/^\[(.*)\]$/, "$1");
  if (isIP(literal) !== 0 && !isAddressOpen(literal, allowance)) {
    return `${param}'s address is not on the public internet. Give a public address.`;
  }
  return null;
}
