import type { ApiDocument, Schema } from "../support/declared.ts";

/** Values that a JSON schema allows, and changes that make them wrong. Every choice comes from one seeded generator. */

export interface Dice {
  /** A number from 0 to 1. */
  next(): number;
  /** True with this probability. */
  chance(probability: number): boolean;
  whole(min: number, max: number): number;
  pick<Value>(values: readonly Value[]): Value;
}

export function createDice(next: () => number): Dice {
  const whole = (min: number, max: number) => min + Math.floor(next() * (max - min + 1));
  return {
    next,
    whole,
    chance: (probability) => next() < probability,
    pick: (values) => values[whole(0, values.length - 1)] as never,
  };
}

/** Returns a value for a field by its name; undefined: any value of its schema. */
export type Hint = (name: string) => unknown;

/** Nested objects beyond this depth have only their required fields. */
const DEPTH = 5;
/** How often a value has an optional field. Few fields pass more checks; many find more combinations. */
const OPTIONAL = [0, 0.05, 0.2, 0.5];

export function createValues(document: ApiDocument, dice: Dice, hint: Hint) {
  let optional = 0;
  function resolve(schema: Schema): Schema {
    const name = typeof schema.$ref === "string" ? (schema.$ref.split("/").at(-1) ?? "") : null;
    return name === null ? schema : resolve(document.components.schemas[name] as Schema);
  }
  function valid(unresolved: Schema, name = "", depth = 0): unknown {
    const schema = resolve(unresolved);
    const hinted = hint(name);
    if (hinted !== undefined && isOfType(schema, hinted)) return hinted;
    if (schema.const !== undefined) return schema.const;
    if (Array.isArray(schema.enum)) return dice.pick(schema.enum);
    const alternatives = (schema.oneOf ?? schema.anyOf) as Schema[] | undefined;
    if (alternatives !== undefined) return valid(dice.pick(alternatives), name, depth);
    if (Array.isArray(schema.allOf)) {
      return Object.assign({}, ...(schema.allOf as Schema[]).map((part) => valid(part, name, depth)));
    }
    const types = [schema.type ?? "any"].flat();
    return ofType(dice.pick(types) as string, schema, name, depth);
  }
  function ofType(type: string, schema: Schema, name: string, depth: number): unknown {
    switch (type) {
      case "object":
        return objectOf(schema, depth);
      case "array": {
        const least = Number(schema.minItems ?? 0);
        const length = dice.whole(least, Math.min(Number(schema.maxItems ?? 3), least + 2));
        return Array.from({ length }, () => valid((schema.items ?? {}) as Schema, name, depth + 1));
      }
      case "string":
        return textOf(schema, dice);
      case "integer":
      case "number":
        return numberOf(type, schema, dice);
      case "boolean":
        return dice.chance(0.5);
      case "null":
        return null;
      default:
        return dice.pick<unknown>(["text", 1, true, null, [], {}, { a: [1, "b"] }]);
    }
  }
  function objectOf(schema: Schema, depth: number): object {
    const properties = (schema.properties ?? {}) as Record<string, Schema>;
    const required = (schema.required ?? []) as string[];
    const chosen = Object.keys(properties).filter(
      (key) => required.includes(key) || (depth < DEPTH && dice.chance(optional)),
    );
    return Object.fromEntries(chosen.map((key) => [key, valid(properties[key] ?? {}, key, depth + 1)]));
  }
  const root = (schema: Schema, name = ""): unknown => {
    optional = dice.pick(OPTIONAL);
    return valid(schema, name);
  };
  return { valid: root, mutated: (value: unknown) => mutated(structuredClone(value), dice) };
}

function isOfType(schema: Schema, value: unknown): boolean {
  const types = [schema.type ?? "any"].flat();
  const own = Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
  return types.includes("any") || types.includes(own) || (own === "number" && types.includes("integer"));
}

const TEXTS = ["Scout", "hello", "A_1", "GET", "/v1/*", "example.com", "hook.invalid", "09:30", "a b", "Grüße 🌍", "x"];

function textOf(schema: Schema, dice: Dice): string {
  if (schema.format === "uuid") return dice.pick(["0198aaaa-0000-7000-8000-000000000000", "not-a-uuid"]);
  if (schema.format === "date") return dice.pick(["2026-01-01", "1970-01-01", "9999-12-31", "2026-02-30"]);
  if (schema.format === "date-time") {
    return dice.pick([
      "2027-01-01T00:00:00Z",
      "1970-01-01T00:00:00Z",
      "9999-12-31T23:59:59+14:00",
      "2026-11-22T10:00:00.5-03:00",
    ]);
  }
  if (schema.format === "email") return `user${dice.whole(0, 1_000_000)}@example.com`;
  if (schema.format === "uri") return "https://hook.invalid/path?a=b";
  const pattern = typeof schema.pattern === "string" ? new RegExp(schema.pattern, "u") : /./u;
  const fitting = TEXTS.filter((text) => pattern.test(text));
  const text = fitting.length === 0 ? "a" : dice.pick(fitting);
  const least = Number(schema.minLength ?? 0);
  const longer = text.length >= least ? text : text.repeat(Math.ceil(least / text.length));
  if (dice.chance(0.03)) return longer + "x".repeat(Math.min(Number(schema.maxLength ?? 3000), 3000) - longer.length);
  return longer.slice(0, Number(schema.maxLength ?? longer.length));
}

function numberOf(type: string, schema: Schema, dice: Dice): number {
  const min = Number(
    schema.minimum ?? (schema.exclusiveMinimum === undefined ? 0 : Number(schema.exclusiveMinimum) + 1),
  );
  const max = Number(schema.maximum ?? min + 1000);
  if (dice.chance(0.2)) return dice.pick([min, max]);
  const near = dice.whole(min, Math.min(max, min + 1000));
  return type === "integer" || dice.chance(0.5) ? near : Math.min(max, near + dice.next());
}

const WRONG: readonly unknown[] = [
  null,
  "",
  "\u0000",
  "\ud800",
  "💥".repeat(1000),
  "__proto__",
  "' or 1=1 --",
  "../../etc/passwd",
  -1,
  0.5,
  1e308,
  -0,
  Number.MAX_SAFE_INTEGER,
  2 ** 53,
  true,
  [],
  {},
  [[[[[[]]]]]],
  { $ref: "#" },
  { a: { b: { c: {} } } },
  Array.from({ length: 200 }, () => "x"),
  "9999-12-31T23:59:59.999999999Z",
  "-000001-01-01T00:00:00Z",
];

const wrong = (dice: Dice): unknown => structuredClone(dice.pick(WRONG));

/** The value with one to three faults at random places. */
function mutated(value: unknown, dice: Dice): unknown {
  let changed = value;
  for (let left = dice.whole(1, 3); left > 0; left -= 1) changed = oneFault(changed, dice);
  return changed;
}

function oneFault(value: unknown, dice: Dice): unknown {
  if (dice.chance(0.15) || value === null || typeof value !== "object") return wrong(dice);
  const holder = value as Record<string, unknown>;
  const keys = Object.keys(holder);
  const key = keys.length === 0 ? "added" : dice.pick(keys);
  const act = dice.whole(0, 9);
  if (act === 0) delete holder[key];
  else if (act === 1) holder[dice.pick(["added", "__proto__", "constructor", "toString", ""])] = wrong(dice);
  else if (act === 2) holder[key] = nested(dice.whole(10, 80));
  else if (act < 6) holder[key] = oneFault(holder[key], dice);
  else holder[key] = wrong(dice);
  return value;
}

function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level += 1) value = level % 2 === 0 ? [value] : { a: value };
  return value;
}
