/**
 * The part of JSON Schema that models are asked for: types, properties, items, enumerations and alternatives. Patterns
 * and formats are not checked: a pattern of a caller could block the event loop. Pure.
 */

/** A schema that refers to itself has no last check. Beyond this many checks a value counts as valid. */
const MAX_CHECKS = 100_000;
const MAX_DEPTH = 200;
/** A comparison of objects or lists counts as this many checks. */
const OBJECT_CHECKS = 1_000;

type Schema = Record<string, unknown>;

interface Check {
  root: Schema;
  left: number;
  depth: number;
}

/** The fault of a value, with its place; null: it is valid. */
export function schemaFault(value: unknown, schema: Schema): string | null {
  return faultAt(value, schema, "the value", { root: schema, left: MAX_CHECKS, depth: 0 });
}

function faultAt(value: unknown, schema: unknown, at: string, check: Check): string | null {
  check.left -= 1;
  if (check.left < 0 || check.depth > MAX_DEPTH || typeof schema !== "object" || schema === null) return null;
  check.depth += 1;
  const fault = faultOfRules(value, schema as Schema, at, check);
  check.depth -= 1;
  return fault;
}

function faultOfRules(value: unknown, rules: Schema, at: string, check: Check): string | null {
  if (typeof rules.$ref === "string") return faultAt(value, referred(rules.$ref, check.root), at, check);
  if (!isOfType(value, rules.type)) return `${at} must be of type ${JSON.stringify(rules.type)}`;
  if (Array.isArray(rules.enum) && !rules.enum.some((each) => isSame(each, value, check))) {
    return `${at} must be one of ${JSON.stringify(rules.enum.slice(0, 10)).slice(0, 200)}`;
  }
  if ("const" in rules && !isSame(rules.const, value, check)) {
    return `${at} must be ${JSON.stringify(rules.const).slice(0, 200)}`;
  }
  return faultOfParts(value, rules, at, check) ?? faultOfAlternatives(value, rules, at, check);
}

function faultOfParts(value: unknown, rules: Schema, at: string, check: Check): string | null {
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      const fault = faultAt(item, rules.items, `${at}[${index}]`, check);
      if (fault !== null) return fault;
    }
    return null;
  }
  if (typeof value !== "object" || value === null) return null;
  const properties = (rules.properties ?? {}) as Record<string, unknown>;
  const required = listOf(rules.required);
  check.left -= required.length;
  for (const name of required) {
    if (!Object.hasOwn(value, String(name))) return `${at} must have ${JSON.stringify(name)}`;
  }
  for (const [name, inner] of Object.entries(value)) {
    const rule = Object.hasOwn(properties, name) ? properties[name] : rules.additionalProperties;
    if (rule === false) return `${at} must not have ${JSON.stringify(name.slice(0, 60))}`;
    const fault = faultAt(inner, rule, `${at}.${name.slice(0, 60)}`, check);
    if (fault !== null) return fault;
  }
  return null;
}

function faultOfAlternatives(value: unknown, rules: Schema, at: string, check: Check): string | null {
  for (const schema of listOf(rules.allOf)) {
    const fault = faultAt(value, schema, at, check);
    if (fault !== null) return fault;
  }
  for (const list of [listOf(rules.anyOf), listOf(rules.oneOf)]) {
    if (list.length === 0) continue;
    const faults = list.map((schema) => faultAt(value, schema, at, check));
    if (!faults.includes(null)) return faults[0] ?? null;
  }
  return null;
}

function isOfType(value: unknown, type: unknown): boolean {
  if (type === undefined) return true;
  const kind = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
  return listOf(type).some((each) => each === kind || (each === "integer" && Number.isInteger(value)));
}

/** Each comparison counts as a check, and one of objects or lists as many. */
function isSame(one: unknown, other: unknown, check: Check): boolean {
  const are_objects = typeof one === "object" && typeof other === "object";
  check.left -= are_objects ? OBJECT_CHECKS : 1;
  if (check.left < 0) return true;
  return are_objects ? JSON.stringify(one) === JSON.stringify(other) : one === other;
}

function listOf(value: unknown): unknown[] {
  if (value === undefined) return [];
  return Array.isArray(value) ? value : [value];
}

/** The schema that `#/$defs/name` names. */
function referred(reference: string, root: Schema): unknown {
  if (!reference.startsWith("#")) return undefined;
  const path = reference.split("/").slice(1);
  return path.reduce<unknown>((schema, name) => (schema as Schema | undefined)?.[name], root);
}
