import { isJsonObject } from "../../platform/lib/json.ts";
import { isObjectSchema } from "../../platform/lib/tool-schema.ts";
import { newMark } from "../../safety/fence.ts";
import { BUSY, type Sanitizer } from "../../safety/sanitizer.ts";

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
/** Models get other names for those that their provider does not take. */
const ARGUMENT_NAME = /^[^\p{C}\p{Zl}\p{Zp}]{1,128}$/u;
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

/** Why a model cannot get a tool. `name`: the server's name for it; null: it is not safe to repeat. */
export interface LeftOutTool {
  readonly name: string | null;
  readonly reason: string;
}

/** The reason is a sentence of our own. */
class SchemaError extends Error {}

/**
 * A tool with safe texts: the server writes the texts, and the model reads them in every call. A tool whose name or values
 * give orders, or whose schema is too large or too odd to pass on, is left out with the reason.
 */
export async function safeTool(tool: ListedTool, judge: Judge): Promise<ListedTool | LeftOutTool> {
  const { inputSchema } = tool;
  const is_safe = (await safeText(tool.name.replaceAll(/[_.:/-]+/g, " "), MAX_DESCRIPTION_CHARS, judge)) !== null;
  const leftOut = (reason: string) => ({ name: is_safe ? tool.name : null, reason });
  if (!is_safe) return leftOut("its name gives orders to a model");
  if (JSON.stringify(inputSchema).length > MAX_SCHEMA_CHARS) {
    return leftOut(`its schema has more than ${MAX_SCHEMA_CHARS} characters`);
  }
  if (!isObjectSchema(inputSchema)) return leftOut("its arguments are no object");
  try {
    const schema = await safeSchema(inputSchema, judge, 0);
    // The server also writes the names and values in the schema. They cannot be changed, since calls repeat them.
    const written = JSON.stringify(schema);
    if ((await safeText(written, MAX_SCHEMA_CHARS, judge)) !== written) {
      return leftOut("a name or a value in its schema gives orders to a model, or has hidden characters");
    }
    const description = (await safeText(tool.description, MAX_DESCRIPTION_CHARS, judge)) ?? WITHHELD;
    return { name: tool.name, description, inputSchema: { ...(schema as Record<string, unknown>), type: "object" } };
  } catch (error) {
    if (error instanceof SchemaError) return leftOut(error.message);
    throw error;
  }
}

async function safeSchema(node: unknown, judge: Judge, depth: number): Promise<unknown> {
  if (depth > MAX_DEPTH) throw new SchemaError(`its schema has more than ${MAX_DEPTH} levels`);
  if (Array.isArray(node)) {
    const items: unknown[] = [];
    for (const each of node) items.push(await safeSchema(each, judge, depth + 1));
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
      const safe = NAMING.has(key) ? safeNames(value, judge, depth) : safeValue(key, value, judge, depth);
      entries.push([key, await safe]);
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
    case "properties":
    case "$defs":
    case "definitions":
      return isJsonObject(value);
    case "minimum":
    case "maximum":
    case "exclusiveMinimum":
    case "exclusiveMaximum":
    case "multipleOf":
    case "minLength":
    case "maxLength":
    case "minItems":
    case "maxItems":
      return typeof value === "number";
    case "uniqueItems":
      return typeof value === "boolean";
    case "$schema":
    case "$ref":
    case "$anchor":
    case "format":
      return typeof value === "string";
    default:
      return true;
  }
}

function isSchema(value: unknown): boolean {
  return typeof value === "boolean" || isJsonObject(value);
}

/** The values of `enum` and similar keywords are data, not schemas. */
async function safeValue(key: string, value: unknown, judge: Judge, depth: number): Promise<unknown> {
  return ["enum", "const", "required", "type"].includes(key) ? (value ?? null) : safeSchema(value, judge, depth + 1);
}

async function safeNames(value: unknown, judge: Judge, depth: number): Promise<unknown> {
  const entries: [string, unknown][] = [];
  for (const [name, schema] of Object.entries(value as object)) {
    if (!ARGUMENT_NAME.test(name)) {
      throw new SchemaError("an argument's name is empty, has over 128 characters or hidden ones");
    }
    entries.push([name, await safeSchema(isSchema(schema) ? schema : {}, judge, depth + 2)]);
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
  const { readable } = await import("../../safety/reading/readable.ts");
  return readable(content, "text").text;
}
