import { newMark } from "../safety/fence.ts";
import { BUSY, type Sanitizer } from "../safety/sanitizer.ts";

/** A tool as its server lists it. */
export interface ListedTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Record<string, unknown>;
}

/** Passes a text through the safety layer; null when the text cannot be judged. */
export type Judge = Sanitizer["sanitize"];

const MAX_DESCRIPTION_CHARS = 1_000;
const MAX_SCHEMA_CHARS = 10_000;
/** Limit for the description of one parameter. */
const MAX_PARAMETER_CHARS = 300;
const MAX_DEPTH = 12;
const PROPERTY_NAME = /^[\w.$:@/-]{1,64}$/;
/** The JSON Schema keywords that define a tool's arguments. All others, titles and examples too, are left out. */
const KEYWORDS = new Set([
  "$schema",
  "type",
  "properties",
  "required",
  "items",
  "prefixItems",
  "additionalProperties",
  "enum",
  "const",
  "anyOf",
  "oneOf",
  "allOf",
  "not",
  "if",
  "then",
  "else",
  "format",
  "minimum",
  "maximum",
  "exclusiveMinimum",
  "exclusiveMaximum",
  "multipleOf",
  "minLength",
  "maxLength",
  "minItems",
  "maxItems",
  "uniqueItems",
  "$ref",
  "$anchor",
  "$defs",
  "definitions",
]);
/** Keywords whose keys are names that the server chose. */
const NAMING = new Set(["properties", "$defs", "definitions"]);

const TYPES = new Set<unknown>(["array", "boolean", "integer", "null", "number", "object", "string"]);

/** In place of a description that gives instructions. Without it the tool stays usable if the layer was wrong. */
const WITHHELD = "Its description is withheld, because the safety layer takes it for instructions to a model.";

/**
 * A tool with safe texts: the server writes the texts, and the model reads them in every call. null for a tool whose
 * name or values give instructions, or whose schema is too large or too odd to pass on.
 */
export async function safeTool(tool: ListedTool, judge: Judge): Promise<ListedTool | null> {
  if (JSON.stringify(tool.inputSchema).length > MAX_SCHEMA_CHARS) return null;
  const description = (await safeText(tool.description, MAX_DESCRIPTION_CHARS, judge)) ?? WITHHELD;
  const schema = await safeSchema(tool.inputSchema, judge, 0);
  // The server also writes the names and enum values in the schema and the tool's own name. They cannot be changed,
  // since calls repeat them: a tool with an unsafe name or value is left out.
  const written = JSON.stringify(schema);
  if (schema === null || (await safeText(written, MAX_SCHEMA_CHARS, judge)) !== written) return null;
  if ((await safeText(tool.name.replaceAll(/[_.:/-]+/g, " "), MAX_DESCRIPTION_CHARS, judge)) === null) return null;
  return { name: tool.name, description, inputSchema: { ...(schema as Record<string, unknown>), type: "object" } };
}

async function safeSchema(node: unknown, judge: Judge, depth: number): Promise<unknown> {
  if (depth > MAX_DEPTH) return null;
  if (Array.isArray(node)) {
    const items: unknown[] = [];
    for (const each of node) {
      const item = await safeSchema(each, judge, depth + 1);
      if (item === null) return null;
      items.push(item);
    }
    return items;
  }
  if (node === null || typeof node !== "object") return node;
  const entries: [string, unknown][] = [];
  for (const [key, value] of Object.entries(node)) {
    if (key === "description" && typeof value === "string") {
      const text = await safeText(value, MAX_PARAMETER_CHARS, judge);
      if (text !== null) entries.push([key, text]);
    } else if (value === null) {
      // Some servers write null for a keyword that they leave out.
      if (key === "const") entries.push([key, null]);
    } else if (KEYWORDS.has(key) && isWellFormed(key, value)) {
      const safe = await (NAMING.has(key) ? safeNames(value, judge, depth) : safeValue(key, value, judge, depth));
      if (safe === null) return null;
      entries.push([key, safe]);
    }
  }
  return Object.fromEntries(entries);
}

/**
 * Whether a keyword's value has the form that JSON Schema asks for. Providers reject a whole request for one that has
 * not, so it is left out, and the server checks the arguments anyway.
 */
function isWellFormed(key: string, value: unknown): boolean {
  switch (key) {
    case "type":
      return [value].flat().every((each) => TYPES.has(each));
    case "required":
      return Array.isArray(value) && value.every((each) => typeof each === "string");
    case "enum":
      return Array.isArray(value) && value.length > 0;
    case "anyOf":
    case "oneOf":
    case "allOf":
    case "prefixItems":
      return Array.isArray(value) && value.length > 0 && value.every(isSchema);
    case "items":
    case "additionalProperties":
    case "not":
    case "if":
    case "then":
    case "else":
      return isSchema(value);
    default:
      return true;
  }
}

function isSchema(value: unknown): boolean {
  return typeof value === "boolean" || (typeof value === "object" && value !== null && !Array.isArray(value));
}

/** The values of `enum` and similar keywords are data, not schemas. */
async function safeValue(key: string, value: unknown, judge: Judge, depth: number): Promise<unknown> {
  return ["enum", "const", "required", "type"].includes(key) ? (value ?? null) : safeSchema(value, judge, depth + 1);
}

async function safeNames(value: unknown, judge: Judge, depth: number): Promise<unknown> {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return null;
  const entries: [string, unknown][] = [];
  for (const [name, schema] of Object.entries(value)) {
    const known = isSchema(schema) ? schema : {};
    const safe = PROPERTY_NAME.test(name) ? await safeSchema(known, judge, depth + 2) : null;
    if (safe === null) return null;
    entries.push([name, safe]);
  }
  return Object.fromEntries(entries);
}

/**
 * The text as a reader sees it; null when it gives instructions. Single sentences are not removed, as they are from a
 * page: the rest would describe another tool than the server's.
 */
async function safeText(text: string, max_chars: number, judge: Judge): Promise<string | null> {
  if (text === "") return "";
  const content = text.slice(0, max_chars).toWellFormed();
  const judged = await judge({ content, kind: "text", level: "balanced", mark: newMark() });
  if (judged === null || judged === BUSY || judged.verdict.injected) return null;
  const { readable } = await import("../safety/reading/readable.ts");
  return readable(content, "text").text;
}
