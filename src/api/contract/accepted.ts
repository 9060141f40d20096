import type { z } from "./zod.ts";

/** What a schema accepts, in words: they complete "… must be". Pure. */

/** The parts of a zod 4 schema that we read. */
interface Schema {
  readonly _zod: { readonly def: Definition };
}
interface Definition {
  readonly type: string;
  readonly format?: string;
  readonly checks?: readonly { readonly _zod: { readonly def: Check } }[];
  readonly error?: AuthoredMessage;
  readonly innerType?: Schema;
  readonly in?: Schema;
  readonly out?: Schema;
  readonly options?: readonly Schema[];
  readonly shape?: Readonly<Record<string, Schema>>;
  readonly catchall?: Schema;
  readonly element?: Schema;
  readonly valueType?: Schema;
  readonly values?: readonly unknown[];
  readonly entries?: Readonly<Record<string, unknown>>;
}
interface Check {
  readonly check: string;
  readonly format?: string;
  readonly prefix?: string;
  readonly value?: number;
  readonly inclusive?: boolean;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly error?: AuthoredMessage;
}
/** The message of a schema or a check, as its author wrote it. */
type AuthoredMessage = (issue: object) => string | { message: string } | undefined | null;

const DEFAULT_MESSAGE = /^(Invalid|Too|Unrecognized|Not a multiple)\b/;
const FORMATS: Readonly<Record<string, string>> = {
  email: "an e-mail address",
  url: "a URL such as https://example.com/page",
  datetime: "an instant such as 2026-11-20T09:30:00Z",
  date: "a day such as 2026-11-20",
  uuid: "a UUID such as 019a9f3c-7d20-7c11-8e3a-5b1f0c9d2e47",
};

/** Whether an issue's message is one of the contract's, which are phrases as well, and not zod's own. */
export function isPhrase(message: string): boolean {
  return !DEFAULT_MESSAGE.test(message);
}

/** What `schema` accepts at `path` of `value`: "a whole number from 1 to 31, or \"last\"". Null: it does not tell. */
export function acceptedAt(schema: z.ZodType, path: readonly PropertyKey[], value: unknown): string | null {
  const { here } = alternativesAt(schema, path, value);
  // An alternative that accepts any value here was not meant: it would not have failed.
  const failed = here.filter(({ _zod: { def } }) => def.type !== "unknown");
  const phrases = [...new Set(oneOfMany(failed).map(toPhrase))];
  const known = phrases.filter((phrase) => phrase !== null).sort((one, other) => rank(one) - rank(other));
  return known.length === 0 || known.length < phrases.length ? null : known.join(", or ");
}

/** The schemas that the value at `path` may follow. */
function alternativesAt(schema: z.ZodType, path: readonly PropertyKey[], value: unknown) {
  let here = alternatives(schema as unknown as Schema);
  let given = value;
  for (const key of path) {
    const containers = here.filter((each) => getChild(each, key) !== undefined);
    here = meant(containers, given).flatMap((each) => alternatives(getChild(each, key)));
    given = given !== null && typeof given === "object" ? (given as Record<PropertyKey, unknown>)[key] : undefined;
  }
  return { here, given };
}

/** The names of the fields that `schema` has at `path` of `value`. */
export function fieldsAt(schema: z.ZodType, path: readonly PropertyKey[], value: unknown): string[] {
  const { here, given } = alternativesAt(schema, path, value);
  return [...new Set(meant(here, given).flatMap(({ _zod: { def } }) => Object.keys(def.shape ?? {})))];
}

/** Fixed values, when there are many, as one list of them. */
function oneOfMany(schemas: Schema[]): Schema[] {
  const fixed = schemas.filter(({ _zod: { def } }) => def.type === "literal");
  if (fixed.length < 3) return schemas;
  const entries = Object.fromEntries(
    fixed.flatMap(({ _zod: { def } }) => def.values ?? []).map((each) => [each, each]),
  );
  return [{ _zod: { def: { type: "enum", entries } } }, ...schemas.filter((each) => !fixed.includes(each))];
}

/** null is named last. */
function rank(phrase: string): number {
  return phrase === "null" ? 1 : 0;
}

/** The schemas that a value may follow: without wrappers, each of a union's. */
function alternatives(schema: Schema | undefined): Schema[] {
  if (schema === undefined) return [];
  const { type, innerType, in: source, out, options } = schema._zod.def;
  if (type === "nullable") return [...alternatives(innerType), NULL];
  if (innerType !== undefined) return alternatives(innerType);
  if (type === "pipe") {
    if (source?._zod.def.type === "transform") return alternatives(out);
    // the check of the transformed value says more than the type of the input
    return authored(schema._zod.def) === null ? alternatives(source) : [schema];
  }
  if (type === "union") return (options ?? []).flatMap(alternatives);
  return [schema];
}

const NULL: Schema = { _zod: { def: { type: "null" } } };

function getChild({ _zod: { def } }: Schema, key: PropertyKey): Schema | undefined {
  if (def.type === "array") return def.element;
  // Callers choose the keys, and every object has `constructor`.
  const { shape = {}, catchall } = def;
  if (def.type === "object") return Object.hasOwn(shape, key) ? shape[String(key)] : catchall;
  return def.type === "record" ? def.valueType : undefined;
}

/** Of a union's objects, those whose fixed fields are the given ones: {"type": "basic"} is not a bearer's. */
function meant(schemas: Schema[], given: unknown): Schema[] {
  const fields = given !== null && typeof given === "object" ? (given as Record<string, unknown>) : {};
  const fitting = schemas.filter(
    ({ _zod: { def } }) =>
      def.type !== "null" && Object.entries(def.shape ?? {}).every(([key, field]) => mayHave(field, fields[key])),
  );
  return fitting.length === 0 ? schemas : fitting;
}

/** False: the field is a fixed value, and this is another one. A field that may be absent is a fixed one, too. */
function mayHave(field: Schema, given: unknown): boolean {
  if (given == null && field._zod.def.type !== "literal") return true;
  const accepted = alternatives(field).map(({ _zod: { def } }) => def);
  return accepted.some(({ type, values = [] }) => (type === "literal" ? values.includes(given) : type !== "null"));
}

function toPhrase({ _zod: { def } }: Schema): string | null {
  switch (def.type) {
    case "number":
      return numberPhrase(def);
    case "string":
      return stringPhrase(def);
    case "boolean":
      return "true or false";
    case "null":
      return "null";
    case "literal":
      return (def.values ?? []).map((each) => JSON.stringify(each)).join(" or ");
    case "enum":
      return `one of ${Object.values(def.entries ?? {}).join(", ")}`;
    case "array":
      return `a list${countPhrase(getChecks(def), " of ", " entries")}`;
    case "object":
    case "record":
      return "an object";
    default:
      return authored(def);
  }
}

function numberPhrase(def: Definition): string {
  const checks = getChecks(def);
  const is_whole = def.format !== undefined || checks.some(({ check }) => check === "number_format");
  const what = is_whole ? "a whole number" : "a number";
  const least = checks.find(({ check }) => check === "greater_than");
  const most = checks.findLast(({ check, value }) => check === "less_than" && value !== Number.MAX_SAFE_INTEGER);
  if (least?.inclusive === false) return `${what} above ${least.value}`;
  if (least !== undefined && most !== undefined) return `${what} from ${least.value} to ${most.value}`;
  if (least !== undefined) return `${what} of ${least.value} or more`;
  return most === undefined ? what : `${what} of at most ${most.value}`;
}

function stringPhrase(def: Definition): string {
  const checks = getChecks(def);
  const format = checks.find(({ check }) => check === "string_format");
  const phrase = format && toMessage(format.error);
  if (phrase) return phrase;
  if (format?.prefix !== undefined) return `text that begins with ${format.prefix}`;
  const known = FORMATS[def.format ?? ""];
  if (known !== undefined) return known;
  if (checks.length === 1 && checks[0]?.minimum === 1) return "text that is not empty";
  const counted = countPhrase(checks, " of ", " characters");
  return counted === "" ? (authored(def) ?? "text") : `text${counted}`;
}

function countPhrase(checks: readonly Check[], before: string, after: string): string {
  const least = checks.findLast(({ check }) => check === "min_length")?.minimum;
  const most = checks.findLast(({ check }) => check === "max_length")?.maximum;
  if (least !== undefined && most !== undefined) return `${before}${least} to ${most}${after}`;
  if (most !== undefined) return `${before}at most ${most}${after}`;
  return least === undefined ? "" : `${before}at least ${least}${after}`;
}

function getChecks(def: Definition): Check[] {
  return (def.checks ?? []).map((check) => check._zod.def);
}

/** What the schema's own refinements say. */
function authored(def: Definition): string | null {
  const messages = getChecks(def).map(({ check, error }) => (check === "custom" ? toMessage(error) : null));
  return messages.find((message) => message !== null) ?? null;
}

function toMessage(error: AuthoredMessage | undefined): string | null {
  const message = error?.({});
  return (typeof message === "string" ? message : message?.message) ?? null;
}
