import { Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";
import { LRUCache } from "lru-cache";
import { RE2JS } from "re2js";
import { isJsonObject, stableJson } from "./json.ts";

/**
 * JSON Schemas that users write (draft 2020-12). A schema is checked when it is saved, so that no value can make its
 * validation slow: it has limits, refers to its own parts only and not to itself, and its patterns run in linear time.
 */

export type Schema = Readonly<Record<string, unknown>>;
type Path = readonly (string | number)[];

/** What is wrong at a path within a schema. */
export interface SchemaFault {
  readonly path: Path;
  readonly message: string;
}
/** What is wrong with a value. `missing`: the field at `path` is required. `unknown`: it is none of `known`. */
export interface ValueFault extends SchemaFault {
  readonly kind: "missing" | "unknown" | "invalid";
  readonly known: readonly string[];
}

const MAX_BYTES = 65_536;
const MAX_DEPTH = 20;
/** Parts as written. Generating the check of one takes 0.4 ms. */
const MAX_PARTS = 500;
/** Parts that a value is checked against, with each reference replaced by its part. Values of `enum` count too. */
const MAX_CHECKS = 5_000;
/** It compares all pairs of a list. */
const UNIQUE_ITEMS_CHECKS = 100;
/** Checks of a schema by the parts of a value: each pair may be compared, which takes 0.4 µs. */
const MAX_COMPARISONS = 2_000_000;
/** Instructions of all patterns. Each character of a value may take as many steps. */
const MAX_PATTERN_STEPS = 2_000;

const SINGLE = [
  ...["items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"],
  ...["unevaluatedItems", "unevaluatedProperties"],
];
const LISTS = ["allOf", "anyOf", "oneOf", "prefixItems"];
const MAPS = ["properties", "patternProperties", "dependentSchemas"];
const DEFINITIONS = ["$defs", "definitions"];
const UNSUPPORTED = ["$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"];

/** Unknown keywords are notes, as JSON Schema says. So is `format`: validators differ in what they take for one. */
const OPTIONS = {
  strict: false,
  validateFormats: false,
  addUsedSchema: false,
  inlineRefs: false,
  verbose: true,
  logger: false,
  code: { optimize: false, regExp: Object.assign(compilePattern, { code: "compilePattern" }) },
} as const;

let meta_schema: Ajv2020 | undefined;

/** Why the schema cannot be used; null: it can. It must describe an object. Takes less than a second. */
export function findSchemaFault(schema: Schema): SchemaFault | null {
  if (Buffer.byteLength(JSON.stringify(schema)) > MAX_BYTES) {
    return { path: [], message: `has more than ${MAX_BYTES / 1024} KB` };
  }
  if (schema.type !== "object") return { path: ["type"], message: 'must be "object"' };
  meta_schema ??= new Ajv2020(OPTIONS);
  if (meta_schema.validateSchema(withoutDialect(schema)) !== true) {
    const error = meta_schema.errors?.at(-1);
    return { path: pathOf(error?.instancePath ?? "", schema), message: error?.message ?? "is no JSON Schema" };
  }
  try {
    measure(schema);
    compile(schema);
    return null;
  } catch (error) {
    if (error instanceof ExcessError) return { path: error.path, message: error.message };
    return { path: [], message: `cannot be used: ${(error as Error).message.slice(0, 200)}` };
  }
}

/** What is wrong with the value; null: it is valid. `schema` has passed `findSchemaFault`. */
export function findValueFault(schema: Schema, value: unknown): ValueFault | null {
  const { validate, checks } = compile(schema);
  if (checks * countParts(value) > MAX_COMPARISONS) {
    return { kind: "invalid", path: [], message: "has too many values for its schema", known: [] };
  }
  if (validate(value)) return null;
  // The last error is that of the whole alternative. `if` says nothing beyond the error before it.
  const error = validate.errors?.findLast(({ keyword }) => keyword !== "if");
  return error === undefined ? null : toValueFault(error, value);
}

function toValueFault(
  { instancePath, keyword, params, message = "is not valid", ...error }: ErrorObject,
  value: unknown,
): ValueFault {
  const path = pathOf(instancePath, value);
  const known: string[] = [];
  if (keyword === "required") {
    return { kind: "missing", path: [...path, String(params.missingProperty)], message: "is missing", known };
  }
  if (keyword === "additionalProperties") {
    const { properties = {} } = (error.parentSchema ?? {}) as { properties?: object };
    const unknown = [...path, String(params.additionalProperty)];
    return { kind: "unknown", path: unknown, message: "is no field", known: Object.keys(properties) };
  }
  const allowed = keyword === "enum" ? `: ${JSON.stringify(params.allowedValues).slice(0, 200)}` : "";
  return { kind: "invalid", path, message: `${message}${allowed}`, known };
}

interface Compiled {
  validate: ValidateFunction;
  checks: number;
}

const compiled = new LRUCache<string, Compiled>({ max: 200 });

function compile(schema: Schema): Compiled {
  const key = stableJson(schema);
  const kept = compiled.get(key);
  if (kept !== undefined) return kept;
  // An instance keeps all its schemas, so each one has its own.
  const validate = new Ajv2020({ ...OPTIONS, meta: false, validateSchema: false }).compile(withoutDialect(schema));
  const made = { validate, checks: measure(schema).checks };
  compiled.set(key, made);
  return made;
}

function withoutDialect({ $schema: _, ...schema }: Schema): Schema {
  return schema;
}

/** RE2 has no lookaround and no references to groups, so a match takes steps for each character and not for each path. */
function compilePattern(pattern: string) {
  const compiled_pattern = RE2JS.compile(RE2JS.translateRegExp(pattern));
  return { test: (text: string) => compiled_pattern.matcher(text).find(), steps: compiled_pattern.programSize() };
}

interface Cost {
  readonly checks: number;
  readonly steps: number;
}

/** An excess of a schema that is valid by itself. */
class ExcessError extends Error {
  readonly path: Path;
  constructor(path: Path, message: string) {
    super(message);
    this.path = path;
  }
}

function countParts(value: unknown): number {
  if (typeof value !== "object" || value === null) return 1;
  return Object.values(value).reduce<number>((sum, part) => sum + countParts(part), 1);
}

/** What the schema costs. Throws an ExcessError for the first limit that it exceeds. */
function measure(root: Schema): Cost {
  let parts = 0;
  const costs = new Map<object, Cost | "open">();

  function visit(node: unknown, path: Path, depth: number): void {
    parts += 1;
    if (parts > MAX_PARTS) throw new ExcessError([], `has more than ${MAX_PARTS} parts`);
    if (depth > MAX_DEPTH) throw new ExcessError(path, `is nested more than ${MAX_DEPTH} levels deep`);
    if (!isJsonObject(node)) return;
    const unsupported = UNSUPPORTED.find((keyword) => keyword in node);
    if (unsupported !== undefined) throw new ExcessError([...path, unsupported], "is not supported. Leave it out");
    for (const [part, at] of [...partsOf(node), ...definitionsOf(node)]) visit(part, [...path, ...at], depth + 1);
  }

  function costOf(node: unknown, path: Path): Cost {
    if (!isJsonObject(node)) return { checks: 1, steps: 0 };
    const known = costs.get(node);
    if (known === "open") throw new ExcessError(path, "refers to itself, which is not supported");
    if (known !== undefined) return known;
    costs.set(node, "open");
    let checks = 1 + (Array.isArray(node.enum) ? node.enum.length : 0);
    let steps = typeof node.pattern === "string" ? stepsOf(node.pattern, [...path, "pattern"]) : 0;
    if (node.uniqueItems === true) checks += UNIQUE_ITEMS_CHECKS;
    for (const pattern of Object.keys(node.patternProperties ?? {})) {
      steps += stepsOf(pattern, [...path, "patternProperties", pattern]);
    }
    const inner = partsOf(node).map(([part, at]) => costOf(part, [...path, ...at]));
    if (typeof node.$ref === "string") {
      inner.push(costOf(referred(root, node.$ref, [...path, "$ref"]), [...path, "$ref"]));
    }
    for (const cost of inner) {
      checks += cost.checks;
      steps += cost.steps;
    }
    if (checks > MAX_CHECKS)
      throw new ExcessError(path, `has more than ${MAX_CHECKS} parts to check, references resolved`);
    if (steps > MAX_PATTERN_STEPS) throw new ExcessError(path, "has patterns that are too large. Use shorter ones");
    const cost = { checks, steps };
    costs.set(node, cost);
    return cost;
  }

  visit(root, [], 1);
  return costOf(root, []);
}

function partsOf(node: Schema): [part: unknown, at: Path][] {
  return [
    ...SINGLE.flatMap((name): [unknown, Path][] => (name in node ? [[node[name], [name]]] : [])),
    ...LISTS.flatMap((name) =>
      ((node[name] ?? []) as unknown[]).map((part, at): [unknown, Path] => [part, [name, at]]),
    ),
    ...MAPS.flatMap((name) => namedParts(node, name)),
  ];
}

function definitionsOf(node: Schema): [part: unknown, at: Path][] {
  return DEFINITIONS.flatMap((name) => namedParts(node, name));
}

function namedParts(node: Schema, name: string): [part: unknown, at: Path][] {
  return Object.entries((node[name] ?? {}) as Schema).map(([key, part]) => [part, [name, key]]);
}

function stepsOf(pattern: string, path: Path): number {
  try {
    return compilePattern(pattern).steps;
  } catch (error) {
    const why = (error as Error).message.replace(/^error parsing regexp: /, "").slice(0, 100);
    throw new ExcessError(path, `is no pattern that is supported: ${why}`);
  }
}

/** The part that a reference names. */
function referred(root: Schema, reference: string, path: Path): unknown {
  if (!reference.startsWith("#")) {
    throw new ExcessError(path, "must name a part of this schema, such as #/$defs/address: nothing is fetched");
  }
  const keys = pointerKeys(decodedPointer(reference));
  const part = keys.reduce<unknown>(
    (at, key) => (Object.hasOwn(Object(at), key) ? (at as Schema)[key] : undefined),
    root,
  );
  if (!isJsonObject(part) && typeof part !== "boolean") throw new ExcessError(path, "names no part of this schema");
  return part;
}

/** The pointer of a reference without its escapes. A broken escape names no part. */
function decodedPointer(reference: string): string {
  try {
    return decodeURIComponent(reference.slice(1));
  } catch {
    return "/";
  }
}

function pointerKeys(pointer: string): string[] {
  return pointer
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** A JSON pointer into `value` as a path, whose numbers are places in lists. */
function pathOf(pointer: string, value: unknown): Path {
  let at = value;
  return pointerKeys(pointer).map((key) => {
    const part = Array.isArray(at) ? Number(key) : key;
    at = (at as Record<string, unknown> | undefined)?.[key];
    return part;
  });
}

/** What the strict modes of all providers take. Not `format`, minima, maxima and patterns, which some reject. */
const STRICT = new Set([
  ...["$schema", "$defs", "$ref", "type", "title", "description", "properties", "required", "additionalProperties"],
  ...["items", "enum", "const", "anyOf"],
]);

/**
 * The schema for a provider's strict mode, in which objects have no further fields. Null: it has optional fields, or
 * keywords that not all strict modes have.
 */
export function toStrictSchema(schema: Schema): Schema | null {
  if (Object.keys(schema).some((keyword) => !STRICT.has(keyword))) return null;
  const { properties, required, additionalProperties: more, $defs, items, anyOf, $schema: _, ...rest } = schema;
  const is_object = rest.type === "object" || properties !== undefined;
  const names = Object.keys((properties ?? {}) as Schema);
  const is_strict = more === undefined || more === false;
  if (is_object && (!is_strict || !names.every((name) => ((required ?? []) as string[]).includes(name)))) return null;
  const strict: Record<string, unknown> = is_object ? { ...rest, required: names, additionalProperties: false } : rest;
  const maps: [string, unknown][] = [
    ["properties", is_object ? (properties ?? {}) : undefined],
    ["$defs", $defs],
  ];
  for (const [keyword, parts] of maps) {
    if (parts === undefined) continue;
    const entries = Object.entries(parts as Schema).map(([name, part]) => [name, strictPart(part)] as const);
    if (entries.some(([, part]) => part === null)) return null;
    strict[keyword] = Object.fromEntries(entries);
  }
  if (items !== undefined) strict.items = strictPart(items);
  if (anyOf !== undefined) strict.anyOf = (anyOf as unknown[]).map(strictPart);
  const is_whole = strict.items !== null && !((strict.anyOf ?? []) as unknown[]).includes(null);
  return is_whole ? strict : null;
}

function strictPart(part: unknown): Schema | null {
  return isJsonObject(part) ? toStrictSchema(part) : null;
}
