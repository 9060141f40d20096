import { MIMEType } from "whatwg-mimetype";

/** Types of answers, and of pictures and files as providers take them. Pure. */

export type PictureType = "image/png" | "image/jpeg" | "image/gif" | "image/webp";

/** The first bytes of the pictures that every provider takes. */
const SIGNATURES: readonly [type: PictureType, at: number, signature: string][] = [
  ["image/png", 0, "89504e470d0a1a0a"],
  ["image/jpeg", 0, "ffd8ff"],
  ["image/gif", 0, "47494638"],
  ["image/webp", 8, "57454250"],
];
const SIGNATURE_BYTES = 16;
/** Base64 characters that hold the signature. */
const SIGNATURE_CHARS = 24;

/** Other names of types that providers know by one name. A map, because callers choose the names. */
const ALIASES: ReadonlyMap<string, string> = new Map([
  ["image/jpg", "image/jpeg"],
  ["image/pjpeg", "image/jpeg"],
  ["image/jfif", "image/jpeg"],
  ["image/x-png", "image/png"],
  ["image/apng", "image/png"],
  ["application/x-pdf", "application/pdf"],
]);

/** Types that say nothing of the content. */
const UNSPECIFIC: ReadonlySet<string> = new Set(["", "application/octet-stream", "binary/octet-stream", "image/*"]);

/** The longest part of a data: URL before its data. */
const MAX_HEAD_CHARS = 1_000;
const HEAD = /^data:((?:[^,"]|"[^"]*")*),/i;

/** The type of a picture by its first bytes; null: none of the usual ones. */
export function pictureType(bytes: Uint8Array): PictureType | null {
  const start = Buffer.from(bytes.subarray(0, SIGNATURE_BYTES)).toString("hex");
  return SIGNATURES.find(([, at, signature]) => start.startsWith(signature, 2 * at))?.[0] ?? null;
}

/**
 * A media type as providers know it: in lower case, without parameters, by its usual name. `data`: in base64. What the
 * data is counts more than its name, because providers compare both.
 */
export function toMediaType(type: string, data: string): string {
  const plain = (type.split(";")[0] ?? "").trim().toLowerCase();
  const named = ALIASES.get(plain) ?? plain;
  if (!named.startsWith("image/") && !UNSPECIFIC.has(named)) return named;
  return pictureType(Buffer.from(data.slice(0, SIGNATURE_CHARS), "base64")) ?? named;
}

/** The type and the data of a data: URL in base64; null for any other text. */
export function parseDataUrl(url: string): { media_type: string; data: string } | null {
  const [start, head] = HEAD.exec(url.slice(0, MAX_HEAD_CHARS)) ?? [];
  if (start === undefined || head === undefined) return null;
  const [type = "", ...parameters] = head.split(";").map((part) => part.trim());
  if (!parameters.some((parameter) => parameter.toLowerCase() === "base64")) return null;
  const data = url.slice(start.length);
  return { media_type: toMediaType(type, data), data };
}

/** A data: URL in its usual form. Other texts are returned as they are. */
export function usualDataUrl(url: string): string {
  const parsed = parseDataUrl(url);
  return parsed === null ? url : `data:${parsed.media_type};base64,${parsed.data}`;
}

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
