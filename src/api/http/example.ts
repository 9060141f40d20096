import { type OpenApiDocument, resolve, type Schema } from "./reference.ts";

/** An example of a schema: its own, otherwise a value of each field by its type, its format and its name. Pure. */

const DEPTH = 12;
const BY_FORMAT: Readonly<Record<string, string>> = {
  uuid: "01a21742-9398-73cd-b1ad-299be18e062b",
  "date-time": "2026-11-20T09:30:00.000Z",
  date: "2026-11-20",
  email: "ada@example.com",
  uri: "https://example.com/page",
};
const BY_NAME: Readonly<Record<string, string>> = {
  email: "ada@example.com",
  name: "harbour",
  password: "a long enough password",
  current_password: "the password until now",
  new_password: "a long enough password",
  agent_name: "Harbour watch",
  schedule_name: "default",
  model: "purser/rehearsal",
  model_id: "purser/rehearsal",
  url: "https://example.com/hook",
  to: "https://example.com/hook",
  currency: "usd",
  timezone: "Asia/Kolkata",
  schedule_timezone: "Asia/Kolkata",
  reason: "outage of Monday",
};

/** An example of `schema`. `all`: with the optional fields, as answers have them. */
export function exampleOf(document: OpenApiDocument, schema: Schema, { all }: { all: boolean }): unknown {
  return sample({ document, all }, schema, "", DEPTH);
}

interface Sampling {
  document: OpenApiDocument;
  all: boolean;
}

function sample(sampling: Sampling, given: Schema, name: string, depth: number): unknown {
  const schema = resolve(sampling.document, given);
  if (given.example !== undefined) return given.example;
  if (schema.example !== undefined) return schema.example;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  if (schema.default !== undefined && schema.default !== null) return schema.default;
  const alternatives = schema.anyOf ?? schema.oneOf;
  const [first] = alternatives?.filter(({ type }) => type !== "null") ?? [];
  if (first !== undefined) return depth === 0 ? null : sample(sampling, first, name, depth);
  const [type = schema.properties === undefined ? undefined : "object"] = [schema.type ?? []].flat();
  if (type === "object") return depth === 0 ? {} : sampleObject(sampling, schema, depth);
  if (type === "array") {
    const is_empty = depth === 0 || schema.items === undefined || (!sampling.all && (schema.minItems ?? 0) === 0);
    return is_empty ? [] : [sample(sampling, schema.items ?? {}, name.replace(/s$/, ""), depth - 1)];
  }
  if (type === "integer" || type === "number") return Math.max(schema.minimum ?? 0, (schema.exclusiveMinimum ?? 0) + 1);
  if (type === "boolean") return false;
  return type === "string" ? (BY_FORMAT[schema.format ?? ""] ?? BY_NAME[name] ?? "text") : null;
}

function sampleObject(sampling: Sampling, { properties = {}, required = [] }: Schema, depth: number): object {
  const shown = Object.entries(properties).filter(([name]) => sampling.all || required.includes(name));
  return Object.fromEntries(shown.map(([name, value]) => [name, sample(sampling, value, name, depth - 1)]));
}
