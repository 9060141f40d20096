import { isUtf8 } from "node:buffer";
import { labelToName, TextDecoder } from "@exodus/bytes/encoding.js";
import sniffEncoding from "html-encoding-sniffer";
import { Tokenizer } from "htmlparser2";

/** The beginning of a page, where a `meta` names its charset. Pages may have long scripts before it. */
const META_BYTES = 1_048_576;
const PART_BYTES = 131_072;
/** Longer values of attributes name no charset. */
const MAX_VALUE = 1_000;
const META_CHARSET = /charset\s{0,8}=\s{0,8}["']?\s{0,8}([\w.:-]{1,40})/i;
/** Labels of other programs, which browsers do not know. They count only if the text itself says nothing. */
const OTHER_LABELS = new Map([
  ...["cp932", "ms932", "cp943", "shift_jisx0213"].map((label) => [label, "shift_jis"] as const),
  ...["cp936", "ms936", "gb_18030"].map((label) => [label, "gb18030"] as const),
  ...["cp949", "ms949", "uhc"].map((label) => [label, "euc-kr"] as const),
  ...["cp950", "ms950"].map((label) => [label, "big5"] as const),
  ...["cp51932", "eucjp"].map((label) => [label, "euc-jp"] as const),
]);

/**
 * Decodes a text as browsers do (HTML standard, "determining the character encoding"): by its byte order mark, the
 * charset of its header, what an HTML or XML text itself declares, or otherwise as UTF-8, or as windows-1252 if it is no
 * UTF-8. Never throws.
 */
export function decodeBytes(
  body: Buffer,
  { label, kind }: { label: string | undefined; kind: "html" | "xml" | "text" },
): string {
  return decoder(declaredCharset(body, label, kind) ?? undeclaredCharset(body, label)).decode(body);
}

function declaredCharset(body: Buffer, label: string | undefined, kind: "html" | "xml" | "text") {
  const options = { transportLayerEncodingLabel: label, defaultEncoding: null };
  if (kind === "xml") return sniffEncoding(body, { ...options, xml: true });
  if (kind === "text") return sniffEncoding(body, { ...options, maxPrescanBytes: 0 });
  // Browsers search the first 1,024 bytes, and then change the charset when their parser meets a later `meta`.
  return sniffEncoding(body, options) ?? charsetOfMeta(body);
}

function undeclaredCharset(body: Buffer, label = ""): string {
  const other = OTHER_LABELS.get(label.toLowerCase());
  if (other !== undefined) return other;
  if (isUtf8(body)) return "utf-8";
  const beginning = new TextDecoder().decode(body.subarray(0, PART_BYTES));
  const damaged = beginning.split("\ufffd").length - 1;
  const foreign = beginning.replace(/[\0-\x7f]+/g, "").length;
  // A UTF-8 text with a few damaged characters stays one.
  return damaged * 2 > foreign ? "windows-1252" : "utf-8";
}

/** The charset of the first `meta` element that names one. The same words in scripts and comments are none. */
function charsetOfMeta(body: Buffer): string | null {
  let found: string | null = null;
  let is_meta = false;
  let name = "";
  let attributes = new Map<string, string>();
  const readMeta = () => {
    const is_declaration = attributes.get("http-equiv")?.toLowerCase() === "content-type";
    const content = is_declaration ? META_CHARSET.exec(attributes.get("content") ?? "")?.[1] : undefined;
    const charset = labelToName(attributes.get("charset") ?? content ?? "");
    // Otherwise the declaration itself could not have been read.
    if (charset !== null) found ??= charset.startsWith("UTF-16") ? "utf-8" : charset;
  };
  const textAt = (from: number, to: number) => body.toString("latin1", from, Math.min(to, from + MAX_VALUE));
  const tokenizer = new Tokenizer(
    { decodeEntities: true },
    {
      onopentagname(from, to) {
        is_meta = textAt(from, to).toLowerCase() === "meta";
        attributes = new Map();
      },
      onattribname(from, to) {
        name = textAt(from, to).toLowerCase();
      },
      onattribdata(from, to) {
        if (is_meta && !attributes.has(name)) attributes.set(name, textAt(from, to));
      },
      onopentagend() {
        if (is_meta) readMeta();
      },
      onselfclosingtag() {
        if (is_meta) readMeta();
      },
      onattribentity() {},
      onattribend() {},
      oncdata() {},
      onclosetag() {},
      oncomment() {},
      ondeclaration() {},
      onend() {},
      onprocessinginstruction() {},
      ontext() {},
      ontextentity() {},
    },
  );
  for (let at = 0; at < Math.min(body.length, META_BYTES) && found === null; at += PART_BYTES) {
    tokenizer.write(body.toString("latin1", at, at + PART_BYTES));
  }
  return found;
}

function decoder(label: string): TextDecoder {
  try {
    return new TextDecoder(label);
  } catch {
    return new TextDecoder();
  }
}
