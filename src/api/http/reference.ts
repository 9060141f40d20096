/**
 * The API's reference as data, from its OpenAPI document: what the page at /docs and docs/reference/api.md both show.
 */

export interface Schema {
  $ref?: string;
  example?: unknown;
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
  exclusiveMinimum?: number;
  maximum?: number;
  minItems?: number;
  additionalProperties?: unknown;
}

export interface Media {
  schema?: Schema;
  example?: unknown;
}

export interface Operation {
  operationId?: string;
  summary?: string;
  description?: string;
  tags?: string[];
  parameters?: { name: string; in: string; required?: boolean; schema?: Schema; description?: string }[];
  requestBody?: { content?: Record<string, Media> };
  responses?: Record<
    string,
    { description?: string; content?: Record<string, Media>; headers?: Record<string, object> }
  >;
  security?: Record<string, string[]>[];
  "x-required-scope"?: string;
}

export interface OpenApiDocument {
  info: { title: string; version: string; description?: string };
  tags?: { name: string; description: string }[];
  paths?: Record<string, Record<string, Operation>>;
  webhooks?: Record<string, { post: Operation }>;
  components?: { schemas?: Record<string, Schema>; headers?: Record<string, object> };
}

export interface Field {
  name: string;
  type: string;
  required: boolean;
  note: string;
  /** The shapes of a value that has several. */
  variants: Variant[];
}

/** One shape of a value: `type "text"` with its fields. */
export interface Variant {
  label: string;
  fields: Field[];
}

/** A body or an answer: its fields, or the shapes that it may have. */
export interface Shape {
  fields: Field[];
  variants: Variant[];
  /** undefined: it is no JSON. */
  example: unknown;
}

export interface Endpoint {
  method: string;
  path: string;
  summary: string;
  scope: string | null;
  parameters: Field[];
  request: Shape;
  responses: ({ status: string; description: string } & Shape)[];
}

export interface Section {
  title: string;
  /** Empty for webhooks. */
  description: string;
  endpoints: Endpoint[];
}

/** The depth to which nested objects are shown. */
const DEPTH = 3;

/** The sections of `document` in the order of its tags, and its webhooks at the end. */
export function referenceOf(document: OpenApiDocument): Section[] {
  const sections = new Map<string, Section>();
  for (const { name: title, description } of document.tags ?? []) {
    sections.set(title, { title, description, endpoints: [] });
  }
  for (const [path, methods] of Object.entries(document.paths ?? {})) {
    for (const [method, operation] of Object.entries(methods)) {
      const endpoint = endpointOf(document, method.toUpperCase(), path, operation);
      sections.get(operation.tags?.[0] ?? "")?.endpoints.push(endpoint);
    }
  }
  const webhooks = Object.entries(document.webhooks ?? {}).map(([type, { post }]) =>
    endpointOf(document, "WEBHOOK", type, post),
  );
  return [
    ...sections.values(),
    { title: "Webhooks", description: "What Purser posts to your addresses.", endpoints: webhooks },
  ];
}

function endpointOf(document: OpenApiDocument, method: string, path: string, operation: Operation): Endpoint {
  const parameters = (operation.parameters ?? []).map((parameter) => ({
    name: parameter.name,
    type: `${typeOf(document, parameter.schema ?? {})} (${parameter.in})`,
    required: parameter.required ?? false,
    note: noteOf(resolve(document, parameter.schema ?? {}), parameter.description),
    variants: [],
  }));
  const responses = Object.entries(operation.responses ?? {}).map(([status, response]) => ({
    status,
    description: response.description ?? "",
    ...(status.startsWith("2") ? shapeOf(document, response.content) : NO_SHAPE),
  }));
  const scope = operation["x-required-scope"] ?? null;
  const request = shapeOf(document, operation.requestBody?.content);
  return { method, path, summary: operation.summary ?? "", scope, parameters, request, responses };
}

const NO_SHAPE: Shape = { fields: [], variants: [], example: undefined };

function shapeOf(document: OpenApiDocument, content: Record<string, Media> | undefined): Shape {
  const { schema, example } = content?.["application/json"] ?? {};
  if (schema === undefined) return NO_SHAPE;
  return { fields: fieldsOf(document, schema), variants: variantsOf(document, schema, DEPTH), example };
}

/** The shapes with fields of a value that may have several. */
function variantsOf(document: OpenApiDocument, schema: Schema, depth: number): Variant[] {
  const { anyOf, oneOf } = resolve(document, schema);
  const alternatives = (anyOf ?? oneOf ?? []).flatMap((each) => {
    const { anyOf: inner_any, oneOf: inner_one } = resolve(document, each);
    return inner_any ?? inner_one ?? [each];
  });
  return alternatives.flatMap((each, index) => {
    const fields = fieldsOf(document, each, "", depth - 1);
    return fields.length === 0 ? [] : [{ label: labelOf(document, each, index), fields }];
  });
}

/** What tells a shape from the others: a field with one value, otherwise its name. */
function labelOf(document: OpenApiDocument, schema: Schema, index: number): string {
  for (const [name, value] of Object.entries(resolve(document, schema).properties ?? {})) {
    const { const: constant, enum: values } = resolve(document, value);
    const only = constant ?? (values?.length === 1 ? values[0] : undefined);
    if (only !== undefined) return `${name}: ${JSON.stringify(only)}`;
  }
  return schema.$ref?.split("/").at(-1) ?? `shape ${index + 1}`;
}

/** The schema that a `$ref` names, and one schema for `allOf`. */
export function resolve(document: OpenApiDocument, schema: Schema): Schema {
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
      variants: depth === 0 ? [] : variantsOf(document, inner.items ?? inner, depth),
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
