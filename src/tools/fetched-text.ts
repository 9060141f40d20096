import { setImmediate as nextTurn } from "node:timers/promises";
import type { SanitizeRequest } from "../safety/sanitize.ts";

/** Part of a page that is searched for its own charset declaration (HTML standard: the first 1024 bytes). */
const META_BYTES = 1024;
/** Bytes decoded in one turn: 5 ms in the slowest charset, iso-2022-jp. */
const DECODED_BYTES = 262_144;

/**
 * The kind of text of a response, by its Content-Type; null for types that web_fetch does not read.
 * A response without a type counts as HTML, because the HTML reader keeps the least.
 */
export function kindOf(content_type: string, path: string): SanitizeRequest["kind"] | null {
  const type = mediaType(content_type);
  switch (type) {
    case "":
    case "text/html":
    case "application/xhtml+xml":
      return "html";
    case "text/markdown":
    case "text/x-markdown":
      return "markdown";
    case "text/plain":
      return /\.(md|markdown)$/i.test(path) ? "markdown" : "text";
    case "text/csv":
      return "text";
    default:
      return type === "application/json" || /^application\/[\w.-]+\+json$/.test(type) ? "json" : null;
  }
}

/** The kind of a text without a known type. Text that begins like JSON is JSON: its escapes may hide attacks. */
export function textKind(content: string): "json" | "text" {
  return /^[[{"]/.test(content.trimStart()) ? "json" : "text";
}

/** The type and subtype of a Content-Type, lower case, parameters cut off. */
export function mediaType(content_type: string): string {
  return (content_type.split(";")[0] ?? "").trim().toLowerCase();
}

/**
 * Bytes to text. The charset comes from the byte order mark, the header, an HTML page itself, or is UTF-8. Never throws; yields
 * to the event loop between parts of a long text.
 */
export async function decodeText(body: Buffer, content_type: string): Promise<string> {
  const label = charsetOfMark(body) ?? charsetIn(content_type) ?? charsetOfPage(body, content_type);
  const charset = decoder(label ?? "utf-8");
  let text = "";
  let at = 0;
  for (; body.length - at > DECODED_BYTES; at += DECODED_BYTES) {
    text += charset.decode(body.subarray(at, at + DECODED_BYTES), { stream: true });
    await nextTurn();
  }
  return text + charset.decode(body.subarray(at));
}

function charsetOfMark(body: Buffer): string | undefined {
  if (body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf) return "utf-8";
  if (body[0] === 0xfe && body[1] === 0xff) return "utf-16be";
  return body[0] === 0xff && body[1] === 0xfe ? "utf-16le" : undefined;
}

/** Bounded spaces: a server may send 16 KB of them, which unbounded ones would read in quadratic time. */
const CHARSET = /charset\s{0,8}=\s{0,8}["']?\s{0,8}([\w.:-]{1,40})/i;

/** The encoding in an XML declaration. */
const XML_ENCODING = /^<\?xml\s[^>]{0,200}?\bencoding\s{0,8}=\s{0,8}["']([\w.:-]{1,40})/i;

/**
 * The charset that an HTML page declares. A declared UTF-16 is UTF-8 (HTML standard): otherwise the declaration could
 * not have been read. Other texts declare none, and the same words in them mean nothing.
 */
function charsetOfPage(body: Buffer, content_type: string): string | undefined {
  if (kindOf(content_type, "") !== "html") return undefined;
  const beginning = body.toString("latin1", 0, META_BYTES);
  const declared = XML_ENCODING.exec(beginning)?.[1] ?? charsetIn(beginning);
  return declared !== undefined && /^utf-?16/i.test(declared) ? "utf-8" : declared;
}

function charsetIn(text: string): string | undefined {
  return CHARSET.exec(text)?.[1];
}

function decoder(label: string): TextDecoder {
  try {
    return new TextDecoder(label);
  } catch {
    return new TextDecoder();
  }
}
