import type { z } from "zod";
import type * as accounts from "../../../src/api/contract/accounts.ts";
import type * as admin from "../../../src/api/contract/admin.ts";
import type * as overall from "../../../src/api/contract/admin-overall.ts";
import type * as adminService from "../../../src/api/contract/admin-service.ts";
import type * as adminUsers from "../../../src/api/contract/admin-users.ts";
import type * as agents from "../../../src/api/contract/agents.ts";
import type * as billing from "../../../src/api/contract/billing.ts";
import type * as completions from "../../../src/api/contract/completions.ts";
import type * as endUsers from "../../../src/api/contract/end-users.ts";
import type * as usage from "../../../src/api/contract/ledger-export.ts";
import type * as models from "../../../src/api/contract/models.ts";
import type * as notices from "../../../src/api/contract/notices.ts";
import type * as oauthSecrets from "../../../src/api/contract/oauth-secrets.ts";
import type * as operators from "../../../src/api/contract/operators.ts";
import type * as payments from "../../../src/api/contract/payments.ts";
import type * as requests from "../../../src/api/contract/requests.ts";
import type * as runNow from "../../../src/api/contract/run-now.ts";
import type * as runs from "../../../src/api/contract/runs.ts";
import type * as schedules from "../../../src/api/contract/schedules.ts";
import type * as secrets from "../../../src/api/contract/secrets.ts";
import type * as signIn from "../../../src/api/contract/sign-in.ts";
import type * as threads from "../../../src/api/contract/threads.ts";
import type * as triggers from "../../../src/api/contract/triggers.ts";
import type * as usageBreakdown from "../../../src/api/contract/usage.ts";
import { ApiError, problemOf } from "./problem.ts";

/**
 * The API client. Its types come from the contract, so a changed contract fails the console's type check. Only types are
 * imported: the bundle contains no service code.
 */

type Contract = typeof accounts &
  typeof admin &
  typeof adminService &
  typeof adminUsers &
  typeof overall &
  typeof operators &
  typeof agents &
  typeof billing &
  typeof completions &
  typeof endUsers &
  typeof usage &
  typeof usageBreakdown &
  typeof models &
  typeof notices &
  typeof oauthSecrets &
  typeof payments &
  typeof requests &
  typeof runNow &
  typeof runs &
  typeof schedules &
  typeof triggers &
  typeof secrets &
  typeof signIn &
  typeof threads;
type Route = Extract<Contract[keyof Contract], { method: string; path: string }>;
type Endpoint = { [R in Route as `${Uppercase<R["method"]>} ${R["path"]}`]: R };
/** Method and path, such as `GET /api/v1/agents/{id}`. */
export type EndpointName = keyof Endpoint;

type Named<T> = keyof { [K in keyof T as string extends K ? never : number extends K ? never : K]: T[K] };
type JsonOf<Response> = Response extends { content: { "application/json": { schema: infer Schema extends z.ZodType } } }
  ? z.output<Schema>
  : undefined;
type Success = 200 | 201 | 202 | 204;

/** An endpoint's successful answer. */
export type Answer<E extends EndpointName> = Endpoint[E] extends { responses: infer Responses }
  ? { [S in Success & Named<Responses>]: JsonOf<Responses[S & keyof Responses]> }[Success & Named<Responses>]
  : never;
type Part<E extends EndpointName, Name extends string> = Endpoint[E] extends {
  request: Record<Name, infer Schema extends z.ZodType>;
}
  ? z.output<Schema>
  : never;
/** An endpoint's request body. */
export type Body<E extends EndpointName> = Endpoint[E] extends {
  request: { body: { content: { "application/json": { schema: infer Schema extends z.ZodType } } } };
}
  ? z.input<Schema>
  : never;

export interface CallOptions<E extends EndpointName> {
  /** Values for the `{names}` in the path. */
  params?: Part<E, "params">;
  query?: Partial<Part<E, "query">>;
  body?: Body<E>;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
}

/** Requests carry the session cookie, or this API key, which only the tab's memory holds. */
let api_key: string | null = null;
export const keyInUse = (): string | null => api_key;
export function signWith(key: string | null): void {
  api_key = key;
}

let onUnauthorized: () => void = () => {};
/** Subscribes to the end of the session. */
export function whenUnauthorized(listener: () => void): void {
  onUnauthorized = listener;
}

let askForPassword: () => Promise<boolean> = async () => false;
let asking: Promise<boolean> | null = null;
/** Subscribes to requests of an operator that need the password again. `ask` resolves to whether it was confirmed. */
export function whenPasswordNeeded(ask: () => Promise<boolean>): () => void {
  askForPassword = ask;
  return () => {
    askForPassword = async () => false;
  };
}

let is_drill = false;
const onDrill = new Set<() => void>();
/** Whether the service is a drill, a restored copy. Each of its answers says so. */
export const isDrill = (): boolean => is_drill;
export function whenDrill(listener: () => void): () => void {
  onDrill.add(listener);
  return () => onDrill.delete(listener);
}

/** One request to the service; throws ApiError. `key` replaces the tab's own key. */
export async function send(path: string, init: RequestInit & { key?: string } = {}): Promise<Response> {
  const { key = api_key, ...request } = init;
  const headers = new Headers(request.headers);
  if (key !== null) headers.set("Authorization", `Bearer ${key}`);
  if (typeof request.body === "string") headers.set("Content-Type", "application/json");
  const response = await fetch(path, {
    ...request,
    headers,
    credentials: key === null ? "same-origin" : "omit",
  }).catch((error: unknown) => {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw ApiError.unreachable();
  });
  if (!is_drill && response.headers.get("Purser-Mode") === "drill") {
    is_drill = true;
    for (const listener of onDrill) listener();
  }
  if (response.ok) return response;
  if (response.status === 401 && init.key === undefined && !path.startsWith("/api/v1/auth/")) onUnauthorized();
  const problem = await problemOf(response);
  if (problem.code === "password_confirmation_required") {
    // Requests that wait for the same dialog go on together.
    asking ??= askForPassword().finally(() => {
      asking = null;
    });
    if (await asking) return send(path, init);
  }
  throw new ApiError(problem);
}

/** A browser reads a file some time after the click that saves it. */
const READ_MS = 60_000;

/** Saves the answer of a request as a file. */
export async function download(path: string, name: string, init: Parameters<typeof send>[1] = {}): Promise<void> {
  const response = await send(path, init);
  saveFile(await response.blob(), name);
}

/** Saves a file in the browser's folder of downloads. */
export function saveFile(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), READ_MS);
}

/** An endpoint's address with its parameters. */
export function addressOf(
  path: string,
  params: Record<string, unknown> = {},
  query: Record<string, unknown> = {},
): string {
  const filled = path.replace(/\{(\w+)\}/g, (_all, name: string) => encodeURIComponent(String(params[name])));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") search.set(name, String(value));
  }
  return search.size === 0 ? filled : `${filled}?${search}`;
}

/** Calls an endpoint of the contract; throws ApiError. */
export async function call<E extends EndpointName>(
  endpoint: E,
  options: CallOptions<E> & { key?: string } = {},
): Promise<Answer<E>> {
  const [method = "GET", path = ""] = endpoint.split(" ");
  const { params, query, body, headers, signal, key } = options;
  const response = await send(addressOf(path, params as Record<string, unknown>, query as Record<string, unknown>), {
    method,
    ...(headers === undefined ? {} : { headers }),
    ...(signal === undefined ? {} : { signal }),
    ...(key === undefined ? {} : { key }),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (response.status === 204) return undefined as Answer<E>;
  // The page of a proxy or of a network's sign-in, or an answer that broke off.
  return response.json().catch((error: unknown) => {
    throw error instanceof DOMException ? error : ApiError.unreachable();
  });
}
