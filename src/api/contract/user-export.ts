import { reasonBody } from "./operators.ts";
import { operatorRoutes, routesOf } from "./routes.ts";
import { z } from "./zod.ts";

/** A user's data as a file: contract 3.9. */

const zip = {
  description: "a ZIP of JSON Lines and CSV files, written while it is sent",
  content: { "application/zip": { schema: z.string().openapi({ format: "binary" }) } },
};

export const exportOwnData = routesOf("API keys").post("/api/v1/users/me/export", {
  summary: "Everything that the service keeps of the caller, except secret values, as a ZIP",
  scope: "billing:read",
  answers: { 200: zip },
  fails: [503],
});

export const exportUserData = operatorRoutes().post("/api/v1/admin/users/{id}/export", {
  summary: "Everything that the service keeps of a user, except secret values, as a ZIP",
  optional_body: reasonBody,
  answers: { 200: zip },
  fails: [503],
});
