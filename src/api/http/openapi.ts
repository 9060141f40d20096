import { OpenAPIRegistry, OpenApiGeneratorV31 } from "@asteasolutions/zod-to-openapi";
import type { RouteDefinition } from "../contract/zod.ts";
import { operationId } from "./operation-id.ts";
import type { OpenApiDocument, Operation } from "./reference.ts";

/** Adds the rules of all endpoints, which no route's contract repeats: scopes, bodies, idempotency keys. Pure. */

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

const RETRY_AFTER = {
  "Retry-After": { description: "seconds until a retry may succeed", schema: { type: "integer", minimum: 1 } },
};
/** Other ways to send a credential. The console's session has the rights of a key with every scope. */
const ALSO: Readonly<Record<string, readonly Record<string, string[]>[]>> = {
  api_key: [{ x_api_key: [] }, { session: [] }],
  operator_key: [{ operator_x_api_key: [] }],
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
  const document = new OpenApiGeneratorV31(registry.definitions).generateDocument(about as never);
  return withConventions(document as unknown as OpenApiDocument);
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
  const all = { ...added, ...responses };
  if (is_idempotent && said !== undefined) all[409] = { ...all[409], description: `${said}, or ${ANSWERS[409]}` };
  for (const status of [429, 503]) all[status] = { ...all[status], headers: RETRY_AFTER };
  if (!is_idempotent) return { ...operation, responses: all };
  const replayable = Object.entries(all).map(([status, response]) => [
    status,
    status.startsWith("2") ? { ...response, headers: REPLAYED } : response,
  ]);
  return {
    ...operation,
    parameters: [...parameters, IDEMPOTENCY_KEY],
    responses: Object.fromEntries(replayable),
  };
}
