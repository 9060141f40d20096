import { errors, type PurserError } from "../../kernel/errors.ts";
import { nearestNames } from "../../kernel/nearest.ts";
import { acceptedAt, fieldsAt, isPhrase } from "./accepted.ts";
import { contractErrors } from "./errors.ts";
import type { RouteDefinition, z } from "./zod.ts";

/** The parts of a zod 4 issue that we read. */
interface Issue {
  readonly code: string;
  readonly path: readonly PropertyKey[];
  readonly message: string;
  readonly keys?: readonly string[];
  readonly errors?: readonly (readonly Issue[])[];
}

/** Parameters that clients add to every address: Anthropic's and Azure's. */
const OF_CLIENTS = new Set(["beta", "api-version"]);

/** The parts of a request, as they were sent or as a route takes them. */
interface Parts {
  params: unknown;
  query: unknown;
  headers: unknown;
  body: unknown;
}

/** The parts of a request that `route` takes, validated. Throws the API's 400. */
export function validateRequest(
  { request, hide }: RouteDefinition,
  { query, ...others }: Parts,
): { [Part in keyof Parts]: never } {
  const sent: Parts = { ...others, query: withObjects(query as Record<string, unknown>) };
  const body = request?.body?.content["application/json"] as { schema?: z.ZodType } | undefined;
  const schemas = { params: request?.params, query: request?.query, headers: request?.headers, body: body?.schema };
  const valid: Partial<Record<keyof Parts, unknown>> = {};
  for (const part of ["params", "query", "headers", "body"] as const) {
    const schema = schemas[part] as z.ZodType | undefined;
    const result = schema?.safeParse(sent[part]);
    if (schema !== undefined && result?.success === false) {
      throw validationError(result.error.issues as never, sent[part], schema);
    }
    valid[part] = result?.data ?? {};
  }
  // A sign-in's server adds parameters of its own when it sends the browser back.
  if (hide !== true) rejectUnknownParameters(schemas.query as z.ZodType | undefined, Object.keys(sent.query as object));
  return valid as { [Part in keyof Parts]: never };
}

/** The query with parameters such as `metadata[name]` as fields of one object, as OpenAPI's style deepObject has them. */
function withObjects(query: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const objects = Object.groupBy(Object.entries(query), ([name]) => /^([^[]+)\[.+\]$/s.exec(name)?.[1] ?? "");
  const { "": plain = [], ...nested } = objects;
  const fields = Object.entries(nested).map(([name, entries = []]) => [
    name,
    Object.fromEntries(entries.map(([key, value]) => [key.slice(name.length + 1, -1), value])),
  ]);
  return Object.fromEntries([...plain, ...fields]);
}

/** Throws 400 for a query parameter that `schema` does not have; undefined: the address takes none. */
function rejectUnknownParameters(schema: z.ZodType | undefined, given: readonly string[]): void {
  const known = Object.keys((schema as z.ZodObject | undefined)?.shape ?? {});
  const unknown = given.find((name) => !known.includes(name) && !OF_CLIENTS.has(name));
  if (unknown !== undefined) throw contractErrors.unknownParameter(unknown, known);
}

/** Unknown fields that an error names, and one more that tells that there are others. A request may have 90,000. */
const MAX_NAMED = 21;

/** `["tools_config", "web_fetch", "auth", 0, "secret"]` as `tools_config.web_fetch.auth[0].secret`. */
export function paramOf(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === "number") return `${text}[${part}]`;
    return text === "" ? String(part) : `${text}.${String(part)}`;
  }, "");
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((at, part) => {
    return at !== null && typeof at === "object" ? (at as Record<PropertyKey, unknown>)[part] : undefined;
  }, value);
}

/** The unknown field beside the missing one at `path` that was probably meant as that. */
function misspelt(path: readonly PropertyKey[], value: unknown, schema: z.ZodType): string | undefined {
  const parent = path.slice(0, -1);
  const given = valueAt(value, parent);
  if (typeof given !== "object" || given === null || Array.isArray(given)) return undefined;
  const known = fieldsAt(schema, parent, value);
  const unknown = Object.keys(given).filter((name) => !known.includes(name));
  return nearestNames(String(path.at(-1)), unknown)[0];
}

/** Of a union's alternatives, those with the given `type` are what the caller meant; of these, the issue that got furthest. */
function deepest(issue: Issue): Issue {
  const alternatives = issue.errors ?? [];
  const of_type = alternatives.filter((issues) =>
    issues.every(({ path }) => path.length > 0 && !(path.length === 1 && path[0] === "type")),
  );
  const inner = (of_type.length > 0 ? of_type : alternatives)
    .flat()
    .map((each) => deepest({ ...each, path: [...issue.path, ...each.path] }));
  return inner.reduce((best, each) => (each.path.length > best.path.length ? each : best), issue);
}

/**
 * The first thing that is wrong with `value`, as an API error that says what `schema` accepts there. An unknown field is
 * told before a wrong value: it is the likelier slip.
 */
export function validationError(issues: readonly Issue[], value: unknown, schema: z.ZodType): PurserError {
  const found = issues.map(deepest);
  const first = found.find((issue) => issue.code === "unrecognized_keys") ?? found[0];
  if (first === undefined) return errors.invalidValue("", "The request is not valid.");
  if (first.code === "unrecognized_keys") {
    const [key = "", ...others] = (first.keys ?? []).slice(0, MAX_NAMED);
    const param = (name: string) => paramOf([...first.path, name]);
    if (isPhrase(first.message)) return contractErrors.fieldElsewhere(param(key), first.message);
    return contractErrors.unknownFields([param(key), ...others.map(param)], fieldsAt(schema, first.path, value));
  }
  const param = paramOf(first.path);
  if (param === "") return contractErrors.invalidJson("The body is not a JSON object");
  if (first.code !== "custom" && valueAt(value, first.path) === undefined) {
    const sent = misspelt(first.path, value, schema);
    return errors.missingField(param, sent === undefined ? undefined : `${sent} is no field: did you mean ${param}?`);
  }
  const accepted = isPhrase(first.message) ? first.message : acceptedAt(schema, first.path, value);
  return errors.invalidValue(
    param,
    accepted === null ? `${param} is not valid: ${first.message}.` : `${param} must be ${accepted}.`,
  );
}
