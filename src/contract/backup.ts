import { createRoute, z } from "@hono/zod-openapi";
import { failures } from "./common.ts";

/** The backup of the whole database, for the operator: contract 8.12. */
export const createBackup = createRoute({
  method: "post",
  path: "/api/v1/admin/backup",
  tags: ["Operator"],
  summary: "Back up the database",
  security: [{ operator_key: [] as string[] }],
  responses: {
    200: {
      description:
        "one consistent state of all tables, as `purser restore` reads it: JSON lines, compressed with gzip. An error after the beginning ends the connection; purser restore rejects such a file",
      content: { "application/gzip": { schema: z.string().openapi({ format: "binary" }) } },
    },
    ...failures(404, 409, 503),
  },
});
