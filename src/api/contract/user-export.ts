import { createRoute, z } from "@hono/zod-openapi";
import { needs } from "./caller.ts";
import { failures } from "./common.ts";
import { withReason } from "./operators.ts";

/** A user's data as a file: contract 3.9. */

const zip = {
  description: "a ZIP of JSON Lines and CSV files, written while it is sent",
  content: { "application/zip": { schema: z.string().openapi({ format: "binary" }) } },
};

export const exportOwnData = createRoute({
  method: "post",
  path: "/api/v1/users/me/export",
  tags: ["API keys"],
  summary: "Everything that the service keeps of the caller, except secret values, as a ZIP",
  ...needs("billing:read"),
  responses: { 200: zip, ...failures(403, 503) },
});

export const exportUserData = createRoute({
  method: "post",
  path: "/api/v1/admin/users/{id}/export",
  tags: ["Operator"],
  summary: "Everything that the service keeps of a user, except secret values, as a ZIP",
  security: [{ operator_key: [] as string[] }],
  request: { params: z.object({ id: z.string() }), ...withReason },
  responses: { 200: zip, ...failures(400, 404, 503) },
});
