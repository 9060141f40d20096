import { setTimeout as delay } from "node:timers/promises";
import type { Usage } from "../../api/contract/completions.ts";
import type { RunError } from "../../api/contract/runs.ts";
import { MAX_REMOVED } from "../../kernel/constants.ts";
import type { Metrics } from "../../platform/telemetry/metrics.ts";
import {
  activeSpan,
  inSpan,
  type Span,
  type SpanStart,
  type Tracer,
  within,
} from "../../platform/telemetry/tracing.ts";
import type { Sanitized } from "../../safety/sanitize.ts";
import { BUSY, type Sanitizers } from "../../safety/sanitizer.ts";
import { textKind } from "../tools/fetched-text.ts";
import { MAX_TEXT_CHARS } from "../tools/safe-answer.ts";
import type { ToolResult } from "../tools/tools.types.ts";
import { createEngine } from "./engine.ts";
import type { RunFollowers } from "./following.ts";
import { fenceLastOutput, renderSafePrompts, usesLastRun } from "./prompts.ts";
import type { EngineDeps, RunResult } from "./run-work.ts";
import { createRetry, createRunWriter } from "./run-writer.ts";
import type { Runs } from "./runs.service.ts";
import type { ClaimedRun, ClaimLimits, RunFinish } from "./runs.types.ts";
import { type EngineInput, type RunConfig, runConfig } from "./transcript.ts";
import { createWorker, type WorkControl } from "./worker.ts";

/** A caller on this node who waits for a run's answer. */
export interface RunListener {
  onText: ((text: string) => void) | null;
  /** The run has ended or waits; null: it has no result here, and another worker may resume it. */
  onEnd(result: RunResult | null): void;
  /** The span of the caller's request. */
  span: Span | null;
}

export interface RunnerDeps extends Omit<EngineDeps, "runs" | "onStepStarted"> {
  runs: Runs;
  followers: RunFollowers;
  worker_id: string;
  /** A reload replaces them. */
  limits(): ClaimLimits;
  sanitizer: Sanitizers;
  /** This node executes only the runs that are reserved for it: chats of its own callers, and in a drill its run-nows. */
  reserved_only: boolean;
  /** The time at shutdown for chats, which are calls in flight. */
  drain_seconds: number;
  /** The configuration of an agent's version; absent when the agent was deleted. */
  loadConfig(version: { user_id: string; agent_id: string; version: number }): Promise<RunConfig | undefined>;
  /** The run with its thread's earlier turns in its input. */
  withHistory(run: ClaimedRun, config: RunConfig): Promise<ClaimedRun>;
  /** The caller who waits for the run on this node. From this call on the run has started for that caller. */
  findListener(run: ClaimedRun): RunListener | null;
  /** Whether a caller waits for an answer on this node. */
  isAwaited(): boolean;
  metrics: Pick<Metrics, "runFinished" | "runsInProgress" | "scheduledRunBegan">;
  /** Null: no traces are recorded. */
  tracer: Tracer | null;
}

/** The layer is asked again this often while it is busy. */
const SAFETY_TRIES = 5;
const SAFETY_RETRY_MS = 2_000;
const UNCHECKED = Symbol("the safety layer could not read the input");
const UNCHECKED_INPUT: RunError = {
  code: "unsafe_content",
  message:
    "The safety layer could not check the delivery's body: it is too intricate, or too many pages waited. Send the delivery again.",
};

/** Executes the runs that this node's worker claims, and streams their events. */
export function createRunner(deps: RunnerDeps) {
  const { runs, followers, log, metrics, findListener } = deps;
  const stopping = new AbortController();
  const retry = createRetry({ log, stopping: stopping.signal });
  const writer = createRunWriter(runs, { retry, onStep: followers.noteChange });
  const { startStepHook, finishStepHook, addUsageHook } = runs;
  const { clock, completions, tools, ledger, models, newMark } = deps;
  const engine = createEngine({
    clock,
    completions,
    tools,
    ledger,
    models,
    newMark,
    log,
    runs: { ...writer, startStepHook, finishStepHook, addUsageHook },
    onStepStarted: followers.noteChange,
  });
  const { worker_id, limits, reserved_only, drain_seconds, isAwaited } = deps;
  const worker = createWorker({
    worker_id,
    runs,
    limits,
    reserved_only,
    drain_seconds,
    isAwaited,
    log,
    carryOut,
    inProgress: metrics.runsInProgress,
  });

  const countEnd = ({ lease, agent_id, trigger, started_at }: ClaimedRun, { usages }: RunResult, finish: RunFinish) => {
    const code = finish.status === "failed" ? finish.error.code : null;
    metrics.runFinished(finish.status, code);
    const { run_id, user_id } = lease;
    const sum = (tokensOf: (usage: Usage) => number) => usages.reduce((total, usage) => total + tokensOf(usage), 0);
    activeSpan()?.set({
      "purser.run.status": finish.status,
      "gen_ai.usage.input_tokens": sum(({ input_tokens }) => input_tokens),
      "gen_ai.usage.output_tokens": sum(({ output_tokens }) => output_tokens),
      ...(code === null ? {} : { "error.type": code }),
    });
    const figures = {
      ms: Date.parse(deps.clock.now()) - Date.parse(started_at),
      tokens: sum(({ total_tokens }) => total_tokens),
      cost_tokens: sum(({ cost_tokens }) => cost_tokens),
    };
    log.info({ run_id, user_id, agent_id, trigger, status: finish.status, code, ...figures }, "run");
  };
  /** Counts the first claim of a due run, not the later ones. */
  const countBegin = ({ lease, scheduled_for, started_at }: ClaimedRun) => {
    if (scheduled_for === null || lease.epoch > 1) return;
    metrics.scheduledRunBegan(Date.parse(started_at) - Date.parse(scheduled_for));
  };
  /** The trace id of a run is its id, so all its workers write one trace. A chat belongs to the trace of its request. */
  function carryOut(claimed: ClaimedRun, control: WorkControl): Promise<void> {
    countBegin(claimed);
    const listener = findListener(claimed);
    const trace_id = claimed.lease.run_id.replaceAll("-", "");
    const start = describeSpan(claimed);
    const span = listener?.span?.begin(start) ?? deps.tracer?.begin(start, { trace_id }) ?? null;
    if (span === null) return within(null, () => executeClaimed(claimed, control, listener));
    return inSpan(span, () => executeClaimed(claimed, control, listener));
  }
  async function executeClaimed(
    claimed: ClaimedRun,
    control: WorkControl,
    listener: RunListener | null,
  ): Promise<void> {
    const { user_id, run_id } = claimed.lease;
    const onText = (text: string) => {
      listener?.onText?.(text);
      followers.addText(run_id, text);
    };
    try {
      const version = { user_id, agent_id: claimed.agent_id, version: claimed.agent_version };
      const stored = await retry(() => deps.loadConfig(version));
      if (stored === undefined) {
        // The agent was deleted while the run was being queued, or waited.
        await writer.finishRun(claimed.lease, { status: "cancelled" });
        return listener?.onEnd(null);
      }
      const config = runConfig(stored, claimed);
      const with_last = await withLastRun(claimed, config);
      const begun = with_last === null ? null : await withSafeInput(with_last, config);
      if (begun === null) return listener?.onEnd(null);
      const run = await retry(() => deps.withHistory(begun, config));
      // Its caller is connected to this process, so such a run may finish while other runs are handed back.
      const isDraining = run.has_caller ? () => false : control.isDraining;
      const result = await end(run, await engine.execute(run, config, { ...control, isDraining, onText }));
      listener?.onEnd(result);
    } catch (error) {
      log.error(
        { run_id, error },
        "the worker stopped executing a run; another worker resumes it when its lease expires",
      );
      listener?.onEnd(null);
    } finally {
      void deps.tools.endRun(run_id);
    }
    followers.noteChange(run_id);
  }

  /** Records the end of the run. Resolves to its result; null: it has none here. */
  async function end(run: ClaimedRun, result: RunResult | null): Promise<RunResult | null> {
    if (result === null || result.finish === null) return result;
    if (result.end !== null) runs.noteEnd(run.lease, result.end);
    else if (!(await writer.finishRun(run.lease, result.finish))) return null;
    countEnd(run, result, result.finish);
    return result;
  }

  /** The run with the last succeeded one, if its prompts show that. Null: its lease is lost. */
  async function withLastRun(claimed: ClaimedRun, config: RunConfig): Promise<ClaimedRun | null> {
    const { lease, engine_input } = claimed;
    const input = engine_input as EngineInput;
    if (!usesLastRun(config) || input.last !== undefined) return claimed;
    const found = await retry(() => runs.lastOutput(lease));
    const last = found === null ? null : { ...found, output: fenceLastOutput(found.output, newMark()) };
    const is_recorded = await retry(() => runs.recordInput(lease, { last }));
    return is_recorded ? { ...claimed, engine_input: { ...input, last } } : null;
  }

  /** A trigger's run with prompts whose input the safety layer has read. Null: it failed, or its lease is lost. */
  async function withSafeInput(claimed: ClaimedRun, config: RunConfig): Promise<ClaimedRun | null> {
    const { lease, trigger } = claimed;
    const input = claimed.engine_input as EngineInput;
    const { input_mark: mark } = input;
    if (trigger !== "webhook" || mark === undefined || input.prompts !== undefined) return claimed;
    const layer = deps.sanitizer.of(lease.user_id);
    const found: Sanitized[] = [];
    const makeSafe = async (content: string): Promise<string> => {
      const kind = textKind(content);
      for (let tries = 1; ; tries += 1) {
        const sanitized = await layer.sanitize({ content, kind, level: "balanced", mark, max_chars: MAX_TEXT_CHARS });
        if (sanitized === null || (sanitized === BUSY && tries === SAFETY_TRIES)) throw UNCHECKED;
        if (sanitized === BUSY) {
          await delay(SAFETY_RETRY_MS);
          continue;
        }
        found.push(sanitized);
        return sanitized.text;
      }
    };
    try {
      const prompts = await renderSafePrompts(config, claimed, makeSafe);
      const recorded = { prompts, input_safety: joinFindings(found) };
      const is_recorded = await retry(() => runs.recordInput(lease, recorded));
      return is_recorded ? { ...claimed, engine_input: { ...input, ...recorded } } : null;
    } catch (thrown) {
      if (thrown !== UNCHECKED) throw thrown;
      await writer.finishRun(lease, { status: "failed", error: UNCHECKED_INPUT });
      return null;
    }
  }

  return {
    start: worker.start,
    async stop(): Promise<void> {
      stopping.abort();
      await worker.stop();
      followers.end();
    },
  };
}

/** The findings in all texts of an input; null: nothing was found. */
function joinFindings(found: readonly Sanitized[]): ToolResult["safety"] {
  const [worst] = found.toSorted((a, b) => b.verdict.score - a.verdict.score);
  const removed = found.flatMap((each) => each.removed).slice(0, MAX_REMOVED);
  const marked = found.flatMap((each) => each.marked).slice(0, MAX_REMOVED);
  if (worst === undefined || removed.length + marked.length === 0) return null;
  return { verdict: worst.verdict, removed, ...(marked.length === 0 ? {} : { marked }) };
}

/** By the conventions for GenAI. The agent's name is the user's own text, so only its id is sent. */
function describeSpan({ lease, agent_id, trigger, attempt, engine_input }: ClaimedRun): SpanStart {
  const { thread_id } = (engine_input ?? {}) as { thread_id?: string };
  return {
    name: "invoke_agent",
    kind: "internal",
    attributes: {
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.provider.name": "purser",
      "gen_ai.conversation.id": thread_id,
      "purser.agent.id": agent_id,
      "user.id": lease.user_id,
      "purser.run.id": lease.run_id,
      "purser.run.trigger": trigger,
      "purser.run.attempt": attempt,
    },
  };
}
