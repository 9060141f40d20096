/**
 * The API's reference as data, from its OpenAPI document: what the page at /docs and docs/reference/api.md both show.
 */

interface Schema {
  $ref?: string;
  type?: string | string[];
  format?: string;
  enum?: unknown[];
  const?: unknown;
  description?: string;
  default?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  minimum?: number;
  maximum?: number;
}

export interface Operation {
  operationId?: string;
  summary?: string;
  description?: string;
  tags?: string[];
  parameters?: { name: string; in: string; required?: boolean; schema?: Schema; description?: string }[];
  requestBody?: { content?: Record<string, { schema?: Schema }> };
  responses?: Record<
    string,
    { description?: string; content?: Record<string, { schema?: Schema }>; headers?: Record<string, object> }
  >;
  security?: Record<string, string[]>[];
  "x-required-scope"?: string;
}

export interface OpenApiDocument {
  info: { title: string; version: string; description?: string };
  paths?: Record<string, Record<string, Operation>>;
  components?: { schemas?: Record<string, Schema> };
}

export interface Field {
  name: string;
  type: string;
  required: boolean;
  note: string;
}

export interface Endpoint {
  method: string;
  path: string;
  summary: string;
  scope: string | null;
  parameters: Field[];
  request: Field[];
  responses: { status: string; description: string; fields: Field[] }[];
}

export interface Section {
  title: string;
  endpoints: Endpoint[];
}

/** The depth to which nested objects are shown. */
const DEPTH = 3;

/** Returns the sections of `document` in the order in which their tags first appear. */
export function referenceOf(document: OpenApiDocument): Section[] {
  const sections = new Map<string, Section>();
  for (const [path, methods] of Object.entries(document.paths ?? {})) {
    for (const [method, operation] of Object.entries(methods)) {
      const title = operation.tags?.[0] ?? "Other";
      const section = sections.get(title) ?? { title, endpoints: [] };
      sections.set(title, section);
      section.endpoints.push(endpointOf(document, method.toUpperCase(), path, operation));
    }
  }
  return [...sections.values()];
}

function endpointOf(document: OpenApiDocument, method: string, path: string, operation: Operation): Endpoint {
  const parameters = (operation.parameters ?? []).map((parameter) => ({
    name: parameter.name,
    type: `${typeOf(document, parameter.schema ?? {})} (${parameter.in})`,
    required: parameter.required ?? false,
    note: noteOf(resolve(document, parameter.schema ?? {}), parameter.description),
  }));
  const responses = Object.entries(operation.responses ?? {}).map(([status, response]) => ({
    status,
    description: response.description ?? "",
    fields: Number(status) < 300 ? fieldsOf(document, usualShape(jsonSchema(response.content))) : [],
  }));
  const scope = operation["x-required-scope"] ?? null;
  const request = fieldsOf(document, jsonSchema(operation.requestBody?.content));
  return { method, path, summary: operation.summary ?? "", scope, parameters, request, responses };
}

function jsonSchema(content: Record<string, { schema?: Schema }> | undefined): Schema {
  return content?.["application/json"]?.schema ?? {};
}

/** Of several shapes of an answer the first; its description tells when another one comes. */
function usualShape(schema: Schema): Schema {
  return schema.anyOf?.[0] ?? schema;
}

function resolve(document: OpenApiDocument, schema: Schema): Schema {
  const name = schema.$ref?.split("/").at(-1);
  const found = name === undefined ? schema : (document.components?.schemas?.[name] ?? {});
  if (found.allOf === undefined) return found;
  const parts = found.allOf.map((part) => resolve(document, part));
  return {
    ...found,
    properties: Object.assign({}, ...parts.map((part) => part.properties), found.properties),
    required: [...parts.flatMap((part) => part.required ?? []), ...(found.required ?? [])],
  };
}

function fieldsOf(document: OpenApiDocument, schema: Schema, prefix = "", depth = DEPTH): Field[] {
  const { properties = {}, required = [] } = resolve(document, schema);
  return Object.entries(properties).flatMap(([key, value]) => {
    const inner = resolve(document, value);
    const name = `${prefix}${key}`;
    const field = {
      name,
      type: typeOf(document, value),
      required: required.includes(key),
      note: noteOf(inner, value.description),
    };
    if (depth === 0) return [field];
    const nested =
      inner.items === undefined
        ? fieldsOf(document, inner, `${name}.`, depth - 1)
        : fieldsOf(document, inner.items, `${name}[].`, depth - 1);
    return [field, ...nested];
  });
}

function typeOf(document: OpenApiDocument, schema: Schema): string {
  const resolved = resolve(document, schema);
  const alternatives = resolved.anyOf ?? resolved.oneOf;
  if (alternatives !== undefined) return [...new Set(alternatives.map((each) => typeOf(document, each)))].join(" | ");
  if (resolved.enum !== undefined) return resolved.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (resolved.const !== undefined) return JSON.stringify(resolved.const);
  const types = [resolved.type ?? (resolved.properties === undefined ? "any" : "object")].flat();
  return types.map((type) => (type === "array" ? listOf(typeOf(document, resolved.items ?? {})) : type)).join(" | ");
}

function listOf(type: string): string {
  return type.includes(" | ") ? `(${type})[]` : `${type}[]`;
}

function noteOf(schema: Schema, description: string | undefined): string {
  const notes = [description ?? schema.description, schema.format];
  if (schema.default !== undefined) notes.push(`default ${JSON.stringify(schema.default)}`);
  if (schema.minimum !== undefined && schema.maximum !== undefined && schema.maximum < 1e15) {
    notes.push(`${schema.minimum} to ${schema.maximum}`);
  }
  return notes.filter((note) => note !== undefined).join("; ");
}
