import * as contract from "../../api/contract/agents.ts";
import type { Caller } from "../../api/contract/caller.ts";
import {
  decodeCursor,
  encodeCursor,
  INSTANT_AND_ID_KEY,
  pageOf,
  readPage,
  UUID_KEY,
} from "../../api/contract/common.ts";
import {
  type Answer,
  createRouter,
  csvFile,
  events,
  json,
  noContent,
  type Router,
} from "../../api/contract/endpoint.ts";
import { changesIn } from "../../api/contract/read-only.ts";
import { runNow } from "../../api/contract/run-now.ts";
import type { RunDetail } from "../../api/contract/runs.ts";
import * as runContract from "../../api/contract/runs.ts";
import { errors } from "../../kernel/errors.ts";
import { readLastEventId } from "../runs/following.ts";
import type { Tools } from "../tools/tools.service.ts";
import type { WebhookKeys } from "../tools/webhook-keys.service.ts";
import type { Agents } from "./agents.service.ts";
import { agentErrors } from "./errors.ts";
import { RUN_CSV_HEAD, runLines } from "./run-csv.ts";
import { shownTo } from "./secret-bindings.ts";
import { AGENT_TEMPLATES } from "./templates.ts";

/** Agents and their runs: contract 6. */
export function agentsRoutes({ agents }: { agents: Agents }): Router {
  const router = createRouter();
  addAgents(router, agents);
  addRuns(router, agents);
  addEvents(router, agents);
  return router;
}

async function readAgent(agents: Agents, caller: Caller, id: string) {
  return shownTo(caller, await agents.get(caller.user_id, id));
}

function addAgents(router: Router, agents: Agents): void {
  router.on(contract.createAgent, async (request) => {
    const caller = request.caller;
    return json(shownTo(caller, await agents.create(caller, request.body)), 201);
  });
  router.on(contract.listAgents, async (request) => {
    const { limit, cursor, name, sort, needs_attention } = request.query;
    const { user_id } = request.caller;
    if (sort !== undefined) {
      const other = name !== undefined ? "name" : needs_attention !== undefined ? "needs_attention" : null;
      if (other !== null)
        throw errors.invalidValue(other, `${other} cannot be combined with sort. Leave one of them out.`);
      const [next_run_at, agent_id] = instantAndId(cursor);
      const after = next_run_at === undefined || agent_id === undefined ? null : { next_run_at, agent_id };
      const found = await agents.nextRuns(user_id, { limit, after });
      const next_cursor = found.next === null ? null : encodeCursor(`${found.next.next_run_at} ${found.next.agent_id}`);
      const shown = found.agents.map((agent) => shownTo(request.caller, agent));
      return json({ agents: shown, next_cursor });
    }
    const before_id = decodeCursor(cursor, UUID_KEY);
    const found = await agents.list(user_id, {
      limit,
      before_id,
      name: name ?? null,
      in_need: needs_attention !== undefined,
    });
    const next_cursor = found.next_id === null ? null : encodeCursor(found.next_id);
    return json({ agents: found.agents.map((agent) => shownTo(request.caller, agent)), next_cursor });
  });
  router.on(contract.getAgent, async (request) => {
    return json(await readAgent(agents, request.caller, request.params.id));
  });
  router.on(contract.getAgentVersion, async (request) => {
    const { id, version } = request.params;
    const caller = request.caller;
    return json(shownTo(caller, await agents.version(caller.user_id, id, version)));
  });
  router.on(contract.listAgentVersions, async ({ caller, params, query }) => {
    const before = decodeCursor(query.cursor, VERSION_KEY);
    const page = { limit: query.limit, before: before === null ? null : Number(before) };
    const { versions, next } = await agents.versions(caller, params.id, page);
    return json({ versions, next_cursor: next === null ? null : encodeCursor(next) });
  });
  router.on(contract.restoreAgentVersion, async ({ caller, params }) => {
    return json(shownTo(caller, await agents.restore(caller, params.id, params.version)));
  });
  router.on(contract.duplicateAgent, async ({ caller, params, body }) => {
    return json(shownTo(caller, await agents.duplicate(caller, params.id, body)), 201);
  });
  router.on(contract.listAgentTemplates, async () => json({ templates: [...AGENT_TEMPLATES] }));
  router.on(contract.updateAgent, async ({ caller, params, body }) => {
    const changes = await changesIn(body, contract.AGENT_READ_ONLY, () => readAgent(agents, caller, params.id));
    return json(shownTo(caller, await agents.update(caller, params.id, changes)));
  });
  router.on(contract.resumeSchedule, async ({ caller, params }) => {
    return json(shownTo(caller, await agents.update(caller, params.id, {}, { resumes: true })));
  });
  router.on(contract.deleteAgent, async (request) => {
    await agents.remove(request.caller.user_id, request.params.id);
    return noContent();
  });
}

const VERSION_KEY = /^[1-9]\d{0,8}$/;

/** Decodes the cursor of a list ordered by an instant and an id. */
function instantAndId(cursor: string | undefined): string[] {
  return decodeCursor(cursor, INSTANT_AND_ID_KEY)?.split(" ") ?? [];
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

function runAnswer({ run, rest }: Awaited<ReturnType<Agents["runInParts"]>>) {
  if (rest === null) return json(run);
  const headers = { "Content-Type": "application/json" };
  return { kind: "parts", status: 200, headers, parts: textOf(run, rest) } satisfies Answer;
}

function addRuns(router: Router, agents: Agents): void {
  router.on(runNow, async ({ caller, request_id, params, header, body }) => {
    const wait_ms = runContract.waitSeconds(header("prefer")) * 1000;
    const { run_prompt, model_id, input, metadata, schedule_id } = body;
    const record = () => readAgent(agents, caller, params.id);
    const draft =
      body.draft == null ? undefined : await changesIn(body.draft, contract.AGENT_READ_ONLY, record, "draft.");
    if (draft !== undefined && schedule_id != null) {
      throw errors.invalidValue("schedule_id", "A test of a draft counts for no schedule: leave it out.");
    }
    const asked = { request_id, wait_ms, run_prompt, model_id, input, metadata, draft };
    const starting =
      schedule_id == null
        ? agents.runNow(caller, params.id, asked)
        : agents.schedules.run(caller, { id: params.id, schedule_id }, asked);
    const run = await starting;
    if ("steps" in run && run.finished_at !== null) return json(run);
    return json(run, 202, { Location: `/api/v1/agents/${run.agent_id}/runs/${run.id}` });
  });
  router.on(runContract.listRuns, async ({ caller, params, query: { limit, cursor, ...filter } }) => {
    const { page, next_cursor } = await readPage({ limit, cursor }, (page_of) =>
      agents.runs(caller.user_id, params.id, filter, page_of),
    );
    return json({ runs: page, next_cursor });
  });
  router.on(runContract.getRun, async (request) => {
    const { id, run_id } = request.params;
    return runAnswer(await agents.runInParts(request.caller.user_id, id, run_id));
  });
  router.on(runContract.getAnyRun, async ({ caller, params }) => {
    return runAnswer(await agents.anyRunInParts(caller.user_id, params.run_id));
  });
  router.on(runContract.listAllRuns, async ({ caller, query }) => {
    const { limit, cursor, format, ...filter } = query;
    if (format === "csv") {
      return csvFile({ name: "runs", head: RUN_CSV_HEAD }, agents.exportRuns(caller.user_id, filter), runLines);
    }
    const [queued_at, id] = instantAndId(cursor);
    const after = queued_at === undefined || id === undefined ? null : { queued_at, id };
    const rows = await agents.searchRuns(caller.user_id, filter, { limit: limit + 1, after });
    const { page, next_cursor } = pageOf(rows, limit, (run) => `${run.queued_at} ${run.id}`);
    return json({ runs: page, next_cursor });
  });
  router.on(runContract.getRunPrompt, async ({ caller, params }) => {
    return json({ messages: await agents.sentMessages(caller.user_id, params.id, params.run_id) });
  });
  router.on(runContract.decideAction, async ({ caller, params, body }) => {
    return json(await agents.decideAction(caller, params, body));
  });
  router.on(runContract.cancelRun, async (request) => {
    const { id, run_id } = request.params;
    return json(await agents.cancelRun(request.caller.user_id, id, run_id));
  });
}

function addEvents(router: Router, agents: Agents): void {
  router.on(runContract.runEvents, async (request) => {
    const { id, run_id } = request.params;
    const after = readLastEventId(request.headers["last-event-id"]);
    const live = request.watchCaller();
    const feed = await agents.follow(request.caller.user_id, id, { run_id, after });
    if (feed === null) return noContent();
    return events(feed, { live, request_id: request.request_id, named: true });
  });
}

/** How a user verifies what their agents send. Reading the key needs write access, because its holder can sign as the agent. */
export function webhookKeyRoutes(deps: {
  agents: Pick<Agents, "get">;
  webhook_keys: Pick<WebhookKeys, "keyOf">;
}): Router {
  const router = createRouter();
  router.on(contract.getWebhookKey, async (request) => {
    const { user_id } = request.caller;
    const { id: agent_id } = await deps.agents.get(user_id, request.params.id);
    const key = await deps.webhook_keys.keyOf({ user_id, agent_id });
    if (key === null) {
      // 404 if the agent was deleted meanwhile
      await deps.agents.get(user_id, agent_id);
      throw agentErrors.webhookKeyUnreadable();
    }
    return json(key, 200, { "Cache-Control": "no-store" });
  });
  return router;
}

/** The owner chooses the effects of a server's tools by this list. */
export function serverToolsRoutes(deps: { agents: Pick<Agents, "find">; tools: Pick<Tools, "serverTools"> }): Router {
  const router = createRouter();
  router.on(contract.listServerTools, async (request) => {
    const { user_id } = request.caller;
    const { id, server } = request.params;
    const agent = await deps.agents.find(user_id, id);
    const listed = await deps.tools.serverTools(agent.tools_config, server, { user_id, agent_id: agent.id });
    return json({ ...listed, tools: [...listed.tools] }, 200, { "Cache-Control": "no-store" });
  });
  return router;
}
