import type { Context } from "hono";
import { modelsForOperators } from "../../api/contract/admin-overall.ts";
import type { Caller, HttpEnv } from "../../api/contract/caller.ts";
import { allows } from "../../api/contract/key-terms.ts";
import { getModelRoute, listModelsRoute, type ModelRecord } from "../../api/contract/models.ts";
import { createRouter, type HttpRouter } from "../../api/contract/router.ts";
import { errors } from "../../kernel/errors.ts";
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
}): HttpRouter {
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
    const baseOf = (model_id: string | null) =>
      records.find(({ id, uuid }) => id === model_id || uuid === model_id) ?? auto;
    const agents = (await agentsOf(user_id)).map((agent) => ({ agent, base: baseOf(agent.model_id) }));
    const callable = agents.filter(({ base }) => base === auto || allows(allowed_models, base));
    return callable.map(({ agent, base }) => agentModelRecord(agent, base));
  };
  const recordOf = async (c: Context<HttpEnv>, id: string): Promise<ModelRecord> => {
    const model = models.find(id) ?? models.findEmbedding(id);
    const { allowed_models } = c.get("caller");
    if (model !== null && !allows(allowed_models, model)) throw errors.modelNotAllowed(model.id);
    if (model !== null) return modelRecord(model);
    const { auto } = offeredTo(c.get("caller"));
    if (auto !== null && (id === auto.id || id === auto.uuid)) return auto;
    const found = (await agentRecords(c.get("caller"))).find((record) => record.id === id || record.uuid === id);
    if (found === undefined) throw errors.notFound("This model");
    return found;
  };

  router.openapi(listModelsRoute, async (c) => {
    const caller = c.get("caller");
    const { records, auto, embeddings } = offeredTo(caller);
    const agents = await agentRecords(caller);
    const data = [...records, ...(auto === null ? [] : [auto]), ...agents, ...embeddings];
    if (isForAnthropic(c)) return c.json(anthropicList(data), 200) as never;
    return c.json({ object: "list" as const, data }, 200);
  });
  const answer = async (c: Context<HttpEnv>, id: string) => {
    const record = await recordOf(c, id);
    return c.json(isForAnthropic(c) ? anthropicRecord(record) : record, 200) as never;
  };
  router.openapi(getModelRoute, (c) => answer(c, c.req.valid("param").model));
  router.openapi(modelsForOperators, (c) => {
    const { records, embeddings } = current();
    return c.json({ models: [...records, ...embeddings] }, 200);
  });
  // Ids contain slashes, and some clients do not escape them.
  router.get("/api/v1/models/:model{.+}", (c) => answer(c, c.req.param("model")));
  return router;
}

/** Whether the caller uses a client of Anthropic's API. */
function isForAnthropic(c: Context<HttpEnv>): boolean {
  return c.req.header("anthropic-version") !== undefined;
}
