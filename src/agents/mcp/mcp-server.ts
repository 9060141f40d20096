import type {
  CallToolResult,
  ClientCapabilities,
  InputRequiredResult,
  ListToolsResult,
  McpServerFactory,
  ServerContext,
} from "@modelcontextprotocol/server";
import type { Caller, LiveCaller, Scope } from "../../api/contract/caller.ts";
import { textSchema } from "../../api/contract/common.ts";
import { MCP_CLIENT } from "../../api/contract/run-actions.ts";
import { type RunData, type RunDetail, runStatusSchema } from "../../api/contract/runs.ts";
import { z } from "../../api/contract/zod.ts";
import { httpErrors } from "../../api/http/errors.ts";
import { asPurserError, errors, PurserError } from "../../kernel/errors.ts";
import { raceAbort } from "../../platform/lib/race-abort.ts";
import type { EventFeed } from "../../platform/net/event-stream.ts";
import type { PublicAddress } from "../../platform/net/public-address.ts";
import { describeUnexpected, type Log } from "../../platform/telemetry/log.ts";
import type { Chat } from "../chat/chat.service.ts";
import type { Agents } from "../definitions/agents.service.ts";
import {
  readAnswers,
  runResult,
  TASKS_EXTENSION,
  taskParams,
  toCreatedTask,
  toQuestions,
  toTaskState,
  waitingResult,
} from "./tasks.ts";

/** The server that one request is answered by. The protocol's library reads and writes its messages. */

/** The request in whose name tools are called, and its caller. */
export interface Asker {
  readonly caller: Caller;
  /** Watches the caller until `leave`. */
  readonly live: () => LiveCaller;
  /** The request's id, by which its run is found again when it is cancelled. */
  readonly request_id: string;
  /** Aborts when the client closes the stream of a call, which cancels the call since version 2026-07-28. */
  readonly hung_up: AbortSignal | null;
}

export interface McpServerDeps {
  agents: Pick<
    Agents,
    | "asModels"
    | "schemas"
    | "ready"
    | "runNow"
    | "runs"
    | "run"
    | "find"
    | "findRun"
    | "latestRuns"
    | "unfinishedRun"
    | "follow"
    | "cancelRun"
    | "decideAction"
  >;
  chat: Pick<Chat, "turn" | "begin">;
  address: Pick<PublicAddress, "url">;
  log: Pick<Log, "error" | "warn">;
}

const INFO = { name: "purser", version: "1" };
const INSTRUCTIONS =
  "Each run_… tool runs one agent of this account and answers with the run's output; runs cost tokens. get_run and list_runs read earlier runs.";
const MAX_INPUT_CHARACTERS = 1_000_000;
const MAX_LISTED = 100;

const runArguments = z.strictObject({ input: textSchema(MAX_INPUT_CHARACTERS).min(1).optional() });
/** An agent with input_schema has its own check. */
const inputArguments = z.record(z.string(), z.unknown());
const getArguments = z.strictObject({ run_id: z.uuid() });
const listArguments = z.strictObject({
  agent: z.string().max(200).optional(),
  status: runStatusSchema.optional(),
  limit: z.number().int().min(1).max(MAX_LISTED).default(20),
});

/** What a tool's call asks of its agent: an answer to a message, or a run with input. */
interface Errand {
  message?: string | undefined;
  input?: RunData;
}

/** What a request's client can do, as the request says. */
export interface Client {
  /** It follows a run as a task. */
  takes_tasks: boolean;
  /** It asks its user. */
  elicits: boolean;
}

/** A call of a tool, or the same call again with the answers to what its run asked. */
export interface Exchange extends Client {
  progress: Progress;
  answered: { run_id: string; responses: Readonly<Record<string, unknown>> } | null;
}

/** The account's agents as tools. */
export function createMcpTools({ agents, chat, log, address }: McpServerDeps) {
  const toolsOf = async ({ caller }: Asker) => toolNames(await agents.asModels(caller.user_id));

  return {
    async list(asker: Asker): Promise<ListToolsResult> {
      requireScope(asker, "agents:read");
      const named = await toolsOf(asker).catch((error: unknown) => {
        // The library puts the message of any error into its answer.
        throw loggedError(error, asker, log);
      });
      const schemas = await agents.schemas(asker.caller.user_id);
      const tools = [...named].map(([name, agent]) => {
        const { input_schema = null, output_schema = null } = schemas.get(agent.id) ?? {};
        return {
          name,
          title: agent.name,
          description: `Runs the agent "${agent.name}".${agent.description ? ` ${agent.description}` : ""}`,
          inputSchema: (input_schema ?? RUN_SCHEMA) as typeof RUN_SCHEMA,
          ...(output_schema === null ? {} : { outputSchema: output_schema as { type: "object" } }),
          annotations: { readOnlyHint: false, openWorldHint: true },
        };
      });
      return { tools: [...tools, ...READ_TOOLS] };
    },
    call,
    /** Throws the error that a list would end with: 403. */
    precheckList: (asker: Asker) => requireScope(asker, "agents:read"),
    /** The task of a run. 404. */
    async task(asker: Asker, run_id: string, client: Client) {
      const run = await agents.findRun(asker.caller.user_id, run_id);
      return toTaskState(run, { origin: address.url(), may_decide: mayDecide(asker, client) });
    },
    /** Decides what a run waits for, as the client's user has answered. 404. */
    async updateTask(
      { caller }: Asker,
      run_id: string,
      responses: Readonly<Record<string, unknown>>,
    ): Promise<undefined> {
      await decide(caller, await agents.findRun(caller.user_id, run_id), responses);
    },
    /** Cancels a run, unless it has ended. 404. */
    async cancelTask({ caller }: Asker, run_id: string): Promise<undefined> {
      const { agent_id } = await agents.findRun(caller.user_id, run_id);
      await agents.cancelRun(caller.user_id, agent_id, run_id).catch(unlessFinished);
    },
    /** Throws the error that a request about a task would end with: 403. */
    precheckTask(asker: Asker, method: string): void {
      if (method === "tasks/get") requireScope(asker, "agents:read");
      if (method === "tasks/update") requireScope(asker, "agents:approve");
      if (method === "tasks/cancel" && !mayCancel(asker)) requireScope(asker, "agents:write");
    },
    /** Throws the error that a call would end with before it does anything: 403, 402, 409. */
    async precheck(asker: Asker, name: string, given: unknown): Promise<void> {
      const agent = (await toolsOf(asker)).get(name);
      if (agent === undefined) return requireScope(asker, "agents:read");
      const takes_input = (await agents.find(asker.caller.user_id, agent.id)).input_schema !== null;
      const has_message = !takes_input && (given as { input?: unknown } | null | undefined)?.input !== undefined;
      requireScope(asker, has_message ? "chat:write" : "agents:write");
      await agents.ready(asker.caller, agent.id);
    },
    /** Cancels the unfinished run that this request began. */
    async cancel({ caller }: Pick<Asker, "caller">, request_id: string): Promise<void> {
      if (!mayCancel({ caller })) return;
      const found = await agents.unfinishedRun(caller.user_id, request_id);
      if (found !== null) await agents.cancelRun(caller.user_id, found.agent_id, found.id).catch(unlessFinished);
    },
  };

  async function call(
    asker: Asker,
    name: string,
    given: unknown,
    exchange: Exchange,
  ): Promise<CallToolResult | InputRequiredResult> {
    try {
      if (name === "get_run") return shown(await getRun(asker, parsed(getArguments, given)));
      if (name === "list_runs") return shown({ runs: await listRuns(asker, parsed(listArguments, given)) });
      const agent = (await toolsOf(asker)).get(name);
      if (agent === undefined) throw errors.notFound(`The tool ${JSON.stringify(name.slice(0, 64))}`);
      const { input_schema, output_schema } = await agents.find(asker.caller.user_id, agent.id);
      const errand =
        input_schema === null
          ? { message: parsed(runArguments, given).input }
          : { input: parsed(inputArguments, given) };
      const { user_id } = asker.caller;
      if (exchange.takes_tasks && exchange.answered === null && asker.caller.scopes.includes("agents:read")) {
        const run_id = await beginTask(asker, agent.id, errand);
        // The library's type of a call's result has no tasks.
        return toCreatedTask(await agents.run(user_id, agent.id, run_id), address.url()) as unknown as CallToolResult;
      }
      const has_schema = output_schema !== null;
      const run_id = await beginOrResume(asker, agent.id, errand, exchange.answered);
      const run = await follow(asker, { id: agent.id, run_id }, exchange.progress);
      if (run.status !== "requires_action") return runResult(run, has_schema);
      const inputRequests = isPutOff(exchange) || !mayDecide(asker, exchange) ? {} : toQuestions(run);
      if (Object.keys(inputRequests).length === 0) return waitingResult(run, address.url(), has_schema);
      return { resultType: "input_required", inputRequests, requestState: run_id };
    } catch (error) {
      return failure(error, asker, log);
    }
  }

  async function getRun(asker: Asker, { run_id }: z.infer<typeof getArguments>): Promise<RunDetail> {
    requireScope(asker, "agents:read");
    return await agents.findRun(asker.caller.user_id, run_id);
  }

  async function listRuns(asker: Asker, { agent, status, limit }: z.infer<typeof listArguments>) {
    requireScope(asker, "agents:read");
    const filter = status === undefined ? {} : { status };
    const { user_id } = asker.caller;
    if (agent === undefined) return await agents.latestRuns(user_id, filter, limit);
    const id = (await toolsOf(asker)).get(agent)?.id ?? agent;
    return await agents.runs(user_id, id, filter, { limit, before_id: null });
  }

  /** Reports the run's events as progress, and resolves to the run when it has finished or waits for a decision. */
  async function follow(
    asker: Asker,
    { id, run_id }: { id: string; run_id: string },
    progress: Progress,
  ): Promise<RunDetail> {
    const { caller, hung_up } = asker;
    const cancel = () => void agents.cancelRun(caller.user_id, id, run_id).catch(() => {});
    if (hung_up?.aborted) cancel();
    else hung_up?.addEventListener("abort", cancel, { once: true });
    const live = asker.live();
    let after = 0;
    const note = async (event_id: number, message: string) => {
      after = event_id;
      await progress?.(event_id, message);
    };
    try {
      for (;;) {
        const feed = await agents.follow(caller.user_id, id, { run_id, after });
        const has_waited = feed !== null && (await report(feed, note, live.refused));
        const run = await agents.run(caller.user_id, id, run_id);
        // Otherwise it was decided meanwhile.
        if (!has_waited || run.status === "requires_action" || run.finished_at !== null) return run;
      }
    } finally {
      live.leave();
      hung_up?.removeEventListener("abort", cancel);
    }
  }

  /** Starts a run that goes on without its caller. */
  async function beginTask(asker: Asker, id: string, errand: Errand): Promise<string> {
    const { caller, request_id } = asker;
    if (errand.message === undefined) return runNow(asker, id, errand);
    requireScope(asker, "chat:write");
    return (await chat.begin(caller, id, toTurn(errand.message), request_id)).id;
  }

  async function runNow(asker: Asker, id: string, { input }: Errand): Promise<string> {
    requireScope(asker, "agents:write");
    const { caller, request_id } = asker;
    return (await agents.runNow(caller, id, { request_id, wait_ms: 0, input })).id;
  }

  /** Starts the run, or decides what the run waited for that an earlier round of this call began. */
  async function beginOrResume(
    asker: Asker,
    id: string,
    errand: Errand,
    answered: Exchange["answered"],
  ): Promise<string> {
    const { caller, request_id, hung_up } = asker;
    if (answered !== null) {
      await decide(caller, await agents.run(caller.user_id, id, answered.run_id), answered.responses);
      return answered.run_id;
    }
    if (errand.message === undefined) return runNow(asker, id, errand);
    requireScope(asker, "chat:write");
    const signal = hung_up ?? new AbortController().signal;
    const turn = await chat.turn(caller, id, toTurn(errand.message), { request_id, signal, onText: null });
    // The run's record has the outcome too.
    turn.finished.catch(() => {});
    return turn.run.id;
  }

  /** Decides as the client's user has answered. An action that was decided meanwhile stays as it is. */
  async function decide(
    caller: Caller,
    run: Pick<RunDetail, "id" | "agent_id">,
    responses: Readonly<Record<string, unknown>>,
  ): Promise<void> {
    for (const { action_id, action } of readAnswers(responses)) {
      if (action === "cancel") continue;
      requireScope({ caller }, "agents:approve");
      const path = { id: run.agent_id, run_id: run.id, action_id };
      const decision = action === "accept" ? ("approve" as const) : ("reject" as const);
      await agents.decideAction(caller, path, { decision }, MCP_CLIENT).catch(unlessDecided);
    }
  }
}

/** Whether the client may ask its user to decide. */
function mayDecide({ caller }: Pick<Asker, "caller">, { elicits }: Client): boolean {
  return elicits && caller.scopes.includes("agents:approve");
}

function mayCancel({ caller }: Pick<Asker, "caller">): boolean {
  return caller.scopes.includes("agents:write") || caller.scopes.includes("chat:write");
}

/** The client's user has closed a question. It is not asked again in this call. */
function isPutOff({ answered }: Exchange): boolean {
  return readAnswers(answered?.responses ?? {}).some(({ action }) => action === "cancel");
}

function toTurn(message: string) {
  const messages = [{ role: "user" as const, content: message }];
  return { messages, stream: false, on_disconnect: "cancel" as const };
}

export type McpTools = ReturnType<typeof createMcpTools>;

/** Tells the client how far its call is; null: the client did not ask for it. */
export type Progress = ((done: number, message: string) => Promise<void>) | null;

/** Makes the server of one request. */
export function serverFactory(
  tools: McpTools,
  askerOf: (context: Parameters<McpServerFactory>[0]) => Asker,
  library: Library,
): McpServerFactory {
  return (context) => {
    const asker = askerOf(context);
    const capabilities = { tools: {}, extensions: { [TASKS_EXTENSION]: {} } };
    const server = new library.Server(INFO, { capabilities, instructions: INSTRUCTIONS });
    server.setRequestHandler("tools/list", () => tools.list(asker));
    server.setRequestHandler("tools/call", ({ params }, context) => {
      const progress = progressOf(params._meta?.progressToken, context);
      const exchange = { ...clientOf(context), progress, answered: answersIn(context) };
      return tools.call(asker, params.name, params.arguments ?? {}, exchange);
    });
    const onTask = (method: string, handle: (run_id: string, context: ServerContext) => Promise<object | undefined>) =>
      server.setRequestHandler(method, { params: taskParams }, async ({ taskId }, context) => {
        if (!clientOf(context).takes_tasks) throw new library.MissingRequiredClientCapabilityError(NEEDS_TASKS);
        return { ...(await handle(taskId, context).catch(rethrowUnknownTask(library))) };
      });
    onTask("tasks/get", (run_id, context) => tools.task(asker, run_id, clientOf(context)));
    onTask("tasks/update", (run_id, { mcpReq }) => tools.updateTask(asker, run_id, mcpReq.inputResponses ?? {}));
    onTask("tasks/cancel", (run_id) => tools.cancelTask(asker, run_id));
    return server;
  };
}

/** The parts of the protocol's library that are used here. It is loaded on first use. */
type Library = Pick<
  typeof import("@modelcontextprotocol/server"),
  "Server" | "ProtocolError" | "ProtocolErrorCode" | "MissingRequiredClientCapabilityError"
>;

const CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
const NEEDS_TASKS = { requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } } };

const rethrowUnknownTask = (library: Library) => (error: unknown) => {
  if (asPurserError(error).code !== "not_found") throw error;
  throw new library.ProtocolError(library.ProtocolErrorCode.InvalidParams, "This task does not exist.");
};

/** What the client of a request declares. Before version 2026-07-28 a request declares nothing. */
function clientOf({ mcpReq }: ServerContext): Client {
  const envelope: Readonly<Record<string, unknown>> = mcpReq.envelope ?? {};
  const { elicitation, extensions } = (envelope[CLIENT_CAPABILITIES] ?? {}) as ClientCapabilities;
  const has_form = elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined);
  return { takes_tasks: extensions?.[TASKS_EXTENSION] !== undefined, elicits: has_form };
}

/** The answers to what the run asked that an earlier round of this call began. Its id is the state of the request. */
function answersIn({ mcpReq }: ServerContext): Exchange["answered"] {
  const run_id = mcpReq.requestState();
  return typeof run_id === "string" ? { run_id, responses: mcpReq.inputResponses ?? {} } : null;
}

function progressOf(token: string | number | undefined, { mcpReq }: ServerContext): Progress {
  if (token === undefined) return null;
  return async (progress, message) => {
    const params = { progressToken: token, progress, message };
    await mcpReq.notify({ method: "notifications/progress", params }).catch(() => {});
  };
}

/**
 * Reads the run's events until it ends or waits, and reports each. Returns whether it waits. Throws the error of a caller
 * that loses access.
 */
async function report(feed: EventFeed, note: NonNullable<Progress>, refused: AbortSignal): Promise<boolean> {
  try {
    for (;;) {
      const { done, value } = await raceAbort(feed.next(), refused);
      if (done === true || value === undefined) return false;
      for (const block of value.split("\n\n")) {
        const [id, event, data] = ["id", "event", "data"].map(
          (field) => new RegExp(`^${field}: ?(.*)$`, "m").exec(block)?.[1],
        );
        if (event === "run.requires_action") return true;
        if (id !== undefined && event !== undefined) await note(Number(id), messageOf(event, data ?? "{}"));
      }
    }
  } finally {
    void feed.leave();
  }
}

function messageOf(event: string, data: string): string {
  const { index, name, status } = JSON.parse(data) as { index?: number; name?: string; status?: string };
  if (event === "step.started") return `step ${index}: ${name}`;
  if (event === "step.finished") return `step ${index}: ${name} ${status}`;
  return event.replace(".", " ");
}

function shown(value: object): CallToolResult {
  return { content: [{ type: "text", text: JSON.stringify(value) }], structuredContent: { ...value } };
}

/** The error as contract 2 writes it, in a result that the client's model reads. */
function failure(thrown: unknown, asker: Asker, log: Pick<Log, "error">): CallToolResult {
  const { request_id } = asker;
  const { type, code, message, param, metadata } = loggedError(thrown, asker, log).shape;
  const body = { error: { type, code, message, param: param ?? null, request_id, ...(metadata ? { metadata } : {}) } };
  return { content: [{ type: "text", text: message }], structuredContent: body, isError: true };
}

/** The error for the caller. Logs an internal one. */
function loggedError(thrown: unknown, { request_id }: Asker, log: Pick<Log, "error">): PurserError {
  const error = asPurserError(thrown);
  if (error.code === "internal") {
    log.error({ request_id, ...describeUnexpected(thrown as Error) }, "an MCP call failed");
  }
  return error;
}

/** The action was decided, has expired, or is none of this run. */
function unlessDecided(error: unknown): void {
  if (!(error instanceof PurserError) || ![404, 409].includes(error.shape.status)) throw error;
}

function unlessFinished(error: unknown): void {
  if (!(error instanceof PurserError)) throw error;
}

function requireScope({ caller }: Pick<Asker, "caller">, scope: Scope): void {
  if (!caller.scopes.includes(scope)) throw httpErrors.insufficientScope(scope);
}

function parsed<T>(schema: z.ZodType<T>, given: unknown): T {
  const { success, data, error } = schema.safeParse(given);
  if (success) return data;
  const [issue] = error.issues;
  const param = issue?.path.join(".") || "arguments";
  throw errors.invalidValue(param, `${param}: ${issue?.message ?? "not valid"}.`);
}

const RUN_SCHEMA = {
  type: "object" as const,
  properties: {
    input: { type: "string", description: "a message to the agent; without it the agent does its own task" },
  },
  additionalProperties: false,
};
const READ_ONLY = { readOnlyHint: true };
const READ_TOOLS: ListToolsResult["tools"] = [
  {
    name: "get_run",
    description: "A run of an agent, with its output and its steps.",
    inputSchema: {
      type: "object",
      properties: { run_id: { type: "string", description: "the run's id" } },
      required: ["run_id"],
      additionalProperties: false,
    },
    annotations: READ_ONLY,
  },
  {
    name: "list_runs",
    description: "The latest runs, newest first, without their output.",
    inputSchema: {
      type: "object",
      properties: {
        agent: { type: "string", description: "only of this agent: its tool's name, such as run_report, or its id" },
        status: { type: "string", enum: runStatusSchema.options },
        limit: { type: "integer", minimum: 1, maximum: MAX_LISTED, default: 20 },
      },
      additionalProperties: false,
    },
    annotations: READ_ONLY,
  },
];

export interface NamedAgent {
  readonly id: string;
  readonly name: string;
}

const MAX_SLUG = 48;
const SUFFIX = 8;

/**
 * The tool name of each agent. Agents whose slugs are equal all get the end of their id, so that a name never passes
 * from one to the other without notice.
 */
export function toolNames<Agent extends NamedAgent>(agents: readonly Agent[]): Map<string, Agent> {
  const slugs = Map.groupBy(agents, ({ name }) => slugOf(name));
  const named = [...slugs].flatMap(([slug, group]) =>
    group.map((agent): [string, Agent] => [
      group.length === 1 ? `run_${slug}` : `run_${slug}_${agent.id.replaceAll("-", "").slice(-SUFFIX)}`,
      agent,
    ]),
  );
  return new Map(named);
}

/** Lower-case letters, digits and single `_`: what every model's provider takes in a tool's name. */
export function slugOf(name: string): string {
  const plain = name.normalize("NFKD").replaceAll(/\p{M}/gu, "").toLowerCase();
  const slug = plain
    .replaceAll(/[^a-z0-9]+/g, "_")
    .slice(0, MAX_SLUG)
    .replaceAll(/^_+|_+$/g, "");
  return slug === "" ? "agent" : slug;
}
