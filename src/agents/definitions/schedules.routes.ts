import { decodeCursor, INSTANT_AND_ID_KEY, pageOf, UUID_KEY } from "../../api/contract/common.ts";
import { createRouter, json, noContent, type Router } from "../../api/contract/endpoint.ts";
import { changesIn } from "../../api/contract/read-only.ts";
import { waitSeconds } from "../../api/contract/runs.ts";
import * as contract from "../../api/contract/schedules.ts";
import type { Agents } from "./agents.service.ts";

/** The schedules of an agent and their occurrences: contract 6. */
export function schedulesRoutes(agents: Pick<Agents, "schedules" | "occurrences">): Router {
  const { schedules } = agents;
  const router = createRouter();
  router.on(contract.listSchedules, async ({ caller, params, query: { limit, cursor } }) => {
    const after_id = decodeCursor(cursor, UUID_KEY);
    const rows = await schedules.list(caller.user_id, params.id, { limit: limit + 1, after_id });
    const { page, next_cursor } = pageOf(rows, limit, (schedule) => schedule.id);
    return json({ schedules: page, next_cursor });
  });
  router.on(contract.createSchedule, async ({ caller, params, body }) =>
    json(await schedules.create(caller, params.id, body), 201),
  );
  router.on(contract.getSchedule, async ({ caller, params }) => json(await schedules.get(caller.user_id, params)));
  router.on(contract.updateSchedule, async ({ caller, params, body }) => {
    const record = () => schedules.get(caller.user_id, params);
    const changes = await changesIn(body, contract.SCHEDULE_READ_ONLY, record);
    return json(await schedules.change(caller, params, changes));
  });
  router.on(contract.deleteSchedule, async ({ caller, params }) => {
    await schedules.remove(caller.user_id, params);
    return noContent();
  });
  router.on(contract.pauseSchedule, async ({ caller, params }) => json(await schedules.pause(caller.user_id, params)));
  router.on(contract.resumeOneSchedule, async ({ caller, params }) => json(await schedules.resume(caller, params)));
  router.on(contract.runSchedule, async ({ caller, params, request_id, header }) => {
    const asked = { request_id, wait_ms: waitSeconds(header("prefer")) * 1000 };
    const run = await schedules.run(caller, params, asked);
    if ("steps" in run && run.finished_at !== null) return json(run);
    return json(run, 202, { Location: `/api/v1/agents/${run.agent_id}/runs/${run.id}` });
  });
  router.on(contract.listOccurrences, async ({ caller, params, query }) => {
    const { limit, cursor, schedule_id = null } = query;
    const [at, of] = decodeCursor(cursor, INSTANT_AND_ID_KEY)?.split(" ") ?? [];
    const before = at === undefined || of === undefined ? null : { at, schedule_id: of };
    const rows = await agents.occurrences(caller.user_id, params.id, { schedule_id, limit: limit + 1, before });
    const { page, next_cursor } = pageOf(rows, limit, (occurrence) => `${occurrence.at} ${occurrence.schedule_id}`);
    return json({ occurrences: page, next_cursor });
  });
  return router;
}
