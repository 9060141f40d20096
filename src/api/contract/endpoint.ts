import type { EventFeed, Listener } from "../../platform/net/event-stream.ts";
import type { Caller, LiveCaller, Operator, RequestFacts } from "./caller.ts";
import { failures } from "./common.ts";
import { type RouteDefinition, z } from "./zod.ts";

/**
 * How modules answer requests: a handler takes the validated request and returns an answer as a value. http/server.ts
 * calls it, and http/fastify.ts writes the answer.
 */

/** The validated part of a request, `{}` where the route takes none. */
type PartOf<Route, Part extends "query" | "params" | "headers"> = Route extends {
  request: { [Name in Part]: infer Schema extends z.ZodType };
}
  ? z.output<Schema>
  : Record<string, never>;
type BodyOf<Route> = Route extends {
  request: { body: { content: { "application/json": { schema: infer Schema extends z.ZodType } } } };
}
  ? z.output<Schema>
  : undefined;

/** A request whose caller is admitted. */
export interface RequestContext {
  /** Any header, by its name in lower case. */
  header(name: string): string | undefined;
  /** The body as it was sent, for signatures over it, and its value before validation. */
  sent_body: string;
  sent_value: unknown;
  /** All headers, by their names in lower case. */
  sent_headers: Readonly<Record<string, unknown>>;
  /** The path as it was sent, without the query; `route`: as the reference shows it. */
  path: string;
  route: string;
  method: string;
  caller: Caller;
  /** Under /api/v1/admin/ only. */
  operator: Operator;
  request_id: string;
  /** What the log line says of the request. Handlers add to it. */
  facts: RequestFacts;
  /** Aborted at the end of a shutdown's drain, with the error for the caller. */
  cut_off: AbortSignal;
  /** Watches the caller until the answer ends. */
  watchCaller(): LiveCaller;
  /** Aborted when the caller hangs up. */
  hungUp(): AbortSignal;
  /** Under /api/v1/auth/ only: the session cookie, if one of our own pages sent it. */
  session_token: string | null;
  client_address: string;
  /** Under /api/v1/admin/ only: the user's id. Throws 404 for unknown users, and without `also_erased` for erased ones. */
  findUser(id: string, also_erased?: boolean): Promise<string>;
  /** How the answer is kept for its Idempotency-Key. Handlers may change it. */
  keeping: {
    /** The user whom the request created. Its kept answer is erased with the user. */
    created_user_id?: string;
    /** The request only reads, so its answer is not kept. */
    only_reads?: boolean;
  };
}

/** A request before its validation. */
export interface SentRequest extends RequestContext {
  params: Readonly<Record<string, string>>;
}

/** A request to `Route`, with its validated parts. */
export interface RequestTo<Route = unknown> extends RequestContext {
  query: PartOf<Route, "query">;
  params: PartOf<Route, "params">;
  headers: PartOf<Route, "headers">;
  body: BodyOf<Route>;
}

type Headers = Readonly<Record<string, string>>;

export interface JsonAnswer<Body = unknown, Status extends number = number> {
  kind: "json";
  status: Status;
  body: Body;
  headers?: Headers;
}

/** What a handler returns. */
export type Answer =
  | JsonAnswer
  | { kind: "empty"; status: 204 | 304; headers?: Headers }
  /** Text or bytes at once. */
  | { kind: "bytes"; status: number; headers: Headers; body: string | Uint8Array }
  /** A body that is made while it is sent. */
  | { kind: "parts"; status: number; headers: Headers; parts: AsyncIterable<string | Uint8Array> }
  | { kind: "events"; feed: EventFeed; listener: Listener }
  /** The caller has disconnected. */
  | { kind: "hung_up" };

/** The answers that a route declares, and those that are not JSON. */
export type AnswerOf<Route> = Route extends { responses: infer Responses }
  ?
      | {
          [Status in keyof Responses & number]: Responses[Status] extends {
            content: { "application/json": { schema: infer Schema extends z.ZodType } };
          }
            ? JsonAnswer<z.output<Schema>, Status>
            : never;
        }[keyof Responses & number]
      | Exclude<Answer, JsonAnswer>
  : Answer;

/** A JSON answer, with 200 unless another status is given. */
export function json<Body>(body: Body): JsonAnswer<Body, 200>;
export function json<Body, const Status extends number>(
  body: Body,
  status: Status,
  headers?: Headers,
): JsonAnswer<Body, Status>;
export function json(body: unknown, status = 200, headers?: Headers): JsonAnswer {
  return headers === undefined ? { kind: "json", status, body } : { kind: "json", status, body, headers };
}

/** 204. */
export function noContent(headers?: Headers): Answer & { kind: "empty" } {
  return headers === undefined ? { kind: "empty", status: 204 } : { kind: "empty", status: 204, headers };
}

/** Sends a browser to another page. */
export function redirect(location: string): Answer & { kind: "bytes" } {
  return { kind: "bytes", status: 303, headers: { Location: location, "Cache-Control": "no-store" }, body: "" };
}

/** A stream of events. */
export function events(feed: EventFeed, listener: Listener): Answer & { kind: "events" } {
  return { kind: "events", feed, listener };
}

/** A file made while it is sent: only one part of it is in memory at a time. */
export function csvFile<Part>(
  file: { name: string; head: string; headers?: Headers },
  parts: AsyncIterable<Part> | Iterable<Part>,
  linesOf: (part: Part) => string,
): Answer & { kind: "parts" } {
  async function* texts(): AsyncGenerator<string, undefined> {
    yield file.head;
    for await (const part of parts) yield linesOf(part);
  }
  const headers = {
    "Content-Type": "text/csv; charset=utf-8; header=present",
    "Content-Disposition": `attachment; filename="${file.name}.csv"`,
    "Cache-Control": "no-store",
    ...file.headers,
  };
  return { kind: "parts", status: 200, headers, parts: texts() };
}

/** An answer that a library made for the web's interface. */
export function webAnswer(response: Response): Answer & { kind: "parts" } {
  const { status, headers, body } = response;
  const parts = (body ?? []) as unknown as AsyncIterable<Uint8Array>;
  return { kind: "parts", status, headers: Object.fromEntries(headers), parts };
}

/** A route with its handler. */
export interface Endpoint {
  route: RouteDefinition;
  /** False: the reference leaves it out. */
  is_documented: boolean;
  answer(request: never): Promise<Answer> | Answer;
}

/** The endpoints of a module. */
export interface Router {
  readonly endpoints: Endpoint[];
  /** Adds an endpoint. The handler throws PurserErrors. */
  on<Route extends RouteDefinition>(
    route: Route,
    answer: (request: RequestTo<Route>) => Promise<AnswerOf<Route>> | AnswerOf<Route>,
  ): void;
  /** Adds an endpoint that the reference leaves out: another spelling of one that it has. */
  undocumented<Route extends RouteDefinition>(
    route: Route,
    answer: (request: RequestTo<Route>) => Promise<AnswerOf<Route>> | AnswerOf<Route>,
  ): void;
  /** Adds an endpoint outside the API: health, documents and pages. */
  plain(path: string, answer: (request: RequestContext) => Promise<Answer> | Answer): void;
}

/** A module's router. `app/routes.ts` joins them. */
export function createRouter(): Router {
  const endpoints: Endpoint[] = [];
  return {
    endpoints,
    on: (route, answer) => void endpoints.push({ route, is_documented: route.hide !== true, answer }),
    undocumented: (route, answer) => void endpoints.push({ route, is_documented: false, answer }),
    plain: (path, answer) =>
      void endpoints.push({ route: { method: "get", path, responses: {} }, is_documented: false, answer }),
  };
}

/** The type by which the console calls an operator's route about a user. */
type ForUser<Route extends RouteDefinition, Rest extends string> = Omit<Route, "path" | "request"> & {
  path: `/api/v1/admin/users/{id}/${Rest}`;
  request: Omit<NonNullable<Route["request"]>, "params"> & { params: z.ZodObject<{ id: z.ZodString }> };
};

/**
 * A user's own route for the operator: /api/v1/admin/users/{id}/`rest` has the same query, answers and handler.
 * `also_erased`: what it shows stays when the user is erased.
 */
export function ofUser<const Route extends RouteDefinition, const Rest extends string>(
  route: Route,
  rest: Rest,
  { also_erased = false } = {},
) {
  const { "x-required-scope": _scope, ...shared } = route;
  const { params } = (route.request ?? {}) as { params?: z.ZodObject };
  const of_user = {
    ...shared,
    path: `/api/v1/admin/users/{id}/${rest}`,
    tags: ["Operator"],
    summary: `Of one user: ${route.summary ?? ""}`,
    security: [{ operator_key: [] as string[] }],
    for_user_in_path: also_erased ? "also_erased" : "not_erased",
    request: { ...route.request, params: (params ?? z.object({})).extend({ id: z.string() }) },
    responses: { ...failures(404), ...route.responses },
  };
  return of_user as unknown as ForUser<Route, Rest>;
}

/** Serves a user's own route and the operator's route about a user by one handler. */
export function serveBoth<Route extends RouteDefinition>(
  router: Router,
  { own, operators }: { own: Route; operators: RouteDefinition },
  answer: (request: RequestTo<Route>) => Promise<AnswerOf<Route>> | AnswerOf<Route>,
): void {
  router.on(own, answer);
  router.on(operators, answer as never);
}
