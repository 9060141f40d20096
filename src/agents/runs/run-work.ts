import type { Ledger, TransactionHookAnswer } from "../../account/ledger/ledger.types.ts";
import type { FinishReason, Usage } from "../../api/contract/completions.ts";
import type { RunError } from "../../api/contract/runs.ts";
import type { Completions } from "../../gateway/completions/completions.types.ts";
import type { Models } from "../../gateway/models/models.service.ts";
import type { Tx } from "../../platform/db/db.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { Tools } from "../tools/tools.service.ts";
import type { OutputRule } from "./output.ts";
import type { WaitingStatus } from "./run-state.ts";
import type { RunWriter } from "./run-writer.ts";
import type { Runs } from "./runs.service.ts";
import type { CallAction, ClaimedRun, RunFinish, Suspension } from "./runs.types.ts";
import type { EngineInput, Prompts, RunConfig, RunStep } from "./transcript.ts";

/**
 * Why the worker leaves a run before its end: a cancel request, the timeout, a lost lease, or the shutdown of this
 * process.
 */
export type StopReason = "cancelling" | "timeout" | "lost" | "stopping";

/** The result of a step: null, and the run continues; why the worker must leave it; or what the run must wait for. */
export type StepResult = StopReason | Suspension | null;

/**
 * The result of a step that must wait for something outside: the worker leaves the run without a lease, a hold or a timer, and
 * any worker resumes it from its recorded steps after `resumeRun`. `record` writes what it waits for, in the transaction
 * that suspends the run.
 */
export function suspend(status: WaitingStatus, record: (tx: Tx) => Promise<void> = async () => {}): Suspension {
  return { status, record };
}

/** The result of a run. The caller records its end. */
export interface RunResult {
  /** null: the run waits, which is recorded. */
  finish: RunFinish | null;
  /** The error of the failed model call, for a waiting caller. */
  thrown: unknown;
  /** The usages of the model calls made on this node, in order. */
  usages: Usage[];
  finish_reason: FinishReason;
  /** Not null: the transaction that charged the last model call recorded the end. This is the answer of its hook. */
  end: TransactionHookAnswer | null;
}

export interface RunControl {
  /** Aborted with a `StopReason`. The engine then abandons the call in progress at once. */
  signal: AbortSignal;
  /** Called before each step. True: the run is left for another worker. */
  isDraining(): boolean;
  /** Receives the model's text as it is generated; null: no caller waits for it. */
  onText: ((text: string) => void) | null;
}

export interface EngineDeps {
  clock: Clock;
  completions: Completions;
  tools: Tools;
  runs: RunWriter & Pick<Runs, "startStepHook" | "finishStepHook" | "addUsageHook">;
  ledger: Pick<Ledger, "release" | "refills">;
  models: Models;
  log: Log;
  /** Called when a step's intent has been written with a hold. */
  onStepStarted(run_id: string): void;
  /** A random mark for the delimiters around tool results. */
  newMark(): string;
}

/** A run that is being executed. */
export interface Work {
  run: ClaimedRun;
  config: RunConfig;
  /** Its prompts, rendered for this run. */
  prompts: Prompts;
  input: EngineInput;
  /** What its answer must be; null: any text. */
  output_rule: OutputRule | null;
  steps: RunStep[];
  /** The actions about its calls. */
  actions: readonly CallAction[];
  /** The error of a run that asked for tokens in vain; null: it may go on. */
  budget_error: RunError | null;
  /** The account's number of refills, read after a call that the balance did not cover; null: not read. */
  refills: number | null;
  control: RunControl;
  /** Aborted with a `StopReason`, also when the run's time is up. */
  signal: AbortSignal;
  /** The time of that timeout, by the steady clock. */
  until_ms: number;
  mark: string;
  /** The names of the tools that the last model call offered. Empty until this worker has made one. */
  offered: ReadonlySet<string>;
  spent_tokens: number;
  model_id: string | null;
  result: Pick<RunResult, "thrown" | "usages" | "finish_reason" | "end">;
}

/** The intent of a model call, with the id of its future hold. */
export function newModelCallStart({ index, name, hold_id }: { index: number; name: string; hold_id: string }) {
  return { index, type: "model" as const, name, arguments: null, internal: { hold_id } };
}

/** The index of the next step. An interrupted step is resumed under its own index. */
export function getNextIndex(steps: readonly RunStep[]): number {
  const open = steps.findIndex((step) => step.status === "running");
  return open === -1 ? steps.length : open;
}

/** Why the worker must leave the run now; null: the run continues. */
export function getStopReason({ signal }: Work): StopReason | null {
  return signal.aborted ? (signal.reason as StopReason) : null;
}
