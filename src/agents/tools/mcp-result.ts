import { z } from "../../api/contract/zod.ts";
import { MAX_REMOVED } from "../../kernel/constants.ts";
import { jsonOrUndefined } from "../../platform/lib/json.ts";
import { pictureType } from "../../platform/lib/media-type.ts";
import type { Sanitized, SanitizeRequest } from "../../safety/sanitize.ts";
import { BUSY } from "../../safety/sanitizer.ts";
import { leakIn, type OpenedCredential } from "./credentials.ts";
import { documentKind, textKind } from "./fetched-text.ts";
import { outsideWords } from "./outside-words.ts";
import { collectFindings, MAX_TEXT_CHARS, SAFETY_BUSY, textsOf } from "./safe-answer.ts";
import type { ToolDeps } from "./tool.ts";
import { failedCall, type Picture, type ToolCall, type ToolResult } from "./tools.types.ts";

/** The result of an MCP server's tool. Parts of unknown types are no error: they are left out. */
export const callAnswerSchema = z.object({
  content: z.array(z.looseObject({ type: z.string() })).default([]),
  structuredContent: z.unknown().optional(),
  isError: z.boolean().optional(),
});
export type CallAnswer = z.infer<typeof callAnswerSchema>;

/** Limits of the pictures of one result: its step keeps them, and each costs its model some thousand tokens. */
const MAX_PICTURES = 5;
const MAX_PICTURE_BYTES = 1_000_000;
/** The most embedded documents of one result that are read. */
const MAX_DOCUMENTS = 10;
/** Longer texts are not parsed: a million levels take a second. */
const MAX_COMPARED_CHARS = 65_536;
/** Passes an answer's text through the safety layer. Its pictures cannot be judged: they are handed on as data. */
export async function toResult(
  answer: CallAnswer,
  { call, credentials, deps }: { call: ToolCall; credentials: readonly OpenedCredential[]; deps: ToolDeps },
): Promise<ToolResult> {
  const pictures = readPictures(answer);
  const documents = readDocuments(answer);
  const content = extractText(answer, pictures, documents);
  const sanitizer = deps.sanitizer.of(call.run.user_id, call);
  const results: Sanitized[] = [];
  let max_chars = MAX_TEXT_CHARS;
  for (const each of [{ content, kind: textKind(content) }, ...documents.values()]) {
    const sanitized = await sanitizer.sanitize({ ...each, level: "balanced", mark: call.mark, max_chars });
    if (sanitized === BUSY) return failedCall("mcp_failed", SAFETY_BUSY);
    if (sanitized === null) return failedCall("unsupported_content", "the answer is too intricate to be made safe");
    results.push(sanitized);
    max_chars = Math.max(0, max_chars - sanitized.text.length);
  }
  const text = results.map((each) => each.text).join("\n\n");
  const safety = collectFindings(results.reduce(together));
  const written = [content, ...[...documents.values()].map((each) => each.content)];
  const seen = [...written, ...textsOf({ text, safety, links: [] }), ...[...pictures.values()].map(({ data }) => data)];
  const leak = await leakIn(seen, { credentials, run: call.run }, deps);
  if (leak !== null) return leak;
  const outcome = { result: text, safety, links: [], pictures: [...pictures.values()] };
  if (!answer.isError) return { status: "succeeded", ...outcome };
  const outside = outsideWords(null, text, call.mark);
  const error = { code: "mcp_failed" as const, message: "the tool says that it failed", outside };
  return { status: "failed", error, ...outcome };
}

type Document = Pick<SanitizeRequest, "content" | "kind">;

/** The embedded HTML and Markdown documents, by the part that holds them. Only their own reader finds hidden text. */
function readDocuments({ content }: CallAnswer): Map<Record<string, unknown>, Document> {
  const documents = new Map<Record<string, unknown>, Document>();
  for (const part of content) {
    if (part.type !== "resource" || documents.size === MAX_DOCUMENTS) continue;
    const kind = kindOfDocument(part);
    const { text } = readResource(part);
    if (kind !== null && typeof text === "string") documents.set(part, { content: text, kind });
  }
  return documents;
}

function kindOfDocument(part: Record<string, unknown>): "html" | "markdown" | null {
  const { mimeType } = readResource(part);
  return typeof mimeType === "string" ? documentKind(mimeType) : null;
}

function readResource(part: Record<string, unknown>): { uri?: unknown; text?: unknown; mimeType?: unknown } {
  return part.resource ?? {};
}

function together(one: Sanitized, other: Sanitized): Sanitized {
  return {
    ...one,
    verdict: {
      injected: one.verdict.injected || other.verdict.injected,
      suspicious: one.verdict.suspicious || other.verdict.suspicious,
      score: Math.max(one.verdict.score, other.verdict.score),
    },
    removed: [...one.removed, ...other.removed].slice(0, MAX_REMOVED),
    marked: [...one.marked, ...other.marked].slice(0, MAX_REMOVED),
    judges: [...(one.judges ?? []), ...(other.judges ?? [])],
  };
}

/** The pictures that models can read, by the part that holds them. */
function readPictures({ content }: CallAnswer): Map<Record<string, unknown>, Picture> {
  const pictures = new Map<Record<string, unknown>, Picture>();
  for (const part of content) {
    const picture = part.type === "image" && pictures.size < MAX_PICTURES ? readPicture(part) : null;
    if (picture !== null) pictures.set(part, picture);
  }
  return pictures;
}

function readPicture({ data }: Record<string, unknown>): Picture | null {
  if (typeof data !== "string" || data.length > Math.ceil((MAX_PICTURE_BYTES * 4) / 3)) return null;
  const bytes = Buffer.from(data, "base64");
  // A server may name a type that the data does not have.
  const media_type = pictureType(bytes);
  // Written again, because the server's text may hold characters that are no base64.
  return media_type === null ? null : { media_type, data: bytes.toString("base64") };
}

/** The text of an answer; a placeholder for each part that is not text or is read on its own. */
function extractText(
  { content, structuredContent }: CallAnswer,
  pictures: ReadonlyMap<unknown, Picture>,
  documents: ReadonlyMap<unknown, Document>,
): string {
  const lines = content.map((part) => {
    if (pictures.has(part)) return "[image: see below]";
    return documents.has(part) ? "[a document: see below]" : partText(part);
  });
  if (structuredContent === undefined) return lines.join("\n");
  const structured = JSON.stringify(structuredContent);
  // Many servers send the same data as a text, for clients that know no structured content.
  const first = lines.find((line) => /^\s*[[{]/.test(line)) ?? "";
  const is_repeated = lines.includes(structured) || sameJson(first, structured);
  return is_repeated ? lines.join("\n") : [...lines, structured].join("\n");
}

function sameJson(text: string, json: string): boolean {
  return text.length <= MAX_COMPARED_CHARS && JSON.stringify(jsonOrUndefined(text)) === json;
}

/** The texts among these fields of a server, which may lack them. */
function textsIn(...fields: readonly unknown[]): string {
  return fields.filter((field) => typeof field === "string").join(", ") || "without a name";
}

function partText(part: Record<string, unknown>): string {
  switch (part.type) {
    case "text":
      return typeof part.text === "string" ? part.text : "[cannot be read]";
    case "resource": {
      const { uri, text } = readResource(part);
      if (kindOfDocument(part) !== null && typeof text === "string") return "[a document: left out, too many]";
      return typeof text === "string" ? text : `[a resource that is no text: ${textsIn(uri)}]`;
    }
    case "resource_link":
      return `[a resource: ${textsIn(part.name, part.uri)}]`;
    case "image":
    case "audio":
      return `[${part.type}: cannot be read]`;
    default:
      return "[cannot be read]";
  }
}
