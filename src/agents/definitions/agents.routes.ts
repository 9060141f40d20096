import type { z } from "@hono/zod-openapi";
import { runsOfAll, runsOfUser, type runsQuery } from "../../api/contract/admin-users.ts";
import { agentIdsIn, withAgentNames } from "../../api/contract/agent-name.ts";
import * as contract from "../../api/contract/agents.ts";
import { decodeCursor, encodeCursor, INSTANT_KEY, pageOf, UUID_KEY } from "../../api/contract/common.ts";
import type { HotEndpoint } from "../../api/contract/hot-endpoint.ts";
import { changesIn } from "../../api/contract/read-only.ts";
import { createRouter, type HttpRouter, textStream } from "../../api/contract/router.ts";
import type { RunDetail } from "../../api/contract/runs.ts";
import * as runContract from "../../api/contract/runs.ts";
import { listOccurrences } from "../../api/contract/schedules.ts";
import { errors } from "../../kernel/errors.ts";
import { eventStream } from "../../platform/net/event-stream.ts";
import { readLastEventId } from "../runs/following.ts";
import type { Runs } from "../runs/runs.service.ts";
import type { Tools } from "../tools/tools.service.ts";
import type { WebhookKeys } from "../tools/webhook-keys.service.ts";
import type { Agents } from "./agents.service.ts";
import { shownTo } from "./secret-bindings.ts";

/** The body of a run-now is `{}`. */
const RUN_NOW_BYTES = 64;

/** Agents and their runs: contract 6. */
export function agentsRoutes({ agents, allRuns }: { agents: Agents; allRuns: Runs["allRuns"] }): HttpRouter {
  const router = createRouter();
  addAgents(router, agents);
  addRuns(router, agents);
  addEvents(router, agents);
  addRunsForOperators(router, { agents, allRuns });
  return router;
}

function addAgents(router: HttpRouter, agents: Agents): void {
  router.openapi(contract.createAgent, async (c) => {
    const caller = c.get("caller");
    return c.json(shownTo(caller, await agents.create(caller, c.req.valid("json"))), 201);
  });
  router.openapi(contract.listAgents, async (c) => {
    const { limit, cursor, name, sort } = c.req.valid("query");
    const { user_id } = c.get("caller");
    if (sort !== undefined) {
      if (name !== undefined)
        throw errors.invalidValue("name", "name cannot be combined with sort. Leave one of them out.");
      const found = await agents.nextRuns(user_id, { limit, after: nextRunIn(cursor) });
      const next_cursor = found.next === null ? null : encodeCursor(`${found.next.next_run_at} ${found.next.agent_id}`);
      const shown = found.agents.map((agent) => shownTo(c.get("caller"), agent));
      return c.json({ agents: shown, next_cursor }, 200);
    }
    const before_id = decodeCursor(cursor, UUID_KEY);
    const found = await agents.list(user_id, { limit, before_id, name: name ?? null });
    const next_cursor = found.next_id === null ? null : encodeCursor(found.next_id);
    return c.json({ agents: found.agents.map((agent) => shownTo(c.get("caller"), agent)), next_cursor }, 200);
  });
  router.openapi(contract.getAgent, async (c) => {
    const caller = c.get("caller");
    return c.json(shownTo(caller, await agents.get(caller.user_id, c.req.valid("param").id)), 200);
  });
  router.openapi(contract.getAgentVersion, async (c) => {
    const { id, version } = c.req.valid("param");
    const caller = c.get("caller");
    return c.json(shownTo(caller, await agents.version(caller.user_id, id, version)), 200);
  });
  router.openapi(contract.updateAgent, async (c) => {
    const caller = c.get("caller");
    const { id } = c.req.valid("param");
    const record = async () => shownTo(caller, await agents.get(caller.user_id, id));
    const changes = await changesIn(c.req.valid("json"), contract.AGENT_READ_ONLY, record);
    return c.json(shownTo(caller, await agents.update(caller, id, changes)), 200);
  });
  router.openapi(contract.resumeSchedule, async (c) => {
    const caller = c.get("caller");
    return c.json(shownTo(caller, await agents.update(caller, c.req.valid("param").id, {}, { resumes: true })), 200);
  });
  router.openapi(contract.deleteAgent, async (c) => {
    await agents.remove(c.get("caller").user_id, c.req.valid("param").id);
    return c.body(null, 204);
  });
  router.openapi(listOccurrences, async (c) => {
    const { limit, cursor } = c.req.valid("query");
    const before = decodeCursor(cursor, INSTANT_KEY);
    const rows = await agents.occurrences(c.get("caller").user_id, c.req.valid("param").id, {
      limit: limit + 1,
      before,
    });
    const { page, next_cursor } = pageOf(rows, limit, (occurrence) => occurrence.at);
    return c.json({ occurrences: page, next_cursor }, 200);
  });
}

const NEXT_RUN_KEY = {
  test(key: string): boolean {
    const [at = "", id = "", ...rest] = key.split(" ");
    return rest.length === 0 && INSTANT_KEY.test(at) && UUID_KEY.test(id);
  },
};

/** Decodes the cursor of a list ordered by next run. */
function nextRunIn(cursor: string | undefined) {
  const [next_run_at, agent_id] = decodeCursor(cursor, NEXT_RUN_KEY)?.split(" ") ?? [];
  return next_run_at === undefined || agent_id === undefined ? null : { next_run_at, agent_id };
}

/** POST /api/v1/agents/{id}/runs. */
export function runNowEndpoint(agents: Pick<Agents, "runNow">): HotEndpoint {
  return {
    route: runContract.runNow,
    ordinary_bytes: RUN_NOW_BYTES,
    async answer({ caller, request_id, params, headerOf }, { run_prompt, input, metadata }: runContract.RunNow) {
      const wait_ms = waitSeconds(headerOf("prefer")) * 1000;
      const run = await agents.runNow(caller, params.id ?? "", { request_id, wait_ms, run_prompt, input, metadata });
      if ("steps" in run && run.finished_at !== null) return { kind: "json", body: run };
      const headers = { Location: `/api/v1/agents/${run.agent_id}/runs/${run.id}` };
      return { kind: "json", status: 202, headers, body: run };
    },
  };
}

/** A run with many steps, as JSON in parts. */
async function* textOf({ steps: _, ...record }: RunDetail, rest: AsyncIterable<RunDetail["steps"]>) {
  yield `${JSON.stringify(record).slice(0, -1)},"steps":[`;
  let separator = "";
  for await (const steps of rest) {
    for (const step of steps) {
      yield `${separator}${JSON.stringify(step)}`;
      separator = ",";
    }
  }
  yield "]}";
}

function addRuns(router: HttpRouter, agents: Agents): void {
  router.openapi(runContract.listRuns, async (c) => {
    const { limit, cursor, ...filter } = c.req.valid("query");
    const before_id = decodeCursor(cursor, UUID_KEY);
    const rows = await agents.runs(c.get("caller").user_id, c.req.valid("param").id, filter, {
      limit: limit + 1,
      before_id,
    });
    const { page, next_cursor } = pageOf(rows, limit, (run) => run.id);
    return c.json({ runs: page, next_cursor }, 200);
  });
  router.openapi(runContract.getRun, async (c) => {
    const { id, run_id } = c.req.valid("param");
    const { run, rest } = await agents.runInParts(c.get("caller").user_id, id, run_id);
    if (rest === null) return c.json(run, 200);
    return c.body(textStream(textOf(run, rest)), 200, { "Content-Type": "application/json" }) as never;
  });
  router.openapi(runContract.getRunPrompt, async (c) => {
    const { id, run_id } = c.req.valid("param");
    return c.json({ messages: await agents.sentMessages(c.get("caller").user_id, id, run_id) }, 200);
  });
  router.openapi(runContract.cancelRun, async (c) => {
    const { id, run_id } = c.req.valid("param");
    return c.json(await agents.cancelRun(c.get("caller").user_id, id, run_id), 200);
  });
}

/** Runs of a user, or of all users: contract 8.7. */
function addRunsForOperators(router: HttpRouter, deps: { agents: Agents; allRuns: Runs["allRuns"] }): void {
  const { agents, allRuns } = deps;
  const list = async ({ limit, cursor, ...filter }: z.infer<typeof runsQuery>) => {
    const rows = await allRuns(filter, { limit: limit + 1, before_id: decodeCursor(cursor, UUID_KEY) });
    const { page, next_cursor } = pageOf(rows, limit, (run) => run.id);
    const users = Map.groupBy(page, ({ user_id }) => user_id);
    const named = await Promise.all(
      [...users].map(async ([user_id, runs]) => withAgentNames(runs, await agents.names(user_id, agentIdsIn(runs)))),
    );
    const by_id = new Map(named.flat().map((run) => [run.id, run]));
    return { runs: page.flatMap(({ id }) => by_id.get(id) ?? []), next_cursor };
  };
  router.openapi(runsOfAll, async (c) => c.json(await list(c.req.valid("query")), 200));
  router.openapi(runsOfUser, async (c) => {
    const user_id = await c.get("findUser")(c.req.valid("param").id);
    return c.json(await list({ ...c.req.valid("query"), user_id }), 200);
  });
}

function addEvents(router: HttpRouter, agents: Agents): void {
  router.openapi(runContract.runEvents, async (c) => {
    const { id, run_id } = c.req.valid("param");
    const after = readLastEventId(c.req.valid("header")["last-event-id"]);
    const live = c.get("live_caller")();
    const events = await agents.follow(c.get("caller").user_id, id, { run_id, after });
    if (events === null) return c.body(null, 204) as never;
    return eventStream(events, { live, request_id: c.get("request_id"), named: true }) as never;
  });
}

/** N of `Prefer: wait=N` (RFC 7240), at most the contract's; 0 when it is absent. */
function waitSeconds(prefer: string | undefined): number {
  const wanted = /(?:^|[,;\s])wait\s*=\s*"?(\d{1,9})/i.exec(prefer ?? "")?.[1] ?? "0";
  return Math.min(Number(wanted), runContract.MAX_WAIT_SECONDS);
}

/** How a user verifies what their agents send. Reading the key needs write access, because its holder can sign as the agent. */
export function webhookKeyRoutes(deps: {
  agents: Pick<Agents, "get">;
  webhook_keys: Pick<WebhookKeys, "keyOf">;
}): HttpRouter {
  const router = createRouter();
  router.openapi(contract.getWebhookKey, async (c) => {
    const { user_id } = c.get("caller");
    const { id: agent_id } = await deps.agents.get(user_id, c.req.valid("param").id);
    const key = await deps.webhook_keys.keyOf({ user_id, agent_id });
    if (key === null) {
      // 404 if the agent was deleted meanwhile
      await deps.agents.get(user_id, agent_id);
      throw errors.webhookKeyUnreadable();
    }
    return c.json(key, 200, { "Cache-Control": "no-store" });
  });
  return router;
}

/** The owner chooses the effects of a server's tools by this list. */
export function serverToolsRoutes(deps: {
  agents: Pick<Agents, "find">;
  tools: Pick<Tools, "serverTools">;
}): HttpRouter {
  const router = createRouter();
  router.openapi(contract.listServerTools, async (c) => {
    const { user_id } = c.get("caller");
    const { id, server } = c.req.valid("param");
    const agent = await deps.agents.find(user_id, id);
    const listed = await deps.tools.serverTools(agent.tools_config, server, { user_id, agent_id: agent.id });
    return c.json({ ...listed, tools: [...listed.tools] }, 200, { "Cache-Control": "no-store" });
  });
  return router;
}
