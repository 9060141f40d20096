import { operationId } from "./operation-id.ts";
import type { OpenApiDocument, Operation } from "./reference.ts";

/** Adds the rules of all endpoints, which no route's contract repeats: scopes, bodies, idempotency keys. Pure. */

const ANSWERS = {
  403: "not permitted: a scope that the key lacks, or a suspended account",
  409: "`idempotency_in_flight`: the first request with this Idempotency-Key is still running",
  413: "the body is too large",
  415: "the body is not JSON",
  422: "the Idempotency-Key was used with another request",
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

/** Returns the document with the common parameters and answers of each operation. */
export function withConventions(document: OpenApiDocument): OpenApiDocument {
  const paths = Object.entries(document.paths ?? {}).map(([path, methods]) => {
    const operations = Object.entries(methods).map(([method, each]) => {
      const named = { ...each, operationId: each.operationId ?? operationId(method, path) };
      return [method, secured(completed(method, named))];
    });
    return [path, Object.fromEntries(operations)];
  });
  return { ...document, paths: Object.fromEntries(paths) };
}

/** `x-api-key` is another way to send a key. An operation without a key says so. */
function secured(operation: Operation): Operation {
  const security = (operation.security ?? []).flatMap((each) =>
    "api_key" in each ? [each, { x_api_key: [] }] : [each],
  );
  return { ...operation, security };
}

function completed(method: string, operation: Operation): Operation {
  const { security, requestBody, parameters = [], responses = {} } = operation;
  const is_idempotent = method === "post" && security !== undefined;
  const statuses: (keyof typeof ANSWERS)[] = [];
  if (security?.some((each) => "api_key" in each)) statuses.push(403);
  if (requestBody !== undefined) statuses.push(413, 415);
  if (is_idempotent) statuses.push(409, 422);
  const content = { "application/json": { schema: { $ref: "#/components/schemas/Error" } } };
  const added = Object.fromEntries(statuses.map((status) => [status, { description: ANSWERS[status], content }]));
  const said = responses[409]?.description;
  // the route's own description of a status is more exact
  const all = { ...added, ...responses };
  if (is_idempotent && said !== undefined) all[409] = { ...all[409], description: `${said}, or ${ANSWERS[409]}` };
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
