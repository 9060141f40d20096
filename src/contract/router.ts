import { OpenAPIHono } from "@hono/zod-openapi";
import type { HttpEnv } from "./caller.ts";
import { validationError } from "./validation.ts";

export type HttpRouter = OpenAPIHono<HttpEnv>;

/** A router whose validation failures are the API's errors. Each room fills one; `app.ts` joins them. */
export function createRouter(): HttpRouter {
  return new OpenAPIHono<HttpEnv>({
    defaultHook: (result) => {
      if (!result.success) throw validationError(result.error.issues as never, (result as { data?: unknown }).data);
    },
  });
}
