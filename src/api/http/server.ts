import { errors } from "../../kernel/errors.ts";
import type { PublicAddress } from "../../platform/net/public-address.ts";
import type { DatabaseState } from "../../platform/telemetry/operation-metrics.ts";
import { type Caller, type LiveCaller, type Operator, SCOPES } from "../contract/caller.ts";
import { type Answer, type Endpoint, noContent, type SentRequest } from "../contract/endpoint.ts";
import { modelApiOf } from "../contract/model-apis.ts";
import { HOOK } from "../contract/triggers.ts";
import { validateRequest } from "../contract/validation.ts";
import { readBody, SIGN_IN } from "./body.ts";
import { createBodyBudget } from "./body-budget.ts";
import { rejectForwardedWrite } from "./client-address.ts";
import type { ConsolePages } from "./console-pages.ts";
import { credentialOf } from "./credential.ts";
import { errorAnswer } from "./error-response.ts";
import { httpErrors } from "./errors.ts";
import { type Exchange, hangUpOf, isPage } from "./exchange.ts";
import { askedOf } from "./failed-calls.ts";
import { type HttpApp, type ServerOptions, serveEndpoints } from "./fastify.ts";
import { createEdge, createGuard, type EdgeOptions, type GuardOptions } from "./guard.ts";
import type { IdempotencyStore } from "./idempotency.store.ts";
import { createIdempotency } from "./idempotency.ts";
import { createLiveCallers, watchCaller } from "./live-callers.ts";
import { allowOrigins, rejectOtherOrigins, sessionToken } from "./origins.ts";
import { commonHeaders, SECURITY_HEADERS } from "./security-headers.ts";
import { createWrongAddress } from "./wrong-address.ts";

const API = "/api/v1/";
const READS = new Set(["GET", "HEAD", "OPTIONS"]);
/** They write nothing, so they work on a full disk too. */
const READING_POSTS = new Set([
  "/api/v1/messages/count_tokens",
  "/api/v1/responses/input_tokens",
  "/api/v1/safety/sanitize",
]);

/** What the public port of every node needs, also of one that serves no API. */
interface PublicOptions extends ServerOptions, EdgeOptions {
  address: PublicAddress;
  /** A restored copy, which says so in every answer. */
  is_drill: boolean;
}

export interface HttpOptions extends PublicOptions, GuardOptions {
  address: PublicAddress;
  /** Origins whose pages may call the API with a key. */
  cors_origins: readonly string[];
  /** Returns the id of a user. Throws 404 for unknown users, and without `also_erased` for erased ones. */
  findUser(id: string, also_erased?: boolean): Promise<string>;
  idempotency: IdempotencyStore;
  /** A reload replaces them. */
  limits(): {
    requests_per_minute: number;
    session_requests_per_minute: number;
    body_bytes: number;
    model_body_bytes: number;
  };
  databaseState(): DatabaseState;
  /** Aborted at the end of a shutdown's drain, with the error for callers. */
  cut_off: AbortSignal;
  /** The beginnings of paths that only people on this machine may write to. */
  local_writes: readonly string[];
}

/** The API, the reference and the console. The functions in it are the steps of a request, in their order. */
export function createHttp(options: HttpOptions, endpoints: readonly Endpoint[], pages: ConsolePages): HttpApp {
  const { log, cut_off, cors_origins, findUser } = options;
  const edge = createEdge(options);
  const guard = createGuard(options, edge);
  const callers = createLiveCallers(cut_off);
  const shareOf = createBodyBudget();
  const answerOnce = createIdempotency({ store: options.idempotency, log });
  const wrongAddress = createWrongAddress(endpoints);

  async function answerRequest(exchange: Exchange): Promise<Answer> {
    const { method, route, endpoint } = exchange;
    const is_call = route.startsWith(API) || route === HOOK;
    const is_preflight = method === "OPTIONS" && cors_origins.length > 0;
    // The guard admits calls.
    if (!is_call || is_preflight) await edge.admitWithoutKey(exchange);
    rejectNul(exchange);
    if (allowOrigins(cors_origins, exchange)) return noContent();
    if (is_call) return answerCall(exchange);
    if (endpoint !== null) return endpoint.answer(exchange as never);
    const page = pages(exchange);
    if (page === null) throw wrongAddress(exchange);
    return page;
  }

  /** Answers a call of the API. The caller is known before the body is read. */
  async function answerCall(exchange: Exchange): Promise<Answer> {
    const { method, path, route, endpoint, incoming, outgoing, params, header, request_id, facts, head } = exchange;
    if (options.local_writes.some((beginning) => route.startsWith(beginning))) rejectForwardedWrite(exchange);
    const may_write = !READS.has(method) && !READING_POSTS.has(route);
    if (may_write && options.databaseState() === "disk_full") throw httpErrors.diskFull();
    const is_whole = incoming.complete;
    const { caller, operator } = await guard.admit(exchange);
    if (endpoint === null) throw wrongAddress(exchange);

    const client_address = caller === null ? edge.clientAddress(exchange) : "";
    const user_id = caller?.user_id ?? "";
    const share = shareOf(caller === null ? client_address : user_id);
    const watched: LiveCaller[] = [];
    let is_stream = false;
    try {
      const body = await readBody(exchange, options.limits(), share);
      // The caller may have lost access while the body arrived.
      if (!is_whole) await guard.check(exchange);
      if (modelApiOf(route) !== null) facts.asked = askedOf(body.value);
      const is_sign_in = route.startsWith(SIGN_IN);
      if (is_sign_in) {
        rejectOtherOrigins(exchange, options.address);
        head["Cache-Control"] = "no-store";
      }
      const request: SentRequest = {
        method,
        path,
        route,
        params,
        header,
        sent_body: body.text,
        sent_value: body.value,
        sent_headers: incoming.headers,
        caller: caller as Caller,
        operator: operator as Operator,
        request_id,
        facts,
        cut_off,
        watchCaller() {
          const live = watchCaller(callers, { user_id, credential: credentialOf(exchange, options) }, facts);
          watched.push(live);
          return live;
        },
        hungUp: () => hangUpOf(outgoing),
        session_token: is_sign_in ? sessionToken(exchange, options.address) : null,
        client_address,
        findUser,
        keeping: {},
      };
      const answer = await answerOnce(
        request,
        () => callEndpoint(endpoint, request, { query: exchange.query, headers: incoming.headers }),
        (thrown) => errorAnswer(thrown, exchange, log),
      );
      is_stream = answer.kind === "events";
      return answer;
    } finally {
      share.release();
      // A stream ends its watch itself.
      if (!is_stream) for (const live of watched) live.leave();
    }
  }

  /** Calls the endpoint, if the caller may and the request is valid. */
  async function callEndpoint(
    endpoint: Endpoint,
    request: SentRequest,
    { query, headers }: { query: unknown; headers: unknown },
  ): Promise<Answer> {
    const { route } = endpoint;
    const { params, sent_value: body, facts } = request;
    requireScope(endpoint, request.caller);
    const whom = route.for_user_in_path;
    const caller = whom === undefined ? request.caller : await userInPath(params, whom);
    if (caller !== null) facts.user_id = caller.user_id;
    const valid = validateRequest(route, { params, query, headers, body });
    return endpoint.answer({ ...request, caller, ...valid } as never);
  }

  /** The user in the path of an operator's route, with every right. */
  async function userInPath({ id = "" }: Record<string, string>, whom: "not_erased" | "also_erased"): Promise<Caller> {
    const user_id = await findUser(id, whom === "also_erased");
    return { user_id, api_key_id: null, key_budget_tokens: null, scopes: SCOPES };
  }

  return serveEndpoints({ options, endpoints, security_headers: publicHeaders(options) }, answerRequest);
}

/** The server of a node that serves no API. */
export function createWorkerHttp(options: PublicOptions, endpoints: readonly Endpoint[]): HttpApp {
  const edge = createEdge(options);
  return serveEndpoints({ options, endpoints, security_headers: publicHeaders(options) }, async (exchange) => {
    await edge.admitWithoutKey(exchange);
    rejectNul(exchange);
    const { endpoint } = exchange;
    if (endpoint === null) throw errors.unknown("The API", "PURSER_ROLE is worker here: ask another node.");
    return endpoint.answer(exchange as never);
  });
}

/** The server at PURSER_METRICS_ADDRESS: only health and metrics. */
export function createProbesHttp(options: ServerOptions, endpoints: readonly Endpoint[]): HttpApp {
  return serveEndpoints({ options, endpoints, security_headers: SECURITY_HEADERS }, (exchange) => {
    const { endpoint, path } = exchange;
    if (endpoint === null) throw errors.unknown(path, "Health and metrics are served here.");
    return endpoint.answer(exchange as never);
  });
}

function publicHeaders({ address, is_drill }: PublicOptions): Readonly<Record<string, string>> {
  return commonHeaders({ is_https: address.secure, is_drill });
}

/** contract 2: the database stores no NUL, so no address with one exists. A browser gets the console's page. */
function rejectNul(exchange: Exchange): void {
  if (exchange.path.includes("%00") && !isPage(exchange)) throw httpErrors.nulInPath();
}

function requireScope({ route }: Endpoint, caller: Caller | null): void {
  const scope = route["x-required-scope"] as Caller["scopes"][number] | undefined;
  if (scope === undefined || caller === null) return;
  if (!caller.scopes.includes(scope)) throw httpErrors.insufficientScope(scope);
}
