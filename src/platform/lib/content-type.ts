import { MIMEType } from "whatwg-mimetype";

/** The library reads a header of 15,000 spaces in quadratic time. */
const MAX_CHARS = 1_000;

/**
 * The last valid type of a Content-Type, normalised; "" if there is none. A server may send several lines, joined by
 * commas here. A charset stays when a later line repeats its type without one (Fetch standard, "extract a MIME type").
 */
export function contentTypeIn(header: string): string {
  let charset: string | undefined;
  let last: MIMEType | null = null;
  for (const value of splitAtCommas(header.slice(0, MAX_CHARS))) {
    const type = MIMEType.parse(value);
    if (type === null || type.essence === "*/*") continue;
    const is_repeated = type.essence === last?.essence;
    const own = type.parameters.get("charset");
    if (own !== undefined || !is_repeated) charset = own;
    else if (charset !== undefined) type.parameters.set("charset", charset);
    last = type;
  }
  return last === null ? "" : last.toString();
}

/** Splits at the commas that are not in quotes. */
function splitAtCommas(header: string): string[] {
  if (!header.includes(",")) return [header];
  const parts: string[] = [];
  let from = 0;
  let is_quoted = false;
  for (let at = 0; at < header.length; at += 1) {
    if (is_quoted && header[at] === "\\") at += 1;
    else if (header[at] === '"') is_quoted = !is_quoted;
    else if (header[at] === "," && !is_quoted) {
      parts.push(header.slice(from, at));
      from = at + 1;
    }
  }
  return [...parts, header.slice(from)];
}
