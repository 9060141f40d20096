import { createRoute } from "@hono/zod-openapi";
import { needs } from "./caller.ts";
import { errorSchema, json } from "./common.ts";

/** What the contract promises and this version does not have yet: each answers 501 and says so. */
const PENDING = {
  "The secret vault": [
    "GET /secrets",
    "POST /secrets",
    "GET /secrets/{id}",
    "PATCH /secrets/{id}",
    "DELETE /secrets/{id}",
  ],
  "The event stream of a run": ["GET /agents/{id}/runs/{run_id}/events"],
} as const;

/** One route definition for each, with what to call it in the answer. */
export const pendingRoutes = Object.entries(PENDING).flatMap(([what, routes]) =>
  routes.map((route) => {
    const [method = "", path = ""] = route.split(" ");
    return {
      what,
      route: createRoute({
        method: method.toLowerCase() as "get",
        path: `/api/v1${path}`,
        tags: ["Not available yet"],
        summary: `${what}: not part of this version`,
        ...needs(),
        responses: { 501: json(errorSchema, "not available yet") },
      }),
    };
  }),
);
