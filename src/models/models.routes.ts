import type { Context } from "hono";
import { modelsForOperators } from "../contract/admin-overall.ts";
import type { Caller, HttpEnv } from "../contract/caller.ts";
import { getModelRoute, listModelsRoute, type ModelRecord } from "../contract/models.ts";
import { createRouter, type HttpRouter } from "../contract/router.ts";
import { errors } from "../errors.ts";
import { agentRecord, anthropicList, autoRecord, type ModelAgent, modelRecord } from "./model-list.ts";
import type { Models } from "./models.service.ts";

/** GET /api/v1/models and /api/v1/models/{id or UUID}. `agentsOf`: the agents that a user can name as a model. */
export function modelRoutes(deps: {
  models: Models;
  agentsOf(user_id: string): Promise<readonly ModelAgent[]>;
}): HttpRouter {
  const { models, agentsOf } = deps;
  const router = createRouter();
  const made = (list: ReturnType<Models["list"]>) => ({
    ...{ list, records: list.map(modelRecord), auto: autoRecord(list) },
    embeddings: models.embeddings().map(modelRecord),
  });
  let known = made(models.list());
  const current = () => {
    const list = models.list();
    if (list !== known.list) known = made(list);
    return known;
  };
  /** Only a key that may call agents sees them. */
  const agentRecords = async ({ user_id, scopes }: Caller): Promise<ModelRecord[]> => {
    const { records, auto } = current();
    if (auto === null || !scopes.includes("chat:write")) return [];
    const baseOf = (model_id: string | null) =>
      records.find(({ id, uuid }) => id === model_id || uuid === model_id) ?? auto;
    return (await agentsOf(user_id)).map((agent) => agentRecord(agent, baseOf(agent.model_id)));
  };
  const recordOf = async (c: Context<HttpEnv>, id: string): Promise<ModelRecord> => {
    const model = models.find(id) ?? models.findEmbedding(id);
    if (model !== null) return modelRecord(model);
    const { auto } = current();
    if (auto !== null && (id === auto.id || id === auto.uuid)) return auto;
    const found = (await agentRecords(c.get("caller"))).find((record) => record.id === id || record.uuid === id);
    if (found === undefined) throw errors.notFound("This model");
    return found;
  };

  router.openapi(listModelsRoute, async (c) => {
    const { records, auto, embeddings } = current();
    const agents = await agentRecords(c.get("caller"));
    const data = [...records, ...(auto === null ? [] : [auto]), ...agents, ...embeddings];
    if (c.req.header("anthropic-version") !== undefined) return c.json(anthropicList(data), 200) as never;
    return c.json({ object: "list" as const, data }, 200);
  });
  router.openapi(getModelRoute, async (c) => c.json(await recordOf(c, c.req.valid("param").model), 200));
  router.openapi(modelsForOperators, (c) => {
    const { records, embeddings } = current();
    return c.json({ models: [...records, ...embeddings] }, 200);
  });
  // Ids contain slashes, and some clients do not escape them.
  const whole_rest = "/api/v1/models/:model{.+}";
  router.use(whole_rest, ...getModelRoute.middleware);
  router.get(whole_rest, async (c) => c.json(await recordOf(c, c.req.param("model"))));
  return router;
}
