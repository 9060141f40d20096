/**
 * The part of JSON Schema that models are asked for: types, properties, items, enumerations and alternatives. Patterns
 * and formats are not checked: a pattern of a caller could block the event loop. Pure.
 */

/**
 * A schema that refers to itself has no last check, and one that refers to a large part may repeat it. Beyond this many
 * checks a value counts as valid. Every element of a list that is read counts, and every character of a reference.
 */
const MAX_CHECKS = 100_000;
const MAX_DEPTH = 200;
/** The most values and characters of a rule that a fault shows. */
const SHOWN_VALUES = 10;
const SHOWN_CHARACTERS = 200;

type Schema = Record<string, unknown>;

/** Words a fault. Only the reported one is worded, because an alternative may fail thousands of times. */
type Fault = () => string;

interface Check {
  root: Schema;
  left: number;
  depth: number;
}

/** The fault of a value, with its place; null: it is valid. */
export function schemaFault(value: unknown, schema: Schema): string | null {
  return faultAt(value, schema, "the value", { root: schema, left: MAX_CHECKS, depth: 0 })?.() ?? null;
}

function faultAt(value: unknown, schema: unknown, at: string, check: Check): Fault | null {
  check.left -= 1;
  if (check.left < 0 || check.depth > MAX_DEPTH || typeof schema !== "object" || schema === null) return null;
  check.depth += 1;
  const fault = faultOfRules(value, schema as Schema, at, check);
  check.depth -= 1;
  return fault;
}

function faultOfRules(value: unknown, rules: Schema, at: string, check: Check): Fault | null {
  if (typeof rules.$ref === "string") return faultAt(value, referred(rules.$ref, check), at, check);
  if (!isOfType(value, rules.type, check)) return () => `${at} must be of type ${shown(rules.type)}`;
  if (Array.isArray(rules.enum) && !rules.enum.some((each) => isSame(each, value, check))) {
    return () => `${at} must be one of ${shown(rules.enum)}`;
  }
  if ("const" in rules && !isSame(rules.const, value, check)) return () => `${at} must be ${shown(rules.const)}`;
  return faultOfParts(value, rules, at, check) ?? faultOfAlternatives(value, rules, at, check);
}

function faultOfParts(value: unknown, rules: Schema, at: string, check: Check): Fault | null {
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      const fault = faultAt(item, rules.items, `${at}[${index}]`, check);
      if (fault !== null || check.left < 0) return fault;
    }
    return null;
  }
  if (typeof value !== "object" || value === null) return null;
  const properties = (rules.properties ?? {}) as Record<string, unknown>;
  const required = toList(rules.required);
  check.left -= required.length;
  for (const name of required) {
    if (!Object.hasOwn(value, String(name))) return () => `${at} must have ${shown(name)}`;
  }
  const names = Object.keys(value);
  check.left -= names.length;
  for (const name of names) {
    const rule = Object.hasOwn(properties, name) ? properties[name] : rules.additionalProperties;
    if (rule === false) return () => `${at} must not have ${JSON.stringify(name.slice(0, 60))}`;
    const fault = faultAt((value as Schema)[name], rule, `${at}.${name.slice(0, 60)}`, check);
    if (fault !== null || check.left < 0) return fault;
  }
  return null;
}

function faultOfAlternatives(value: unknown, rules: Schema, at: string, check: Check): Fault | null {
  for (const schema of toList(rules.allOf)) {
    const fault = faultAt(value, schema, at, check);
    if (fault !== null || check.left < 0) return fault;
  }
  for (const list of [toList(rules.anyOf), toList(rules.oneOf)]) {
    const fault = faultOfAll(list, value, at, check);
    if (fault !== null) return fault;
  }
  return null;
}

/** The first fault if the value is valid against none of the schemas. */
function faultOfAll(list: readonly unknown[], value: unknown, at: string, check: Check): Fault | null {
  let first: Fault | null = null;
  for (const schema of list) {
    const fault = faultAt(value, schema, at, check);
    if (fault === null) return null;
    first ??= fault;
  }
  return first;
}

function isOfType(value: unknown, type: unknown, check: Check): boolean {
  if (type === undefined) return true;
  const kind = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
  const types = toList(type);
  check.left -= types.length;
  return types.some((each) => each === kind || (each === "integer" && Number.isInteger(value)));
}

/** Whether two JSON values are equal. The order of keys does not matter. */
function isSame(one: unknown, other: unknown, check: Check): boolean {
  check.left -= 1;
  if (check.left < 0) return true;
  if (!isObject(one) || !isObject(other) || Array.isArray(one) !== Array.isArray(other)) return one === other;
  const [names, others] = [Object.keys(one), Object.keys(other)];
  check.left -= names.length + others.length;
  if (names.length !== others.length) return false;
  return names.every((name) => Object.hasOwn(other, name) && isSame(one[name], other[name], check));
}

function isObject(value: unknown): value is Schema {
  return typeof value === "object" && value !== null;
}

function toList(value: unknown): unknown[] {
  if (value === undefined) return [];
  return Array.isArray(value) ? value : [value];
}

/** The beginning of a rule's value as JSON. */
function shown(rule: unknown): string {
  const values = Array.isArray(rule) ? rule.slice(0, SHOWN_VALUES) : rule;
  return JSON.stringify(values).slice(0, SHOWN_CHARACTERS);
}

/** The schema that `#/$defs/name` names. */
function referred(reference: string, check: Check): unknown {
  check.left -= reference.length;
  if (check.left < 0 || !reference.startsWith("#")) return undefined;
  const path = reference.split("/").slice(1);
  return path.reduce<unknown>((schema, name) => (schema as Schema | undefined)?.[name], check.root);
}
