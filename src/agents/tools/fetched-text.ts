import { isAscii } from "node:buffer";
import { MIMEType } from "whatwg-mimetype";
import { contentTypeIn } from "../../platform/lib/media-type.ts";
import type { SanitizeRequest } from "../../safety/sanitize.ts";

type TextKind = SanitizeRequest["kind"];
/** What the type of an answer says. `none`, `file`: nothing. `other`: it may be text or not. */
type Declared = TextKind | "none" | "file" | "other" | "binary";

/** What can be read, in a sentence for the model. */
const READABLE = "only text can be read: pages, Markdown, JSON, XML, feeds, CSV, calendars and the like, and PDF";
/** Types that servers give to any file. */
const ANY_FILE =
  /^(?:(?:application|binary)\/(?:x-)?octet-stream|(?:application|unknown)\/unknown|application\/(?:x-)?(?:force-)?download)$/;
/** Words in the names of types that are text. */
const WORDS_OF_TEXT =
  /(?:^|[.+-])(?:ya?ml|csv|tsv|calendar|ics|(?:java|ecma|type)script|toml|sql|graphql|(?:la)?tex|sh|perl|python|ruby|php|diff|patch|ini|properties|sgml)(?:$|[.+-])/;
/** The beginning of a text that is searched for its kind. */
const BEGINNING_CHARS = 8_192;
/** White space, an XML declaration, comments and a document type, and the first element's name. */
const ROOT =
  /^\s*(?:<\?(?:(?!\?>)[\s\S])*\?>\s*|<!--(?:(?!-->)[\s\S])*-->\s*|<!doctype\b[^>[]*(?:\[[^\]]*\]\s*)?>\s*){0,40}<([a-z][\w.-]*:)?([a-z][\w.-]*)/i;
const HTML = /^(?:html|head|body|title|script|style|meta|link|div|p|h1|table|a|br|font|iframe)$/i;
const FEED = /^(?:rss|feed|rdf|urlset|sitemapindex)$/i;
/** Bytes that are searched for the name of a file's type. */
const SIGNATURE_BYTES = 65_536;
/** Control characters that texts have: tab, line feed, form feed, carriage return, escape. */
const CONTROLS_OF_TEXT = new Set([0x09, 0x0a, 0x0c, 0x0d, 0x1b]);
/** A text with fewer other control characters is damaged, not binary. */
const MAX_CONTROLS = 0.01;

/** An answer as text of a kind, as a PDF, or a sentence for the model that says why it cannot be read. */
export type Fetched = { readonly kind: TextKind; readonly content: string } | "pdf" | { readonly problem: string };

/** Reads an answer by its Content-Type and by its bytes, which decide where the type says too little or is wrong. */
export async function readFetched(body: Buffer, content_type: string, path: string): Promise<Fetched> {
  const type = MIMEType.parse(content_type);
  const beginning = body.toString("latin1", 0, BEGINNING_CHARS);
  if (/^(?:\xef\xbb\xbf)?\s*%PDF-/.test(beginning)) return "pdf";
  const is_called_pdf = type?.essence === "application/pdf";
  // Readers of PDF accept other bytes before it.
  const may_be_pdf = beginning.slice(0, 1_024).includes("%PDF-");
  if (is_called_pdf && may_be_pdf) return "pdf";
  if (body.length === 0) return { kind: "text", content: "" };
  const declared = declaredKind(type, path);
  if (declared === "binary")
    return { problem: `the answer is ${(await readSignature(body)) ?? type?.type}; ${READABLE}` };
  const expected = kindBy(declared, beginning) ?? "text";
  const content = await decodeText(body, { label: type?.parameters.get("charset"), kind: expected });
  const binary = await binaryKind(content, body);
  if (binary !== null && may_be_pdf) return "pdf";
  if (binary !== null) return { problem: `the answer is ${binary}; ${READABLE}` };
  const kind = kindBy(declared, content.slice(0, BEGINNING_CHARS));
  if (kind !== null) return { kind, content };
  return is_called_pdf ? "pdf" : { kind: textKind(content), content };
}

/** The kind of an embedded document, by its type alone; null for a document that is read as plain text. */
export function documentKind(content_type: string): "html" | "markdown" | null {
  const kind = declaredKind(MIMEType.parse(contentTypeIn(content_type)), "");
  return kind === "html" || kind === "markdown" ? kind : null;
}

/** The kind of a text without a known type. Text that begins like JSON is JSON: its escapes may hide attacks. */
export function textKind(content: string): "json" | "text" {
  return /^[[{"]/.test(content.trimStart()) ? "json" : "text";
}

function declaredKind(type: MIMEType | null, path: string): Declared {
  if (type === null) return "none";
  const is_markdown = /\.(md|markdown)$/i.test(path);
  if (ANY_FILE.test(type.essence)) return is_markdown ? "markdown" : "file";
  const { subtype } = type;
  if (subtype.includes("html")) return "html";
  if (subtype.includes("markdown")) return "markdown";
  if (subtype.includes("json")) return "json";
  if (/(?:^|[.+-])(?:xml|rss|atom)(?:$|[.+-])/.test(subtype)) return "xml";
  if (["image", "audio", "video", "font", "model"].includes(type.type)) return "binary";
  if (type.essence === "text/plain" && is_markdown) return "markdown";
  return type.type === "text" || WORDS_OF_TEXT.test(subtype) ? "text" : "other";
}

/** The kind of a text, by its type and its beginning; null if neither says that it is text. */
function kindBy(declared: Declared, beginning: string): TextKind | null {
  const text = beginning.replace(/^(?:\ufeff|\xef\xbb\xbf)/, "");
  const [, , root] = ROOT.exec(text) ?? [];
  // Many servers send feeds with another type, and pages as XML.
  const is_feed = root !== undefined && FEED.test(root);
  switch (declared) {
    case "html":
      return is_feed ? "xml" : "html";
    case "xml":
      return root?.toLowerCase() === "html" ? "html" : "xml";
    case "text":
      return is_feed ? "xml" : textKind(text);
    case "none":
    case "file":
    case "other": {
      if (is_feed || /^\s*<\?xml\s/i.test(text)) return root?.toLowerCase() === "html" ? "html" : "xml";
      if ((root !== undefined && HTML.test(root)) || /^\s*<!doctype html/i.test(text)) return "html";
      if (/^\s*[[{]/.test(text)) return "json";
      if (/^\s*BEGIN:V/i.test(text)) return "text";
      // The HTML reader keeps the least.
      return { none: "html", file: "text", other: null }[declared] as TextKind | null;
    }
    default:
      return declared === "binary" ? null : declared;
  }
}

/** Bytes to text. The libraries for charsets are loaded with the first text that is not ASCII. */
async function decodeText(
  body: Buffer,
  { label, kind }: { label: string | undefined; kind: TextKind },
): Promise<string> {
  // ISO-2022-JP and UTF-16 are ASCII with escapes and zeros.
  if (isAscii(body) && !body.includes(0) && !body.includes(0x1b)) return body.toString("latin1");
  const { decodeBytes } = await import("./charset.ts");
  return decodeBytes(body, { label, kind: kind === "html" || kind === "xml" ? kind : "text" });
}

/** The name of the type of bytes that are no text; null: they are text. Only names of the library are repeated. */
async function binaryKind(content: string, body: Buffer): Promise<string | null> {
  let count = 0;
  for (let at = 0; at < content.length; at += 1) {
    const code = content.charCodeAt(at);
    if (code < 0x20 && !CONTROLS_OF_TEXT.has(code)) count += 1;
  }
  if (count === 0) return null;
  const name = await readSignature(body);
  return name ?? (count > content.length * MAX_CONTROLS ? "binary data" : null);
}

async function readSignature(body: Buffer): Promise<string | undefined> {
  const { fileTypeFromBuffer } = await import("file-type");
  const found = await fileTypeFromBuffer(body.subarray(0, SIGNATURE_BYTES)).catch(() => undefined);
  return found === undefined || /^text\/|[/+]xml$/.test(found.mime) ? undefined : found.mime;
}
