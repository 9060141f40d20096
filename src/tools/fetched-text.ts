import { setImmediate as nextTurn } from "node:timers/promises";
import type { SanitizeRequest } from "../safety/sanitize.ts";

/** How far into a page its own statement of charset is looked for (HTML standard: the first 1024 bytes). */
const META_BYTES = 1024;
/** Bytes that are decoded at once: 5 ms in the slowest charset, iso-2022-jp. */
const DECODED_BYTES = 262_144;

/**
 * What kind of text a response is, by its Content-Type; null for what web_fetch does not read.
 * A response without a type counts as HTML: of all readings that one keeps the least.
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

/** Of a text whose type nobody told: what begins like JSON is read as that, lest its escapes hide something. */
export function textKind(content: string): "json" | "text" {
  return /^[[{"]/.test(content.trimStart()) ? "json" : "text";
}

/** The type and subtype of a Content-Type, lower case, parameters cut off. */
export function mediaType(content_type: string): string {
  return (content_type.split(";")[0] ?? "").trim().toLowerCase();
}

/** Bytes to text: byte order mark, then the header's charset, then the page's own, then UTF-8. Never throws. The event loop goes on between parts of a long text. */
export async function decodeText(body: Buffer, content_type: string): Promise<string> {
  const label = charsetOfMark(body) ?? charsetIn(content_type) ?? charsetIn(body.toString("latin1", 0, META_BYTES));
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

function charsetIn(text: string): string | undefined {
  return /charset\s*=\s*["']?\s*([\w.:-]{1,40})/i.exec(text)?.[1];
}

function decoder(label: string): TextDecoder {
  try {
    return new TextDecoder(label);
  } catch {
    return new TextDecoder();
  }
}
