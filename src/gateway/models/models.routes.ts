import { modelsForOperators } from "../../api/contract/admin-overall.ts";
import type { Caller } from "../../api/contract/caller.ts";
import { createRouter, json, type RequestContext, type Router } from "../../api/contract/endpoint.ts";
import { allows } from "../../api/contract/key-terms.ts";
import { getModelRoute, listModelsRoute, type ModelRecord } from "../../api/contract/models.ts";
import { errors } from "../../kernel/errors.ts";
import { gatewayErrors } from "./errors.ts";
import {
  agentModelRecord,
  anthropicList,
  anthropicRecord,
  autoRecord,
  type ModelAgent,
  modelRecord,
} from "./model-list.ts";
import type { Models } from "./models.service.ts";

/** GET /api/v1/models and /api/v1/models/{id or UUID}. `agentsOf`: the agents that a user can name as a model. */
export function modelRoutes(deps: {
  models: Models;
  agentsOf(user_id: string): Promise<readonly ModelAgent[]>;
}): Router {
  const { models, agentsOf } = deps;
  const router = createRouter();
  const made = (list: ReturnType<Models["list"]>) => ({
    list,
    records: list.map(modelRecord),
    auto: autoRecord(list),
    embeddings: models.embeddings().map(modelRecord),
  });
  let known = made(models.list());
  const current = () => {
    const list = models.list();
    if (list !== known.list) known = made(list);
    return known;
  };
  /** The models that the caller's key may use. `auto` has the rates of the dearest of them. */
  const offeredTo = ({ allowed_models }: Caller) => {
    if (allowed_models == null) return current();
    const list = models.list().filter((model) => allows(allowed_models, model));
    const embeddings = models.embeddings().filter((model) => allows(allowed_models, model));
    return { records: list.map(modelRecord), auto: autoRecord(list), embeddings: embeddings.map(modelRecord) };
  };
  /** Only a key that may call agents sees them. */
  const agentRecords = async (caller: Caller): Promise<ModelRecord[]> => {
    const { user_id, scopes, allowed_models } = caller;
    const { records } = current();
    const { auto } = offeredTo(caller);
    if (auto === null || !scopes.includes("chat:write")) return [];
    const getBase = (model_id: string | null) =>
      records.find(({ id, uuid }) => id === model_id || uuid === model_id) ?? auto;
    const agents = (await agentsOf(user_id)).map((agent) => ({ agent, base: getBase(agent.model_id) }));
    const callable = agents.filter(({ base }) => base === auto || allows(allowed_models, base));
    return callable.map(({ agent, base }) => agentModelRecord(agent, base));
  };
  const toRecord = async (request: RequestContext, id: string): Promise<ModelRecord> => {
    const model = models.find(id) ?? models.findEmbedding(id);
    const { allowed_models } = request.caller;
    if (model !== null && !allows(allowed_models, model)) throw gatewayErrors.modelNotAllowed(model.id);
    if (model !== null) return modelRecord(model);
    const { auto } = offeredTo(request.caller);
    if (auto !== null && (id === auto.id || id === auto.uuid)) return auto;
    const found = (await agentRecords(request.caller)).find((record) => record.id === id || record.uuid === id);
    if (found === undefined) throw errors.unknown("This model");
    return found;
  };

  router.on(listModelsRoute, async (request) => {
    const caller = request.caller;
    const { records, auto, embeddings } = offeredTo(caller);
    const agents = await agentRecords(caller);
    const data = [...records, ...(auto === null ? [] : [auto]), ...agents, ...embeddings];
    if (isForAnthropic(request)) return json(anthropicList(data)) as never;
    return json({ object: "list" as const, data });
  });
  const answer = async (request: RequestContext, id: string) => {
    const record = await toRecord(request, id);
    return json(isForAnthropic(request) ? anthropicRecord(record) : record) as never;
  };
  router.on(getModelRoute, (request) => answer(request, request.params.model));
  // Ids contain slashes, and some clients do not escape them.
  const whole_rest = { ...getModelRoute, path: "/api/v1/models/{model*}" } as const;
  router.undocumented(whole_rest, (request) => answer(request, request.params.model));
  router.on(modelsForOperators, (_request) => {
    const { records, embeddings } = current();
    return json({ models: [...records, ...embeddings] });
  });
  return router;
}

/** Whether the caller uses a client of Anthropic's API. */
function isForAnthropic(request: RequestContext): boolean {
  return request.header("anthropic-version") !== undefined;
}
