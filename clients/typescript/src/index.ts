import { EventSourceParserStream } from "eventsource-parser/stream";
import type { components, paths } from "./openapi.ts";
import { isRetryable, waitBeforeRetry } from "./retry.ts";

/** A thin client of Purser's API. Its types are generated from the OpenAPI document of the same version. */

export type Schemas = components["schemas"];
type Method = "get" | "post" | "put" | "patch" | "delete";
/** The paths that have an operation of this method. */
type PathsOf<M extends Method> = {
  [P in keyof paths]: paths[P] extends Record<M, { responses: unknown }> ? P : never;
}[keyof paths];
type OperationAt<P extends keyof paths, M extends Method> = paths[P] extends Record<M, infer Found> ? Found : never;
type JsonOf<Answer> = Answer extends { content: { "application/json": infer Body } } ? Body : never;
/** The JSON of the answer that succeeds; undefined if it has no body. */
type AnswerOf<O> = O extends { responses: infer Answers }
  ? { [Status in keyof Answers]: Status extends 200 | 201 | 202 ? JsonOf<Answers[Status]> : never }[keyof Answers]
  : never;
type BodyOf<O> = O extends { requestBody: { content: { "application/json": infer Body } } }
  ? { body: Body }
  : O extends { requestBody?: { content: { "application/json": infer Body } } }
    ? { body?: Body }
    : { body?: never };
type PathOf<O> = O extends { parameters: { path: infer Path } } ? { path: Path } : { path?: never };
type QueryOf<O> = O extends { parameters: { query?: infer Query } } ? { query?: Query } : { query?: never };

/** What any call may have beside its own fields. */
export interface Common {
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Of a POST: a repetition with the same key gets the first answer. Absent: a new one for each call. */
  idempotencyKey?: string;
}
type OptionsOf<O> = Common & BodyOf<O> & PathOf<O> & QueryOf<O>;
/** The options may be left out if none of them is required. */
type Args<O> = Record<never, never> extends OptionsOf<O> ? [options?: OptionsOf<O>] : [options: OptionsOf<O>];
/** An entry of a list. */
type ItemOf<Page> = { [Name in keyof Page]: Page[Name] extends (infer Item)[] ? Item : never }[keyof Page];
type Call<M extends Method> = <P extends PathsOf<M>>(
  path: P,
  ...args: Args<OperationAt<P, M>>
) => Promise<AnswerOf<OperationAt<P, M>>>;
type List<Result extends "pages" | "items"> = <P extends PathsOf<"get">>(
  path: P,
  ...args: Args<OperationAt<P, "get">>
) => AsyncGenerator<
  Result extends "pages" ? AnswerOf<OperationAt<P, "get">> : ItemOf<AnswerOf<OperationAt<P, "get">>>,
  undefined
>;

/** An event of a stream: `data` is its JSON. */
export interface StreamEvent {
  event: string | null;
  id: string | null;
  // biome-ignore lint/suspicious/noExplicitAny: each endpoint has its own events; Schemas names their types
  data: any;
}

export interface Settings {
  /** The service's address, such as `https://purser.example.com`. */
  baseUrl: string;
  apiKey: string;
  /** How often a failed call is repeated; 2 unless given. */
  maxRetries?: number;
  /** In place of the global `fetch`. */
  fetch?: typeof fetch;
}

/** An answer that is no success. `body` is its JSON, if it is JSON. */
export class PurserError extends Error {
  readonly status: number;
  readonly code: string | null;
  readonly param: string | null;
  readonly requestId: string | null;
  readonly headers: Headers;
  readonly body: unknown;
  constructor({ status, headers }: Response, body: unknown) {
    const { error } = (body ?? {}) as { error?: { code?: string; message?: string; param?: string | null } };
    super(error?.message ?? `The service answered ${status}`);
    this.name = "PurserError";
    this.status = status;
    this.code = error?.code ?? null;
    this.param = error?.param ?? null;
    this.requestId = headers.get("x-request-id");
    this.headers = headers;
    this.body = body;
  }
}

/** The options of any call, as the functions below read them. */
interface AnyOptions extends Common {
  body?: unknown;
  path?: Record<string, unknown>;
  query?: Record<string, unknown>;
}

export interface Client {
  get: Call<"get">;
  post: Call<"post">;
  put: Call<"put">;
  patch: Call<"patch">;
  delete: Call<"delete">;
  /** All pages of a list, as they are asked for. */
  pages: List<"pages">;
  /** All entries of a list. */
  items: List<"items">;
  /** The events of a POST with `stream: true`, until its end. */
  stream: <P extends PathsOf<"post">>(
    path: P,
    ...args: Args<OperationAt<P, "post">>
  ) => AsyncGenerator<StreamEvent, undefined>;
  /** The events of a GET. A connection that breaks is opened again after the last event. */
  follow: <P extends PathsOf<"get">>(
    path: P,
    ...args: Args<OperationAt<P, "get">>
  ) => AsyncGenerator<StreamEvent, undefined>;
  /** Any request to the service, with its key and its retries; for what the types do not know. */
  request: (method: string, path: string, options?: AnyOptions) => Promise<Response>;
}

export function createClient(settings: Settings): Client {
  const { baseUrl, apiKey, maxRetries = 2 } = settings;
  const send = settings.fetch ?? fetch;

  async function request(method: string, path: string, options: AnyOptions = {}): Promise<Response> {
    const { signal = null } = options;
    const address = addressOf(baseUrl, path, options);
    const headers = headersOf(method, options);
    headers.set("Authorization", `Bearer ${apiKey}`);
    const init = { method, signal, headers, ...(options.body !== undefined && { body: JSON.stringify(options.body) }) };
    for (let attempt = 0; ; attempt += 1) {
      const answer = await send(address, init).catch((error: Error) => error);
      if (!(answer instanceof Error) && answer.ok) return answer;
      signal?.throwIfAborted();
      if (attempt < maxRetries && isRetryable(answer)) {
        if (!(answer instanceof Error)) await answer.body?.cancel();
        await waitBeforeRetry(answer, { attempt, signal });
        continue;
      }
      if (answer instanceof Error) throw answer;
      throw new PurserError(answer, await answer.json().catch(() => null));
    }
  }

  const call = (method: string) => async (path: string, options?: AnyOptions) => {
    const answer = await request(method, path, options);
    return answer.status === 204 ? undefined : answer.json();
  };
  const get = call("GET");

  async function* pages(path: string, options: AnyOptions = {}): AsyncGenerator<Record<string, unknown>, undefined> {
    for (let cursor: unknown = options.query?.cursor; ; ) {
      const query = { ...options.query, ...(cursor === undefined ? {} : { cursor }) };
      const page: Record<string, unknown> = await get(path, { ...options, query });
      yield page;
      cursor = page.next_cursor;
      if (typeof cursor !== "string") return;
    }
  }

  async function* items(path: string, options?: AnyOptions): AsyncGenerator<unknown, undefined> {
    // The list that goes on is the last one: grouped usage has its days before.
    for await (const page of pages(path, options)) yield* Object.values(page).findLast(Array.isArray) ?? [];
  }

  async function* stream(path: string, options: AnyOptions = {}): AsyncGenerator<StreamEvent, undefined> {
    const body = { ...(options.body as object), stream: true };
    yield* eventsOf(await request("POST", path, { ...options, body }));
  }

  async function* follow(path: string, options: AnyOptions = {}): AsyncGenerator<StreamEvent, undefined> {
    let last: string | null = null;
    for (let failures = 0; ; ) {
      const resume: Record<string, string> = last === null ? {} : { "Last-Event-ID": last };
      const answer = await request("GET", path, { ...options, headers: { ...options.headers, ...resume } });
      // No events are left.
      if (answer.status === 204) return;
      try {
        for await (const event of eventsOf(answer)) {
          last = event.id ?? last;
          failures = 0;
          yield event;
        }
      } catch (error) {
        options.signal?.throwIfAborted();
        failures += 1;
        if (failures > maxRetries) throw error;
        await waitBeforeRetry(error as Error, { attempt: failures - 1, signal: options.signal ?? null });
      }
    }
  }

  const untyped = {
    ...{ get, post: call("POST"), put: call("PUT"), patch: call("PATCH"), delete: call("DELETE") },
    ...{ pages, items, stream, follow, request },
  };
  return untyped as unknown as Client;
}

function addressOf(baseUrl: string, path: string, { path: names = {}, query = {} }: AnyOptions): URL {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(names[name])));
  const address = new URL(`${baseUrl.replace(/\/+$/, "")}${filled}`);
  for (const [name, value] of Object.entries(query)) {
    for (const [key, text] of paramsOf(name, value)) address.searchParams.append(key, text);
  }
  return address;
}

/** A list is repeated; the fields of an object are `metadata[team]`. */
function paramsOf(name: string, value: unknown): [string, string][] {
  if (Array.isArray(value)) return value.flatMap((each) => paramsOf(name, each));
  if (value === undefined) return [];
  if (value instanceof Date) return [[name, value.toISOString()]];
  if (typeof value !== "object" || value === null) return [[name, String(value)]];
  return Object.entries(value).flatMap(([field, each]) => paramsOf(`${name}[${field}]`, each));
}

function headersOf(method: string, { headers, idempotencyKey, body }: AnyOptions): Headers {
  const all = new Headers(headers);
  if (body !== undefined) all.set("Content-Type", "application/json");
  // Every try of a call has one key, so that a POST is done once.
  if (method === "POST") all.set("Idempotency-Key", idempotencyKey ?? crypto.randomUUID());
  return all;
}

async function* eventsOf({ body }: Response): AsyncGenerator<StreamEvent, undefined> {
  if (body === null) return;
  const events = body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream());
  for await (const { event = null, id = null, data } of events) {
    if (data === "[DONE]") return;
    yield { event, id, data: JSON.parse(data) };
  }
}
