import { createRouter, json, type Router } from "../../api/contract/endpoint.ts";
import {
  compactResponseRoute,
  countResponseTokensRoute,
  createResponseRoute,
  deleteResponseRoute,
  getResponseRoute,
  type InputItem,
  type ResponseRequest,
  responseInputItemsRoute,
} from "../../api/contract/responses.ts";
import { gatewayErrors } from "../../gateway/models/errors.ts";
import { errors } from "../../kernel/errors.ts";
import { realNowMs } from "../../platform/lib/clock.ts";
import { newId } from "../../platform/lib/ids.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { Completions } from "../completions/completions.types.ts";
import { answerCall, shownTypes } from "../completions/endpoint.ts";
import type { Envelopes, OpenEnvelope } from "../completions/reasoning-envelope.ts";
import type { ItemsStore } from "./items.store.ts";
import { withFunctionItems } from "./local-tools.ts";
import type { ResponsesStore } from "./responses.store.ts";
import type { ResponseContext } from "./responses.types.ts";
import { createResponseWriter } from "./responses-answer.ts";
import { toChatRequest } from "./responses-request.ts";
import { listedItem, type StoredItem, storedItems } from "./stored-items.ts";

interface ResponsesDeps {
  completions: Completions;
  items: ItemsStore;
  responses: ResponsesStore;
  envelopes: Envelopes;
  takes: ResponseContext["takes"];
  log: Log;
}

const nowSeconds = () => Math.floor(realNowMs() / 1000);

/** OpenAI's Responses API over chat completions, and its stored responses. */
export function responseRoutes(deps: ResponsesDeps): Router {
  const { completions, items, responses, envelopes, log } = deps;
  const router = createRouter();
  router.on(createResponseRoute, async (http) => {
    const sent: ResponseRequest = http.body;
    const { request_id } = http;
    const { user_id } = http.caller;
    const { asked, own, inherited } = await resolvedRequest(sent, user_id, deps);
    const open: OpenEnvelope = (sealed) => envelopes.open(user_id, sealed);
    const { request, callees, dropped_tools, paramOf, native } = toChatRequest(asked, open, {
      inherited,
      takes: deps.takes,
    });
    if (dropped_tools.length > 0) {
      log.info({ request_id, tools: shownTypes(dropped_tools) }, "tools that OpenAI executes itself were dropped");
    }
    const writer = createResponseWriter({
      asked,
      callees,
      paramOf,
      created_at: nowSeconds(),
      nowSeconds,
      takes: deps.takes,
      newId,
      seal: (envelope) => envelopes.seal(user_id, envelope),
      keep: async (response) => {
        if (asked.store === false) return false;
        const is_free = response.usage?.cost_tokens === 0;
        // The answer is paid for. A later request that refers to a lost item or response is told so.
        const lost = (error: Error): false => {
          log.warn({ request_id, error }, "a response or its output items were not kept");
          return false;
        };
        const [is_kept] = await Promise.all([
          responses.keep(user_id, { body: response, input: own }).catch(lost),
          items.keep(user_id, response.output, { is_free }).catch(lost),
        ]);
        return is_kept;
      },
    });
    return await answerCall(http, completions, { request, writer, native });
  });
  const found = async (user_id: string, id: string) => {
    const stored = await responses.find(user_id, id);
    if (stored === undefined) throw errors.notFound("This response");
    return stored;
  };
  router.on(countResponseTokensRoute, async ({ caller, body }) => {
    const { asked, inherited } = await resolvedRequest(body, caller.user_id, deps);
    const open: OpenEnvelope = (sealed) => envelopes.open(caller.user_id, sealed);
    const { request } = toChatRequest(asked, open, { inherited, takes: deps.takes });
    const input_tokens = await completions.estimate(request, caller);
    return json({ object: "response.input_tokens" as const, input_tokens });
  });
  router.on(compactResponseRoute, () => {
    throw errors.invalidValue(
      undefined,
      "Responses are not compacted here. Send a shorter input, or continue with previous_response_id.",
    );
  });
  router.on(getResponseRoute, async ({ caller, params }) => {
    const { body } = await found(caller.user_id, params.response_id);
    return json(body);
  });
  router.on(deleteResponseRoute, async ({ caller, params }) => {
    const { response_id: id } = params;
    if (!(await responses.remove(caller.user_id, id))) throw errors.notFound("This response");
    return json({ id, object: "response" as const, deleted: true as const });
  });
  router.on(responseInputItemsRoute, async ({ caller, params, query }) => {
    const { limit, order, after } = query;
    const { input } = await found(caller.user_id, params.response_id);
    const ordered = order === "asc" ? input : input.toReversed();
    const at = after === undefined ? -1 : ordered.findIndex(({ id }) => id === after);
    if (after !== undefined && at === -1) {
      throw errors.invalidValue("after", "after is no item of this response. Give the id of one of its items.");
    }
    const data = ordered.slice(at + 1, at + 1 + limit).map(listedItem);
    const [first_id = null, last_id = null] = [data[0]?.id, data.at(-1)?.id];
    return json({ object: "list" as const, data, first_id, last_id, has_more: ordered.length > at + 1 + limit });
  });
  return router;
}

interface ResolvedRequest {
  /** With the conversation before it, and with the kept items in place of the references to them. */
  asked: ResponseRequest;
  /** The items of this request alone. */
  own: StoredItem[];
  /** How many items of `asked.input` are of the responses before. */
  inherited: number;
}

async function resolvedRequest(
  sent: ResponseRequest,
  user_id: string,
  { items, responses }: Pick<ResponsesDeps, "items" | "responses">,
): Promise<ResolvedRequest> {
  const { previous_response_id: previous } = sent;
  const resolved = await withReferences(sent, (ids) => items.find(user_id, ids));
  const own = storedItems(resolved.input);
  if (previous === undefined) {
    return { asked: { ...resolved, input: await withFunctionItems(resolved.input) }, own, inherited: 0 };
  }
  const before = await responses.conversation(user_id, previous);
  if (before === undefined) throw gatewayErrors.previousResponseNotFound(previous);
  const input = await withFunctionItems([...before, ...own]);
  return { asked: { ...resolved, input }, own, inherited: before.length };
}

/** Puts the kept items in place of the references to them. */
async function withReferences(
  asked: ResponseRequest,
  find: (ids: string[]) => Promise<ReadonlyMap<string, InputItem>>,
): Promise<ResponseRequest> {
  const { input } = asked;
  if (typeof input === "string") return asked;
  const getId = (item: InputItem) => (item.type === "item_reference" ? (item as unknown as { id: string }).id : null);
  const ids = input.flatMap((item) => getId(item) ?? []);
  if (ids.length === 0) return asked;
  // Each kept item may be large, so a repeated reference would make a small request a huge one.
  if (new Set(ids).size < ids.length) throw errors.invalidValue("input", "input refers to one item more than once.");
  const kept = await find(ids);
  const resolved = input.map((item, index) => {
    const id = getId(item);
    const found = id === null ? item : kept.get(id);
    if (found !== undefined) return found;
    throw errors.invalidValue(
      `input[${index}].id`,
      `input[${index}].id is not a stored item, or not any more. Send the item itself; with store: false clients do.`,
    );
  });
  return { ...asked, input: resolved };
}
