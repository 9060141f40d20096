import { OpenAPIRegistry, OpenApiGeneratorV31 } from "@asteasolutions/zod-to-openapi";
import { REQUEST_EXAMPLES } from "../contract/request-examples.ts";
import { SECTIONS } from "../contract/routes.ts";
import { WEBHOOKS } from "../contract/webhooks.ts";
import type { RouteDefinition } from "../contract/zod.ts";
import { exampleOf } from "./example.ts";
import { operationId } from "./operation-id.ts";
import { type Media, type OpenApiDocument, type Operation, resolve, type Schema } from "./reference.ts";

/** Adds the rules of all endpoints, which no route's contract repeats: scopes, bodies, headers, examples. Pure. */

const ANSWERS = {
  400: "the request is not valid; `param` names the field",
  403: "not permitted: a scope or role that the key lacks, or a suspended account",
  409: "`idempotency_in_flight`: the first request with this Idempotency-Key is still running",
  413: "the body is too large",
  415: "the body is not JSON",
  422: "the Idempotency-Key was used with another request",
  431: "the address or the headers are too large",
  503: "the service is at its limit, or its database does not answer",
} as const;

const IDEMPOTENCY_KEY = {
  name: "Idempotency-Key",
  in: "header",
  required: false,
  description: "the same key and body within 24 hours get the first answer again, and nothing is done twice",
  schema: { type: "string", minLength: 1, maxLength: 255, pattern: "^[ -~]*$" },
};
const REPLAYED = {
  "Idempotent-Replayed": {
    description: "`true` when this is the first answer again",
    schema: { type: "string", enum: ["true"] },
  },
};

const text = (description: string, example: string) => ({ description, schema: { type: "string" }, example });
/** Headers of answers, which the operations refer to. */
const HEADERS = {
  "X-Request-Id": text("the id of the request; a valid one that the caller sends is kept", "order-4711"),
  RateLimit: text("requests left, and seconds until there are more", '"requests";r=599;t=1'),
  "RateLimit-Policy": text("the limit that is nearest: requests in a window of seconds", '"requests";q=600;w=60'),
  "WWW-Authenticate": text("how to authenticate", 'Bearer realm="Purser", error="invalid_token"'),
  "Retry-After": { description: "seconds until a retry may succeed", schema: { type: "integer", minimum: 1 } },
};
const headers = (...names: (keyof typeof HEADERS)[]) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
const REQUEST_ID = headers("X-Request-Id");
const QUOTA = headers("RateLimit", "RateLimit-Policy");

const SIGNATURE = Object.entries({
  "webhook-id": "the same on every try of a delivery",
  "webhook-timestamp": "Unix seconds of this try",
  "webhook-signature": "by Standard Webhooks: v1 and an HMAC-SHA256 under the endpoint's or the agent's key",
}).map(([name, description]) => ({ name, in: "header", required: true, description, schema: { type: "string" } }));
/** Other ways to send a credential. The console's session has the rights of a key with every scope, and of its operator role. */
const ALSO: Readonly<Record<string, readonly Record<string, string[]>[]>> = {
  api_key: [{ x_api_key: [] }, { session: [] }],
  operator_key: [{ operator_x_api_key: [] }, { session: [] }],
};

/** The OpenAPI 3.1 document of the routes. */
export function openApiDocument(
  routes: readonly RouteDefinition[],
  {
    about,
    session_cookie,
  }: { about: { openapi: string; info: { title: string; version: string } }; session_cookie: string | null },
): OpenApiDocument {
  const registry = new OpenAPIRegistry();
  for (const [name, scheme] of Object.entries(session_cookie === null ? {} : securitySchemes(session_cookie))) {
    registry.registerComponent("securitySchemes", name, scheme);
  }
  for (const { for_user_in_path: _, ...route } of routes) registry.registerPath(route);
  for (const { type, body } of WEBHOOKS) {
    const content = { "application/json": { schema: body } };
    registry.registerWebhook({ method: "post", path: type, request: { body: { content } }, responses: {} });
  }
  const made = new OpenApiGeneratorV31(registry.definitions).generateDocument(about as never);
  const document = made as unknown as OpenApiDocument;
  const components = { ...document.components, headers: HEADERS };
  const used = new Set(
    Object.values(document.paths ?? {}).flatMap((each) => Object.values(each).flatMap(({ tags }) => tags)),
  );
  const tags = Object.entries(SECTIONS).flatMap(([name, description]) =>
    used.has(name) ? [{ name, description }] : [],
  );
  return withWebhooks(withExamples(withConventions(withoutStrictParts({ ...document, components, tags }))));
}

/**
 * Makes one schema of each extended one. `allOf` of parts without other fields would allow no field that only one of
 * them has.
 */
function withoutStrictParts(document: OpenApiDocument): OpenApiDocument {
  return JSON.parse(JSON.stringify(document), (_, value: unknown) => {
    const schema = value as Schema | null;
    if (!Array.isArray(schema?.allOf)) return value;
    const parts = schema.allOf.map((part) => resolve(document, part));
    if (parts.every(({ additionalProperties }) => additionalProperties !== false)) return value;
    const { allOf: _allOf, ...merged } = resolve(document, schema);
    return { ...merged, type: "object", additionalProperties: false };
  });
}

/** Adds what all webhooks have in common: a signature, and what the receiver's answer does. */
function withWebhooks(document: OpenApiDocument): OpenApiDocument {
  const webhooks = Object.entries(document.webhooks ?? {}).map(([type, { post }]) => {
    const schema = post.requestBody?.content?.["application/json"]?.schema ?? {};
    const summary = schema.properties?.data?.description ?? type;
    const responses = {
      "2XX": { description: "delivered" },
      410: { description: "no more deliveries: the endpoint is disabled" },
      default: { description: "retried for a day with growing pauses" },
    };
    const content = { "application/json": { schema, example: exampleOf(document, schema, { all: true }) } };
    const operationId = `on${type.replaceAll(/(?:^|[._])(\w)/g, (_, letter: string) => letter.toUpperCase())}`;
    const operation = {
      operationId,
      summary,
      security: [],
      parameters: SIGNATURE,
      requestBody: { content },
      responses,
    };
    return [type, { post: operation }];
  });
  return { ...document, webhooks: Object.fromEntries(webhooks) };
}

/** Adds an example to each JSON body of a request and of an answer that succeeded. */
function withExamples(document: OpenApiDocument): OpenApiDocument {
  const withExample = (content: Record<string, Media> | undefined, { name, all }: { name: string; all: boolean }) => {
    const media = content?.["application/json"];
    if (content === undefined || media?.schema === undefined) return content;
    const example = (all ? undefined : REQUEST_EXAMPLES[name]) ?? exampleOf(document, media.schema, { all });
    return { ...content, "application/json": { ...media, example } };
  };
  const paths = Object.entries(document.paths ?? {}).map(([path, methods]) => {
    const operations = Object.entries(methods).map(([method, operation]) => {
      const { operationId: name = "", requestBody, responses = {} } = operation;
      const answers = Object.entries(responses).map(([status, response]) => {
        const content = status.startsWith("2") ? withExample(response.content, { name, all: true }) : response.content;
        return [status, content === undefined ? response : { ...response, content }];
      });
      const body = requestBody && { ...requestBody, content: withExample(requestBody.content, { name, all: false }) };
      return [method, { ...operation, ...(body && { requestBody: body }), responses: Object.fromEntries(answers) }];
    });
    return [path, Object.fromEntries(operations)];
  });
  return { ...document, paths: Object.fromEntries(paths) };
}

/** The security schemes. `session_cookie`: the name of the console's cookie, which depends on the address. */
export function securitySchemes(session_cookie: string): Readonly<Record<string, Scheme>> {
  return {
    api_key: { type: "http", scheme: "bearer", description: "an API key" },
    x_api_key: {
      type: "apiKey",
      in: "header",
      name: "x-api-key",
      description: "an API key, as Anthropic's clients send it",
    },
    session: {
      type: "apiKey",
      in: "cookie",
      name: session_cookie,
      description: "the session of a person, accepted from the console's own pages only",
    },
    operator_key: { type: "http", scheme: "bearer", description: "PURSER_ADMIN_KEY or an operator key" },
    operator_x_api_key: {
      type: "apiKey",
      in: "header",
      name: "x-api-key",
      description: "PURSER_ADMIN_KEY or an operator key",
    },
  };
}
type Scheme =
  | { type: "http"; scheme: "bearer"; description: string }
  | { type: "apiKey"; in: "header" | "cookie"; name: string; description: string };

/** Returns the document with the common parameters and answers of each operation. */
function withConventions(document: OpenApiDocument): OpenApiDocument {
  const paths = Object.entries(document.paths ?? {}).map(([path, methods]) => {
    const operations = Object.entries(methods).map(([method, each]) => {
      const named = { ...each, operationId: each.operationId ?? operationId(method, path) };
      return [method, secured(completed(method, named))];
    });
    return [path, Object.fromEntries(operations)];
  });
  return { ...document, paths: Object.fromEntries(paths) };
}

/** Adds the other ways to send a credential. An operation without a credential says so. */
function secured(operation: Operation): Operation {
  const security = (operation.security ?? []).flatMap((each) => [each, ...(ALSO[Object.keys(each)[0] ?? ""] ?? [])]);
  return { ...operation, security };
}

function completed(method: string, operation: Operation): Operation {
  const { security, requestBody, parameters = [], responses = {} } = operation;
  const is_keyed = security?.some((each) => "api_key" in each) === true;
  const is_operators = security?.some((each) => "operator_key" in each) === true;
  const is_idempotent = method === "post" && (is_keyed || is_operators);
  const statuses: (keyof typeof ANSWERS)[] = [431, 503];
  if (is_keyed || is_operators) statuses.push(403);
  if (requestBody !== undefined) statuses.push(400, 413, 415);
  if (parameters.some((each) => each.in === "query")) statuses.push(400);
  if (is_idempotent) statuses.push(400, 409, 422);
  const content = { "application/json": { schema: { $ref: "#/components/schemas/Error" } } };
  const added = Object.fromEntries(statuses.map((status) => [status, { description: ANSWERS[status], content }]));
  const said = responses[409]?.description;
  // the route's own description of a status is more exact
  const all: NonNullable<Operation["responses"]> = { ...added, ...responses };
  if (is_idempotent && said !== undefined) all[409] = { ...all[409], description: `${said}, or ${ANSWERS[409]}` };
  const answers = Object.entries(all).map(([status, response]) => {
    const is_success = status.startsWith("2");
    const found = {
      ...REQUEST_ID,
      ...(is_keyed && (is_success || status === "429") ? QUOTA : {}),
      ...(status === "401" ? headers("WWW-Authenticate") : {}),
      ...(status === "429" || status === "503" ? headers("Retry-After") : {}),
      ...(is_success && is_idempotent ? REPLAYED : {}),
      ...response.headers,
    };
    return [status, { ...response, headers: found }];
  });
  const shared = is_idempotent ? [IDEMPOTENCY_KEY] : [];
  return { ...operation, parameters: [...parameters, ...shared], responses: Object.fromEntries(answers) };
}
