import { isJsonObject, isTooDeep } from "./json.ts";

/**
 * Schemas of tools' arguments as providers take them. Claude, Gemini and OpenAI reject a whole request for one schema
 * with alternatives at its root, for a list without items, or for a name with other characters. Pure.
 */

type Schema = Record<string, unknown>;
type Names = ReadonlyMap<string, string>;

/** A tool's arguments for a provider. */
export interface AdaptedSchema {
  readonly parameters: Schema;
  /** What the description has to say in addition; "": nothing. */
  readonly note: string;
  /** Null: the arguments have the tool's own names. */
  readonly renaming: Renaming | null;
}

/** The arguments of one tool under names that its provider takes, and under their own. */
export interface Renaming {
  /** Arguments of an earlier call, for the provider. */
  forProvider(value: unknown): unknown;
  /** Arguments of the model's call, for the tool. */
  forTool(value: unknown): unknown;
}

/** Keywords with one schema, with a list of schemas, and with schemas by name. */
const SINGLE = [
  ...["items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"],
  ...["unevaluatedItems", "unevaluatedProperties", "additionalItems"],
];
const LISTED = ["anyOf", "oneOf", "allOf", "prefixItems", "items"];
const NAMED = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/** Keywords that no provider takes at the root. */
const NOT_AT_ROOT = ["anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const", "$ref"];
/** A schema that refers to itself has no end. Beyond this many names and levels, the rest has no rules. */
const MAX_NAMES = 20_000;
const MAX_LEVELS = 64;
/** After this many names and alternatives, the rest of a value keeps its names. */
const MAX_CHECKS = 1_000_000;
const MAX_NOTE_CHARS = 500;
const MAX_NAME_CHARS = 60;

/**
 * The schema with an object at its root, without alternatives there, with items for each list, and with names that match
 * `allowed`. With `is_own`, the provider has the caller's API and takes an object without properties. Arguments that are
 * no object stay as they are: the provider's error says so.
 */
export function adaptedSchema(
  given: Schema,
  { allowed, is_own = false }: { allowed: RegExp | null; is_own?: boolean },
): AdaptedSchema {
  const { root, note } = is_own && isPlainObject(given) ? { root: given, note: "" } : withObjectRoot(given);
  const complete = mapped(root, withItems) as Schema;
  const names = allowed === null ? new Map<string, string>() : newNames(complete, allowed);
  if (names.size === 0) return { parameters: complete, note, renaming: null };
  const parameters = mapped(complete, (schema) => renamed(schema, names)) as Schema;
  const back = new Map([...names].map(([own, other]) => [other, own]));
  const renaming = {
    forProvider: (value: unknown) => renamedValue(value, [complete], { root: complete, names, left: MAX_CHECKS }),
    forTool: (value: unknown) => renamedValue(value, [parameters], { root: parameters, names: back, left: MAX_CHECKS }),
  };
  return { parameters, note, renaming };
}

/** Whether calls with these arguments are objects, as models write them. */
export function isObjectSchema(given: Schema): boolean {
  return readArguments(given, { root: given, left: MAX_NAMES }) !== null;
}

/** The text of a call's arguments after `change`. A text that is no JSON stays as it is. */
export function changedArguments(text: string, change: (value: unknown) => unknown): string {
  if (isTooDeep(text)) return text;
  try {
    return JSON.stringify(change(JSON.parse(text)));
  } catch {
    return text;
  }
}

/** The schemas in `node` and itself, each changed, the inner ones first. Without a change, the node itself. */
function mapped(node: unknown, change: (schema: Schema) => Schema): unknown {
  if (!isJsonObject(node)) return node;
  let copy: Schema | null = null;
  const set = (key: string, value: unknown) => {
    if (value === node[key]) return;
    copy ??= { ...node };
    copy[key] = value;
  };
  for (const key of SINGLE) if (isJsonObject(node[key])) set(key, mapped(node[key], change));
  for (const key of LISTED) {
    const list = node[key];
    if (!Array.isArray(list)) continue;
    const others = list.map((each) => mapped(each, change));
    if (others.some((each, index) => each !== list[index])) set(key, others);
  }
  for (const key of NAMED) {
    const named = node[key];
    if (!isJsonObject(named)) continue;
    const others = Object.entries(named).map(([name, each]) => [name, mapped(each, change)] as const);
    if (others.some(([name, each]) => each !== named[name])) set(key, Object.fromEntries(others));
  }
  return change(copy ?? node);
}

/** What an object may have and must have. */
interface Arguments {
  properties: Map<string, unknown[]>;
  required: Set<string>;
}

function isPlainObject(given: Schema): boolean {
  return given.type === "object" && NOT_AT_ROOT.every((key) => given[key] === undefined);
}

function withObjectRoot(given: Schema): { root: Schema; note: string } {
  if (isPlainObject(given)) {
    return { root: isJsonObject(given.properties) ? given : { ...given, properties: {} }, note: "" };
  }
  const all = readArguments(given, { root: given, left: MAX_NAMES });
  if (all === null) return { root: given, note: "" };
  const kept = Object.entries(given).filter(([key]) => key !== "required" && !NOT_AT_ROOT.includes(key));
  const properties = [...all.properties].map(([name, schemas]) => [name, anyOf(schemas)]);
  const required = [...all.required].filter((name) => all.properties.has(name));
  const root = {
    ...Object.fromEntries(kept),
    type: "object",
    properties: Object.fromEntries(properties),
    ...(required.length === 0 ? {} : { required }),
  };
  return { root, note: getNote(given, all.required) };
}

/** The arguments of an object that is valid against `node`, or more. Null: a valid value is no object. */
function readArguments(node: unknown, search: { root: Schema; left: number }, level = 0): Arguments | null {
  if (node === true) return { properties: new Map(), required: new Set() };
  if (!isJsonObject(node)) return null;
  if (node.type !== undefined && ![node.type].flat().includes("object")) return null;
  const all: Arguments = { properties: new Map(), required: new Set(textsIn(node.required)) };
  const own = isJsonObject(node.properties) ? node.properties : {};
  for (const [name, schema] of Object.entries(own)) all.properties.set(name, [schema]);
  search.left -= 1 + all.properties.size + all.required.size;
  if (search.left < 0 || level > MAX_LEVELS) return all;
  const inside = (part: unknown) => readArguments(part, search, level + 1);
  const add = (part: Arguments | null, is_required: boolean) => {
    for (const [name, schemas] of part?.properties ?? []) {
      search.left -= 1;
      // The node's own schema covers what an alternative says of the same argument.
      if (search.left < 0 || Object.hasOwn(own, name)) continue;
      const known = all.properties.get(name);
      if (known === undefined) all.properties.set(name, [...schemas]);
      else known.push(...schemas);
    }
    if (is_required) for (const name of part?.required ?? []) all.required.add(name);
  };
  if (typeof node.$ref === "string") {
    const target = inside(referred(node.$ref, search.root));
    if (target === null) return null;
    add(target, true);
  }
  for (const part of listIn(node.allOf)) add(inside(part), true);
  for (const list of [listIn(node.anyOf), listIn(node.oneOf)]) {
    const parts = list.flatMap((part) => inside(part) ?? []);
    if (list.length > 0 && parts.length === 0) return null;
    for (const part of parts) add(part, false);
    for (const name of parts[0]?.required ?? []) {
      search.left -= parts.length;
      if (search.left >= 0 && parts.every(({ required }) => required.has(name))) all.required.add(name);
    }
  }
  for (const part of [node.then, node.else]) if (part !== undefined) add(inside(part), false);
  return all;
}

/** The alternatives at the root in words: which arguments go together. */
function getNote(given: Schema, common: ReadonlySet<string>): string {
  const lists = [listIn(given.anyOf), listIn(given.oneOf)].filter((list) => list.length > 1);
  const notes = lists.map((list) => {
    const groups = list.flatMap((part) => {
      const all = readArguments(part, { root: given, left: MAX_NAMES / list.length });
      if (all === null) return [];
      const needed = [...all.required].filter((name) => !common.has(name));
      const names = needed.length > 0 ? needed : [...all.properties.keys()].filter((name) => !common.has(name));
      return names.length === 0 ? [] : names.join(" and ");
    });
    return groups.length < 2 ? "" : `Give the arguments of one of these groups: ${groups.join("; ")}.`;
  });
  return notes.join(" ").trim().slice(0, MAX_NOTE_CHARS);
}

/** The list with items, as a schema: some servers give a list of schemas, others none. */
function withItems(schema: Schema): Schema {
  if (Array.isArray(schema.items)) return { ...schema, items: anyOf(schema.items) };
  const is_list = [schema.type].flat().includes("array");
  if (!is_list || schema.items !== undefined) return schema;
  return { ...schema, items: anyOf(listIn(schema.prefixItems)) };
}

function anyOf(schemas: readonly unknown[]): Schema {
  const [only, ...others] = schemas.filter(isJsonObject);
  if (others.length === 0) return only ?? {};
  const all = [...new Map([only, ...others].map((schema) => [JSON.stringify(schema), schema])).values()];
  return all.length > 1 ? { anyOf: all } : (only ?? {});
}

/** New names for the arguments whose name does not match. Each is different from all others of the tool. */
function newNames(root: Schema, allowed: RegExp): Map<string, string> {
  const own = new Set<string>();
  mapped(root, (schema) => {
    if (isJsonObject(schema.properties)) for (const name of Object.keys(schema.properties)) own.add(name);
    return schema;
  });
  const names = new Map<string, string>();
  const taken = new Set([...own].filter((name) => allowed.test(name)));
  const used = new Map<string, number>();
  for (const name of own) {
    if (allowed.test(name)) continue;
    const spelled = name.replaceAll(/[^a-zA-Z0-9-]+/g, "_").slice(0, MAX_NAME_CHARS);
    const base = spelled === "_" ? "argument" : spelled;
    let nth = used.get(base) ?? 1;
    const numbered = () => (nth === 1 ? base : `${base}_${nth}`);
    while (taken.has(numbered())) nth += 1;
    const unique = numbered();
    used.set(base, nth + 1);
    taken.add(unique);
    names.set(name, unique);
  }
  return names;
}

/** The schema with the new names. The description of a renamed argument begins with its own name. */
function renamed(schema: Schema, names: Names): Schema {
  if (!isJsonObject(schema.properties)) return schema;
  const properties = Object.entries(schema.properties).map(([name, each]) => {
    const other = names.get(name);
    if (other === undefined) return [name, each];
    const { description, ...fields } = isJsonObject(each) ? each : ({} as Schema);
    return [other, { ...fields, description: typeof description === "string" ? `${name}: ${description}` : name }];
  });
  const getName = (name: unknown) => names.get(String(name)) ?? name;
  const required = Array.isArray(schema.required) ? { required: schema.required.map(getName) } : {};
  return { ...schema, properties: Object.fromEntries(properties), ...required };
}

/** A value whose keys have other names where the schema names them. */
function renamedValue(
  value: unknown,
  nodes: readonly unknown[],
  search: { root: Schema; names: Names; left: number },
): unknown {
  if (typeof value !== "object" || value === null) return value;
  const parts = withParts(nodes, search.root);
  if (parts.length === 0 || search.left < 0) return value;
  if (Array.isArray(value)) {
    const items = parts.map((part) => part.items);
    return value.map((each, index) => {
      const own = parts.flatMap(({ prefixItems }) => listIn(prefixItems)[index] ?? []);
      return renamedValue(each, [...items, ...own], search);
    });
  }
  const entries = Object.entries(value).map(([key, each]) => {
    search.left -= parts.length;
    const named = parts.flatMap(({ properties }) =>
      isJsonObject(properties) && Object.hasOwn(properties, key) ? [properties[key]] : [],
    );
    if (named.length > 0) return [search.names.get(key) ?? key, renamedValue(each, named, search)];
    const others = parts.map(({ additionalProperties }) => additionalProperties);
    return [key, renamedValue(each, others, search)];
  });
  return Object.fromEntries(entries);
}

/** The schemas that a value is valid against: the nodes, what they refer to, and their alternatives. */
function withParts(nodes: readonly unknown[], root: Schema): Schema[] {
  const all = new Set<Schema>();
  const add = (node: unknown): void => {
    if (!isJsonObject(node) || all.has(node)) return;
    all.add(node);
    if (typeof node.$ref === "string") add(referred(node.$ref, root));
    for (const key of ["anyOf", "oneOf", "allOf"]) for (const part of listIn(node[key])) add(part);
    add(node.then);
    add(node.else);
  };
  for (const node of nodes) add(node);
  return [...all];
}

/** The schema that `#/$defs/name` names. */
function referred(reference: string, root: Schema): unknown {
  if (!reference.startsWith("#")) return undefined;
  const path = reference.split("/").slice(1);
  return path.reduce<unknown>((schema, part) => {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    return typeof schema === "object" && schema !== null && Object.hasOwn(schema, name)
      ? (schema as Schema)[name]
      : undefined;
  }, root);
}

function listIn(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function textsIn(value: unknown): string[] {
  return listIn(value).filter((each) => typeof each === "string");
}
