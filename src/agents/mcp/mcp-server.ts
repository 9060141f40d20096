import type {
  CallToolResult,
  ListToolsResult,
  McpServerFactory,
  Server,
  ServerContext,
} from "@modelcontextprotocol/server";
import type { Caller, LiveCaller, Scope } from "../../api/contract/caller.ts";
import { textSchema } from "../../api/contract/common.ts";
import { type RunData, type RunDetail, runStatusSchema } from "../../api/contract/runs.ts";
import { z } from "../../api/contract/zod.ts";
import { httpErrors } from "../../api/http/errors.ts";
import { asPurserError, errors, PurserError } from "../../kernel/errors.ts";
import { raceAbort } from "../../platform/lib/race-abort.ts";
import type { EventFeed } from "../../platform/net/event-stream.ts";
import { describeUnexpected, type Log } from "../../platform/telemetry/log.ts";
import type { Chat } from "../chat/chat.service.ts";
import type { Agents } from "../definitions/agents.service.ts";

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
  >;
  chat: Pick<Chat, "turn">;
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
interface Task {
  message?: string | undefined;
  input?: RunData;
}

/** The account's agents as tools. */
export function createMcpTools({ agents, chat, log }: McpServerDeps) {
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
      if (!caller.scopes.includes("agents:write") && !caller.scopes.includes("chat:write")) return;
      const found = await agents.unfinishedRun(caller.user_id, request_id);
      if (found !== null) await agents.cancelRun(caller.user_id, found.agent_id, found.id).catch(unlessFinished);
    },
  };

  async function call(asker: Asker, name: string, given: unknown, progress: Progress): Promise<CallToolResult> {
    try {
      if (name === "get_run") return shown(await getRun(asker, parsed(getArguments, given)));
      if (name === "list_runs") return shown({ runs: await listRuns(asker, parsed(listArguments, given)) });
      const agent = (await toolsOf(asker)).get(name);
      if (agent === undefined) throw errors.notFound(`The tool ${JSON.stringify(name.slice(0, 64))}`);
      const { input_schema, output_schema } = await agents.find(asker.caller.user_id, agent.id);
      const task =
        input_schema === null
          ? { message: parsed(runArguments, given).input }
          : { input: parsed(inputArguments, given) };
      return runResult(await runAgent(asker, agent.id, task, progress), output_schema !== null);
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

  /** Starts the run, reports its events as progress, and resolves to the finished run. */
  async function runAgent(asker: Asker, id: string, task: Task, progress: Progress): Promise<RunDetail> {
    requireScope(asker, task.message === undefined ? "agents:write" : "chat:write");
    const { caller, hung_up } = asker;
    const run_id = await begin(asker, id, task);
    const cancel = () => void agents.cancelRun(caller.user_id, id, run_id).catch(() => {});
    if (hung_up?.aborted) cancel();
    else hung_up?.addEventListener("abort", cancel, { once: true });
    const live = asker.live();
    try {
      const feed = await agents.follow(caller.user_id, id, { run_id, after: 0 });
      if (feed !== null) await report(feed, progress, live.refused);
      return await agents.run(caller.user_id, id, run_id);
    } finally {
      live.leave();
      hung_up?.removeEventListener("abort", cancel);
    }
  }

  async function begin({ caller, request_id, hung_up }: Asker, id: string, task: Task): Promise<string> {
    const { message, input } = task;
    if (message === undefined) return (await agents.runNow(caller, id, { request_id, wait_ms: 0, input })).id;
    const messages = [{ role: "user" as const, content: message }];
    const asked = { messages, stream: false, on_disconnect: "cancel" as const };
    const signal = hung_up ?? new AbortController().signal;
    const turn = await chat.turn(caller, id, asked, { request_id, signal, onText: null });
    // The run's record has the outcome too.
    turn.finished.catch(() => {});
    return turn.run.id;
  }
}

export type McpTools = ReturnType<typeof createMcpTools>;

/** Tells the client how far its call is; null: the client did not ask for it. */
export type Progress = ((done: number, message: string) => Promise<void>) | null;

/** Makes the server of one request. */
export function serverFactory(
  tools: McpTools,
  askerOf: (context: Parameters<McpServerFactory>[0]) => Asker,
  { Server: ServerClass }: { Server: new (...given: ConstructorParameters<typeof Server>) => Server },
): McpServerFactory {
  return (context) => {
    const asker = askerOf(context);
    const server = new ServerClass(INFO, { capabilities: { tools: {} }, instructions: INSTRUCTIONS });
    server.setRequestHandler("tools/list", () => tools.list(asker));
    server.setRequestHandler("tools/call", ({ params }, exchange) =>
      tools.call(asker, params.name, params.arguments ?? {}, progressOf(params._meta?.progressToken, exchange)),
    );
    return server;
  };
}

function progressOf(token: string | number | undefined, { mcpReq }: ServerContext): Progress {
  if (token === undefined) return null;
  return async (progress, message) => {
    const params = { progressToken: token, progress, message };
    await mcpReq.notify({ method: "notifications/progress", params }).catch(() => {});
  };
}

/** Reads the run's events to their end, and reports each. Throws the error of a caller that loses access. */
async function report(feed: EventFeed, progress: Progress, refused: AbortSignal): Promise<void> {
  try {
    for (;;) {
      const { done, value } = await raceAbort(feed.next(), refused);
      if (done === true || value === undefined) return;
      if (progress === null) continue;
      for (const block of value.split("\n\n")) {
        const [id, event, data] = ["id", "event", "data"].map(
          (field) => new RegExp(`^${field}: ?(.*)$`, "m").exec(block)?.[1],
        );
        if (id !== undefined && event !== undefined) await progress(Number(id), messageOf(event, data ?? "{}"));
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

/** With a schema the structured content is the output itself, as the tool's outputSchema says, and `_meta` has the run. */
function runResult(run: RunDetail, has_schema: boolean): CallToolResult {
  const { id, agent_id, status, output, output_json, usage, error } = run;
  const text = status === "succeeded" ? (output ?? "") : `The run ${status}. ${error?.message ?? ""}`.trim();
  const content = [{ type: "text" as const, text }];
  const record = { run_id: id, agent_id, status, output, usage, error };
  if (!has_schema || status !== "succeeded")
    return { content, structuredContent: record, isError: status !== "succeeded" };
  const structuredContent = output_json as Record<string, unknown>;
  return { content, structuredContent, isError: false, _meta: { run_id: id, agent_id, usage } };
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

function unlessFinished(error: unknown): void {
  if (!(error instanceof PurserError)) throw error;
}

function requireScope({ caller }: Asker, scope: Scope): void {
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
