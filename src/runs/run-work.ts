import type { Completions } from "../completions/completions.types.ts";
import type { FinishReason, Usage } from "../contract/completions.ts";
import type { Ledger, RiderAnswer } from "../ledger/ledger.types.ts";
import type { Models } from "../models/models.service.ts";
import type { Clock } from "../platform/clock.ts";
import type { Log } from "../platform/log.ts";
import type { Tools } from "../tools/tools.service.ts";
import type { RunWriter } from "./run-writer.ts";
import type { Runs } from "./runs.service.ts";
import type { ClaimedRun, RunFinish } from "./runs.types.ts";
import type { RunConfig, RunInput, RunStep } from "./transcript.ts";

/** Why a run is left before its end: its cancellation was asked for, its time is up, its lease is another's, or this process ends. */
export type StopReason = "cancelling" | "timeout" | "lost" | "stopping";

/** What a run has come to; writing it down is the caller's. */
export interface RunResult {
  finish: RunFinish;
  /** The error of the failed model call, for the caller who waits. */
  thrown: unknown;
  /** Of the model calls made here, in order. */
  usages: Usage[];
  finish_reason: FinishReason;
  /** Not null: it has been written down with the last model call's charge, whose rider answered this. */
  end: RiderAnswer | null;
}

export interface RunControl {
  /** Aborted with a `StopReason`: the call in progress is given up at once. */
  signal: AbortSignal;
  /** Asked before each step. True: the run is left for another worker. */
  isDraining(): boolean;
  /** Receives the model's text as it is generated; null: no caller waits for it. */
  onText: ((text: string) => void) | null;
}

export interface EngineDeps {
  clock: Clock;
  completions: Completions;
  tools: Tools;
  runs: RunWriter & Pick<Runs, "startStepRider" | "finishStepRider">;
  ledger: Pick<Ledger, "release">;
  models: Models;
  log: Log;
  /** Hears that a step's intent has been written with a hold. */
  onStepStarted(run_id: string): void;
  /** A random mark for the fences around what tools bring back. */
  newMark(): string;
}

/** A run being carried out. */
export interface Work {
  run: ClaimedRun;
  config: RunConfig;
  input: RunInput;
  steps: RunStep[];
  control: RunControl;
  /** Aborted with a `StopReason`, also when the run's time is up. */
  signal: AbortSignal;
  /** When that is, by the steady clock. */
  until_ms: number;
  mark: string;
  spent_tokens: number;
  model_id: string | null;
  result: Pick<RunResult, "thrown" | "usages" | "finish_reason" | "end">;
}

/** The intent of a model call, which names the hold that it is going to have. */
export function modelCallStart({ index, name, hold_id }: { index: number; name: string; hold_id: string }) {
  return { index, type: "model" as const, name, arguments: null, internal: { hold_id } };
}

/** An interrupted step is taken up again under its own number. */
export function nextIndex(steps: readonly RunStep[]): number {
  const open = steps.findIndex((step) => step.status === "running");
  return open === -1 ? steps.length : open;
}

/** Why the run must be left now; null: it continues. */
export function stopReason({ signal }: Work): StopReason | null {
  return signal.aborted ? (signal.reason as StopReason) : null;
}
