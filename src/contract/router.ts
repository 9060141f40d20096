import { OpenAPIHono, type RouteConfig, type z } from "@hono/zod-openapi";
import type { HttpEnv } from "./caller.ts";
import { validationError } from "./validation.ts";

export type HttpRouter = OpenAPIHono<HttpEnv>;

/** A router whose validation failures are the API's errors. Each module fills one; `routes.ts` joins them. */
export function createRouter(): HttpRouter {
  const router = new OpenAPIHono<HttpEnv>();
  const { openapi } = router;
  const checked: typeof openapi = (route, handler) =>
    openapi(route, handler, (result) => {
      if (result.success) return;
      const { target, error, data } = result as typeof result & { data?: unknown };
      throw validationError(error.issues as never, data, schemaOf(route, target));
    });
  return Object.assign(router, { openapi: checked });
}

/** What a part of a request has to be. */
function schemaOf({ request }: RouteConfig, target: string): z.ZodType {
  const part = { query: request?.query, param: request?.params, header: request?.headers }[target];
  const body = request?.body?.content["application/json"] as { schema?: unknown } | undefined;
  return (part ?? body?.schema) as z.ZodType;
}
