import { createRoute, OpenAPIHono, type RouteConfig, type RouteHandler, z } from "@hono/zod-openapi";
import type { MiddlewareHandler } from "hono";
import { type HttpEnv, SCOPES } from "./caller.ts";
import { failures } from "./common.ts";
import { rejectUnknownParameters, validationError } from "./validation.ts";

export type HttpRouter = OpenAPIHono<HttpEnv>;

/** A router whose validation failures are the API's errors. Each module fills one; `routes.ts` joins them. */
export function createRouter(): HttpRouter {
  const router = new OpenAPIHono<HttpEnv>();
  const { openapi } = router;
  const checked: typeof openapi = (route, handler) => {
    const { query } = route.request ?? {};
    const answer = (c: Parameters<typeof handler>[0], next: Parameters<typeof handler>[1]) => {
      // A sign-in's server adds parameters of its own when it sends the browser back.
      if (route.hide !== true) rejectUnknownParameters(query as z.ZodType, Object.keys(c.req.query()));
      return handler(c, next);
    };
    return openapi(route, answer as typeof handler, (result) => {
      if (result.success) return;
      const { target, error, data } = result as typeof result & { data?: unknown };
      throw validationError(error.issues as never, data, schemaOf(route, target));
    });
  };
  return Object.assign(router, { openapi: checked });
}

/**
 * The validated body of a request to `route`, as Hono's routes see it. A short one is validated synchronously, which
 * takes half the time. Throws the API's error.
 */
export async function validatedBody(
  route: RouteConfig,
  { value, is_short }: { value: unknown; is_short: boolean },
): Promise<unknown> {
  const schema = schemaOf(route, "json");
  const result = is_short ? schema.safeParse(value) : await schema.safeParseAsync(value);
  if (result.success) return result.data;
  throw validationError(result.error.issues as never, value, schema);
}

/** What a part of a request has to be. */
function schemaOf({ request }: RouteConfig, target: string): z.ZodType {
  const part = { query: request?.query, param: request?.params, header: request?.headers }[target];
  const body = request?.body?.content["application/json"] as { schema?: unknown } | undefined;
  return (part ?? body?.schema) as z.ZodType;
}

/** Makes the user in the path the caller of an operator's route, so that it can have the handler of the user's own. */
const asUserInPath =
  (also_erased: boolean): MiddlewareHandler<HttpEnv> =>
  async (c, next) => {
    const user_id = await c.get("findUser")(c.req.param("id") ?? "", also_erased);
    c.set("caller", { user_id, api_key_id: null, key_budget_tokens: null, scopes: SCOPES });
    await next();
  };

/** The type by which the console calls such a route. */
type OfUser<Route extends RouteConfig, Rest extends string> = Omit<Route, "path" | "request"> & {
  path: `/api/v1/admin/users/{id}/${Rest}`;
  request: Omit<NonNullable<Route["request"]>, "params"> & { params: z.ZodObject<{ id: z.ZodString }> };
};

/**
 * A user's own route for the operator: /api/v1/admin/users/{id}/`rest` has the same query, answers and handler.
 * `also_erased`: what it shows stays when the user is erased.
 */
export function ofUser<const Route extends RouteConfig, const Rest extends string>(
  route: Route,
  rest: Rest,
  { also_erased = false } = {},
) {
  const { "x-required-scope": _scope, ...shared } = route as Route & { "x-required-scope"?: string };
  const { params } = (route.request ?? {}) as { params?: z.ZodObject };
  return createRoute({
    ...(shared as Route),
    path: `/api/v1/admin/users/{id}/${rest}`,
    tags: ["Operator"],
    summary: `Of one user: ${route.summary ?? ""}`,
    security: [{ operator_key: [] as string[] }],
    middleware: [asUserInPath(also_erased)],
    request: { ...route.request, params: (params ?? z.object({})).extend({ id: z.string() }) },
    responses: { ...failures(404), ...route.responses },
  }) as unknown as OfUser<Route, Rest>;
}

/** Serves a user's own route and the operator's route about a user by one handler. */
export function serveBoth<Route extends RouteConfig>(
  router: HttpRouter,
  { own, operators }: { own: Route; operators: RouteConfig },
  handler: RouteHandler<Route, HttpEnv>,
): void {
  router.openapi(own, handler);
  router.openapi(operators, handler as never);
}

/** A body that is made while it is sent. */
export function textStream(texts: AsyncGenerator<string, unknown>): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await texts.next();
      if (done === true) controller.close();
      else controller.enqueue(Buffer.from(value as string));
    },
    async cancel() {
      await texts.return(undefined);
    },
  });
}

/** Streams a CSV file: only one part of it is in memory at a time. */
export function csvAnswer<Part>(
  name: string,
  head: string,
  parts: AsyncIterable<Part>,
  linesOf: (part: Part) => string,
): Response {
  async function* texts(): AsyncGenerator<string, undefined> {
    yield head;
    for await (const part of parts) yield linesOf(part);
  }
  return new Response(textStream(texts()), {
    headers: {
      "Content-Type": "text/csv; charset=utf-8; header=present",
      "Content-Disposition": `attachment; filename="${name}.csv"`,
      "Cache-Control": "no-store",
    },
  });
}
