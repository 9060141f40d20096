import type { Completions } from "../completions/completions.types.ts";
import { answerCall, shownTypes } from "../completions/endpoint.ts";
import type { Envelopes } from "../completions/reasoning-envelope.ts";
import type { EndpointAnswer, EndpointRequest, HotEndpoint } from "../contract/hot-endpoint.ts";
import { createResponseRoute, type InputItem, type ResponseRequest } from "../contract/responses.ts";
import { errors } from "../errors.ts";
import { realNowMs } from "../platform/clock.ts";
import { newId } from "../platform/ids.ts";
import type { Log } from "../platform/log.ts";
import type { ItemsStore } from "./items.store.ts";
import { withFunctionItems } from "./local-tools.ts";
import { createResponseWriter } from "./responses-answer.ts";
import { chatRequestOf } from "./responses-request.ts";

/** POST /api/v1/responses: OpenAI's Responses API over chat completions. */
export function responseEndpoint(deps: {
  completions: Completions;
  items: ItemsStore;
  envelopes: Envelopes;
  log: Log;
}): HotEndpoint {
  const { completions, items, envelopes, log } = deps;

  async function answer(http: EndpointRequest, sent: ResponseRequest): Promise<EndpointAnswer> {
    const { request_id } = http;
    const { user_id } = http.caller;
    const resolved = await withReferences(sent, (ids) => items.find(user_id, ids));
    const asked = { ...resolved, input: await withFunctionItems(resolved.input) };
    const { request, callees, dropped_tools, paramOf, native } = chatRequestOf(asked, (sealed) =>
      envelopes.open(user_id, sealed),
    );
    if (dropped_tools.length > 0) {
      log.info({ request_id, tools: shownTypes(dropped_tools) }, "tools that OpenAI executes itself were dropped");
    }
    const writer = createResponseWriter({
      asked,
      callees,
      paramOf,
      created_at: Math.floor(realNowMs() / 1000),
      newId,
      seal: (envelope) => envelopes.seal(user_id, envelope),
      keep: async (output) => {
        if (asked.store === false) return;
        // The answer is paid for. A later request that refers to a lost item is told so.
        await items.keep(user_id, output).catch((error: Error) => {
          log.warn({ request_id, error }, "output items were not kept");
        });
      },
    });
    return await answerCall(http, completions, { request, writer, native });
  }
  return { route: createResponseRoute, answer };
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
