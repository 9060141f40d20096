import { agentErrors } from "../../agents/definitions/errors.ts";
import { runErrors } from "../../agents/runs/errors.ts";
import type { AgentChat } from "../../api/contract/agents.ts";
import type { Caller } from "../../api/contract/caller.ts";
import type { ChatMessage } from "../../api/contract/completions.ts";
import { keyTermsOf } from "../../api/contract/key-terms.ts";
import { labelsOf, metadataIn } from "../../api/contract/labels.ts";
import type { RunDetail, RunRecord } from "../../api/contract/runs.ts";
import { errors, PurserError } from "../../kernel/errors.ts";
import { newId } from "../../platform/lib/ids.ts";
import { activeSpan } from "../../platform/telemetry/tracing.ts";
import type { Agents } from "../definitions/agents.service.ts";
import type { RunResult } from "../runs/run-work.ts";
import type { RunListener } from "../runs/runner.service.ts";
import type { Runs } from "../runs/runs.service.ts";
import type { ClaimedRun, NewRun, StartedRun } from "../runs/runs.types.ts";
import {
  collectToolNames,
  type EngineInput,
  type ModelResult,
  type PastStep,
  readToolCalls,
  selectClientTools,
  selectSetUpSteps,
} from "../runs/transcript.ts";
import { toWaiting } from "../runs/waiting-words.ts";
import { type FinishedTurn, totalUsage } from "./chat-answer.ts";
import { chatErrors } from "./errors.ts";
import { type ThreadInput, type Threads, threadsOfAgents } from "./threads.service.ts";

/** contract 6: the time that a chat waits for a free place. */
const WAIT_MS = 30_000;
/** The reservation lasts longer than the wait, so that the caller's wait decides. */
const RESERVED_MS = WAIT_MS + 5_000;

/** The caller who waits for a chat's run on this node. */
interface Listener extends RunListener {
  onStart(): void;
}

/** A turn to begin. A caller of an agent as a model may send its own tools, and messages of them. */
export type TurnRequest = Omit<AgentChat, "messages"> &
  Pick<EngineInput, "tools" | "tool_choice" | "response_format"> & { messages: ChatMessage[] };

/** A turn of a conversation that was queued. */
export interface Turn {
  run: RunRecord;
  /** null: the turn does not belong to a thread. */
  thread_id: string | null;
  /** The answer, or that it waits for a decision. Throws the turn's error: 402, 429, 502 and so on, with the run's id in its metadata. */
  finished: Promise<FinishedTurn>;
}

export interface TurnOptions {
  request_id: string;
  /** Aborted when the caller hangs up. */
  signal: AbortSignal;
  /** Called with the answer's text as it is generated. */
  onText: ((text: string) => void) | null;
}

type ReadyAgent = Awaited<ReturnType<Agents["ready"]>>;

/** The signals that end the wait for an answer. */
interface Wait {
  started: AbortSignal;
  ended: Promise<RunResult | null>;
  /** Cancels the run when aborted; null: the run is not cancelled. */
  hung_up: AbortSignal | null;
}

/** Chat with an agent. Each turn is a run that this node executes, so that its caller receives the text. */
export function createChat(deps: {
  agents: Pick<Agents, "ready" | "newRun" | "ownZone" | "find">;
  runs: Pick<Runs, "startRun" | "requestCancel" | "waitFinished" | "getRun">;
  threads: Threads;
  worker_id: string;
  /** Whether a model reads pictures; null: there is no such model. */
  takesPictures(model_id: string): boolean | null;
  /** The public address of the service. */
  url(): string;
}) {
  const { agents, runs, threads, worker_id } = deps;
  const listeners = new Map<string, Listener>();

  return {
    turn,
    begin,
    threads: threadsOfAgents(threads, agents.find),
    /** Whether a caller waits for an answer on this node. */
    isAwaited: () => listeners.size > 0,
    /**
     * The caller who waits for the run, if it is a chat of this node. From this call on the run has started for that
     * caller.
     */
    findListener(run: ClaimedRun): Listener | null {
      if (!run.has_caller) return null;
      const listener = listeners.get((run.engine_input as EngineInput).ticket ?? "") ?? null;
      listener?.onStart();
      return listener;
    },
  };

  /** Queues a turn whose caller does not wait for its answer. Any worker executes it. */
  async function begin(caller: Caller, id: string, chat: TurnRequest, request_id: string): Promise<RunRecord> {
    const { agent, input } = await prepare(caller, id, chat, request_id);
    return start(agent, { ...input, ticket: null }, chat.thread_id);
  }

  async function prepare(caller: Caller, id: string, chat: TurnRequest, request_id: string) {
    const agent = await agents.ready(caller, id);
    refusePictures(agent, chat.messages, deps.takesPictures);
    // Without placeholders a chat is told no time.
    const zone = agent.system_prompt?.includes("{{") ? await agents.ownZone(agent) : {};
    const { messages, tools, tool_choice, response_format } = chat;
    const input = {
      messages,
      request_id,
      ...keyTermsOf({ ...caller, labels: labelsOf(chat) ?? caller.labels ?? null }),
      ...(tools === undefined ? {} : { tools, ...(tool_choice === undefined ? {} : { tool_choice }) }),
      ...(response_format === undefined ? {} : { response_format }),
      ...zone,
    };
    return { agent, input };
  }

  /** Queues a turn. A caller that disconnects cancels the run, unless the request asks it to continue. */
  async function turn(caller: Caller, id: string, chat: TurnRequest, options: TurnOptions): Promise<Turn> {
    const { agent, input } = await prepare(caller, id, chat, options.request_id);
    const ticket = newId();
    const started = new AbortController();
    const ended = Promise.withResolvers<RunResult | null>();
    const { onText } = options;
    listeners.set(ticket, { onStart: () => started.abort(), onText, onEnd: ended.resolve, span: activeSpan() });
    const forget = () => listeners.delete(ticket);
    try {
      const run = await start(agent, { ...input, ticket }, chat.thread_id);
      const hung_up = chat.on_disconnect === "continue" ? null : options.signal;
      const thread_id = chat.thread_id ?? null;
      const wait = { started: started.signal, ended: ended.promise, hung_up };
      const client_tools = collectToolNames(selectClientTools(agent, { ...input, ticket }));
      const finished = answerOf(run, { user_id: caller.user_id, thread_id, client_tools }, wait);
      return { run, thread_id, finished: finished.finally(forget) };
    } catch (error) {
      forget();
      throw error;
    }
  }

  async function start(agent: ReadyAgent, input: EngineInput, thread_id: string | undefined): Promise<RunRecord> {
    const id = newId();
    const is_detached = input.ticket === null;
    const reserved = is_detached ? undefined : { worker_id, for_ms: RESERVED_MS };
    const run = {
      ...agents.newRun(agent, "chat", input),
      id,
      metadata: metadataIn(input.labels),
      reserved,
      is_detached,
    };
    const started = await (thread_id === undefined ? runs.startRun(run) : startInThread(agent, run, thread_id));
    if (started.refusal !== null) throw agentErrors.agentDisabled();
    return started.run;
  }

  async function startInThread(
    agent: ReadyAgent,
    run: NewRun & { id: string },
    thread_id: string,
  ): Promise<StartedRun> {
    const key = { user_id: agent.user_id, agent_id: agent.id, thread_id };
    const model_id = agent.auto_route ? await threads.lastModel(key) : run.model_id;
    const engine_input: ThreadInput = { ...(run.engine_input as EngineInput), thread_id };
    return runs.startRun({ ...run, model_id, engine_input }, (tx) =>
      threads.begin(tx, key, { run_id: run.id, messages: engine_input.messages ?? [] }),
    );
  }

  async function answerOf(
    run: RunRecord,
    { user_id, thread_id, client_tools }: Pick<Waited, "thread_id" | "client_tools"> & { user_id: string },
    { started, ended, hung_up }: Wait,
  ): Promise<FinishedTurn> {
    const key = { user_id, agent_id: run.agent_id };
    const cancel = () => {
      runs.requestCancel(key, run.id).catch(() => {}); // the run has already finished
    };
    if (hung_up?.aborted) cancel();
    else hung_up?.addEventListener("abort", cancel, { once: true });
    try {
      // The wait ends when the run starts or is cancelled in the queue, the caller disconnects, or this process shuts
      // down.
      const over = hung_up === null ? started : AbortSignal.any([started, hung_up]);
      await runs.waitFinished(user_id, run.id, WAIT_MS, over);
      const result = started.aborted ? await ended : null;
      const now = await runs.getRun(key, run.id);
      if (started.aborted || now.finished_at !== null) {
        const origin = deps.url();
        return finishedTurn(now, { thread_id, client_tools, result, is_heard: !hung_up?.aborted, origin });
      }
      cancel();
      throw errors.rateLimited(1, "Too many runs are at work. Retry when one has finished.");
    } finally {
      hung_up?.removeEventListener("abort", cancel);
    }
  }
}

export type Chat = ReturnType<typeof createChat>;

/** Throws 400 for a picture to an agent whose model reads none. With automatic routing a model that does is chosen. */
function refusePictures(
  { auto_route, model_id }: ReadyAgent,
  messages: readonly ChatMessage[],
  takesPictures: (model_id: string) => boolean | null,
): void {
  if (auto_route || model_id === null || takesPictures(model_id) !== false) return;
  for (const [index, { content }] of messages.entries()) {
    const at = Array.isArray(content) ? content.findIndex(({ type }) => type === "image_url") : -1;
    if (at === -1) continue;
    throw errors.invalidValue(
      `messages[${index}].content[${at}]`,
      `The agent's model ${model_id} reads no pictures. Send text only, or give the agent a model with supports.vision (GET /api/v1/models).`,
    );
  }
}

/** What the answer to a caller depends on, beside the run. */
interface Waited {
  thread_id: string | null;
  /** The names of the caller's tools. */
  client_tools: ReadonlySet<string>;
  result: RunResult | null;
  is_heard: boolean;
  /** The public address of the service. */
  origin: string;
}

/** The last answer with its calls to the caller's tools; null if it has none. */
function askedOf({ steps }: RunDetail, client_tools: ReadonlySet<string>): FinishedTurn["asked"] {
  const last = steps.at(-1);
  if (last?.type !== "model") return null;
  const tool_calls = readToolCalls(last as PastStep).filter((call) => client_tools.has(call.function.name));
  if (tool_calls.length === 0) return null;
  const { reasoning_content, reasoning_details } = last.result as ModelResult;
  return {
    ...(reasoning_content == null ? {} : { reasoning_content }),
    ...(reasoning_details == null ? {} : { reasoning_details }),
    tool_calls,
  } as FinishedTurn["asked"];
}

/** The turn that has ended, or that waits for a decision. Throws the turn's error. */
function finishedTurn(run: RunDetail, { thread_id, client_tools, result, is_heard, origin }: Waited): FinishedTurn {
  if (result?.finish === null) {
    const usage = totalUsage(result.usages);
    return { run, thread_id, usage, finish_reason: "stop", asked: null, waiting: toWaiting(run, origin) };
  }
  if (run.status === "succeeded" && result !== null) {
    const { finish_reason, usages } = result;
    const asked = askedOf(run, client_tools);
    return { run, thread_id, usage: totalUsage(usages), finish_reason, asked, waiting: null };
  }
  const failure = failureOf(run, result);
  // A caller that disconnected may repeat the request if no tool was called.
  const asked_for = run.steps.slice(selectSetUpSteps(run.steps).length);
  const has_acted = (is_heard && run.usage.cost_tokens > 0) || asked_for.some(({ type }) => type === "tool");
  // Without a cause it is a failure of the run or its user, which the operator's log does not need.
  throw failure.with({ metadata: { ...failure.shape.metadata, run_id: run.id }, has_acted });
}

/** The error that the caller of a chat receives. */
function failureOf(run: RunDetail, result: RunResult | null): PurserError {
  if (run.status === "cancelled") return chatErrors.runCancelled();
  const { code, message } = run.error ?? { code: "internal", message: "" };
  if (code === "timeout") return errors.upstreamTimeout().with({ message });
  // The model call's error has more detail than the run's error, and a status.
  if (result?.thrown instanceof PurserError) return result.thrown;
  if (code === "worker_lost") return errors.overloaded().with({ message });
  return code === "internal" ? errors.internal(result?.thrown) : runErrors.runFailed({ code, message });
}
