import type { Completions } from "../completions/completions.types.ts";
import { answerCall, shownTypes } from "../completions/endpoint.ts";
import type { Envelopes } from "../completions/reasoning-envelope.ts";
import type { EndpointAnswer, EndpointRequest, HotEndpoint } from "../contract/hot-endpoint.ts";
import {
  compactResponseRoute,
  countResponseTokensRoute,
  createResponseRoute,
  deleteResponseRoute,
  getResponseRoute,
  type InputItem,
  type ResponseRequest,
  responseInputItemsRoute,
} from "../contract/responses.ts";
import { createRouter, type HttpRouter } from "../contract/router.ts";
import { errors } from "../errors.ts";
import { realNowMs } from "../platform/clock.ts";
import { newId } from "../platform/ids.ts";
import type { Log } from "../platform/log.ts";
import type { ItemsStore } from "./items.store.ts";
import { withFunctionItems } from "./local-tools.ts";
import type { ResponsesStore } from "./responses.store.ts";
import { createResponseWriter } from "./responses-answer.ts";
import { chatRequestOf } from "./responses-request.ts";

interface ResponsesDeps {
  completions: Completions;
  items: ItemsStore;
  responses: ResponsesStore;
  envelopes: Envelopes;
  /** Whether the provider of a model takes penalties. */
  takesPenalties(model: string): boolean;
  log: Log;
}

const nowSeconds = () => Math.floor(realNowMs() / 1000);

/** POST /api/v1/responses: OpenAI's Responses API over chat completions. */
export function responseEndpoint(deps: ResponsesDeps): HotEndpoint {
  const { completions, items, responses, envelopes, log } = deps;

  async function answer(http: EndpointRequest, sent: ResponseRequest): Promise<EndpointAnswer> {
    const { request_id } = http;
    const { user_id } = http.caller;
    const own = itemsOf(sent.input);
    const asked = await resolvedRequest(sent, user_id, deps);
    const { request, callees, dropped_tools, paramOf, native } = chatRequestOf(asked, (sealed) =>
      envelopes.open(user_id, sealed),
    );
    if (dropped_tools.length > 0) {
      log.info({ request_id, tools: shownTypes(dropped_tools) }, "tools that OpenAI executes itself were dropped");
    }
    const is_stored = sent.store !== false && (await responses.hasRoom(user_id));
    const writer = createResponseWriter({
      asked,
      callees,
      paramOf,
      created_at: nowSeconds(),
      nowSeconds,
      is_stored,
      takesPenalties: deps.takesPenalties,
      newId,
      seal: (envelope) => envelopes.seal(user_id, envelope),
      keep: async (response) => {
        if (asked.store === false) return;
        const kept = [];
        const is_free = response.usage?.cost_tokens === 0;
        if (!is_free || (await items.hasRoom(user_id))) kept.push(items.keep(user_id, response.output));
        if (is_stored) kept.push(responses.keep(user_id, { body: response, input: own }));
        // The answer is paid for. A later request that refers to a lost item or response is told so.
        await Promise.all(kept).catch((error: Error) => {
          log.warn({ request_id, error }, "a response or its output items were not kept");
        });
      },
    });
    return await answerCall(http, completions, { request, writer, native });
  }
  return { route: createResponseRoute, answer };
}

/** Stored responses: GET, DELETE, their input items; and the count of a request's tokens. */
export function storedResponseRoutes(deps: ResponsesDeps): HttpRouter {
  const { completions, envelopes, responses } = deps;
  const router = createRouter();
  const found = async (user_id: string, id: string) => {
    const stored = await responses.find(user_id, id);
    if (stored === undefined) throw errors.notFound("This response");
    return stored;
  };
  router.openapi(countResponseTokensRoute, async (c) => {
    const caller = c.get("caller");
    const asked = await resolvedRequest(c.req.valid("json"), caller.user_id, deps);
    const { request } = chatRequestOf(asked, (sealed) => envelopes.open(caller.user_id, sealed));
    const input_tokens = await completions.estimate(request, caller);
    return c.json({ object: "response.input_tokens" as const, input_tokens }, 200);
  });
  router.openapi(compactResponseRoute, () => {
    throw errors.invalidValue(
      undefined,
      "Responses are not compacted here. Send a shorter input, or continue with previous_response_id.",
    );
  });
  router.openapi(getResponseRoute, async (c) => {
    const { body } = await found(c.get("caller").user_id, c.req.valid("param").response_id);
    return c.json(body, 200);
  });
  router.openapi(deleteResponseRoute, async (c) => {
    const { response_id: id } = c.req.valid("param");
    if (!(await responses.remove(c.get("caller").user_id, id))) throw errors.notFound("This response");
    return c.json({ id, object: "response" as const, deleted: true as const }, 200);
  });
  router.openapi(responseInputItemsRoute, async (c) => {
    const { limit, order, after } = c.req.valid("query");
    const { input } = await found(c.get("caller").user_id, c.req.valid("param").response_id);
    const named = input as (InputItem & { id: string; type: string })[];
    const ordered = order === "asc" ? named : named.toReversed();
    const at = after === undefined ? -1 : ordered.findIndex(({ id }) => id === after);
    if (after !== undefined && at === -1) {
      throw errors.invalidValue("after", "after is no item of this response. Give the id of one of its items.");
    }
    const data = ordered.slice(at + 1, at + 1 + limit);
    const [first_id = null, last_id = null] = [data[0]?.id, data.at(-1)?.id];
    return c.json({ object: "list" as const, data, first_id, last_id, has_more: ordered.length > at + 1 + limit }, 200);
  });
  return router;
}

/** The request with the conversation before it, and the kept items in place of the references to them. */
async function resolvedRequest(
  sent: ResponseRequest,
  user_id: string,
  { items, responses }: Pick<ResponsesDeps, "items" | "responses">,
): Promise<ResponseRequest> {
  const { previous_response_id: previous } = sent;
  const resolved = await withReferences(sent, (ids) => items.find(user_id, ids));
  if (previous === undefined) return { ...resolved, input: await withFunctionItems(resolved.input) };
  const before = await responses.conversation(user_id, previous);
  if (before === undefined) throw errors.previousResponseNotFound(previous);
  const input = [...before, ...itemsOf(resolved.input)] as InputItem[];
  return { ...resolved, input: await withFunctionItems(input) };
}

/** The input as items, each with an id and a type, as they are stored. */
function itemsOf(input: ResponseRequest["input"]): InputItem[] {
  const items = typeof input === "string" ? [{ role: "user" as const, content: input }] : input;
  return items.map((item) => {
    const { id, type } = item as { id?: unknown; type?: unknown };
    const of_type = type == null ? { type: "message" } : {};
    return { ...item, ...of_type, id: typeof id === "string" && id !== "" ? id : `msg_${newId()}` } as InputItem;
  });
}

/** Puts the kept items in place of the references to them. */
async function withReferences(
  asked: ResponseRequest,
  find: (ids: string[]) => Promise<ReadonlyMap<string, InputItem>>,
): Promise<ResponseRequest> {
  const { input } = asked;
  if (typeof input === "string") return asked;
  const idOf = (item: InputItem) => (item.type === "item_reference" ? (item as unknown as { id: string }).id : null);
  const ids = input.flatMap((item) => idOf(item) ?? []);
  if (ids.length === 0) return asked;
  // Each kept item may be large, so a repeated reference would make a small request a huge one.
  if (new Set(ids).size < ids.length) throw errors.invalidValue("input", "input refers to one item more than once.");
  const kept = await find(ids);
  const resolved = input.map((item, index) => {
    const id = idOf(item);
    const found = id === null ? item : kept.get(id);
    if (found !== undefined) return found;
    throw errors.invalidValue(
      `input[${index}].id`,
      `input[${index}].id is not an item of the last 24 hours. Send the item itself; with store: false clients do.`,
    );
  });
  return { ...asked, input: resolved };
}
