import { getModelRoute, listModelsRoute } from "../contract/models.ts";
import { createRouter, type HttpRouter } from "../contract/router.ts";
import { errors } from "../errors.ts";
import { type Models, modelRecord } from "./models.service.ts";

/** GET /api/v1/models and /api/v1/models/{id or UUID}. */
export function modelRoutes(models: Models): HttpRouter {
  const router = createRouter();
  let known = { list: models.list(), records: models.list().map(modelRecord) };
  const records = () => {
    const list = models.list();
    if (list !== known.list) known = { list, records: list.map(modelRecord) };
    return known.records;
  };
  router.openapi(listModelsRoute, (c) => c.json({ object: "list" as const, data: records() }, 200));
  const recordOf = (id: string) => {
    const model = models.find(id);
    if (model === null) throw errors.notFound("This model");
    return modelRecord(model);
  };
  router.openapi(getModelRoute, (c) => c.json(recordOf(c.req.valid("param").model), 200));
  // Ids contain slashes, and some clients do not escape them.
  const whole_rest = "/api/v1/models/:model{.+}";
  router.use(whole_rest, ...getModelRoute.middleware);
  router.get(whole_rest, (c) => c.json(recordOf(c.req.param("model"))));
  return router;
}
