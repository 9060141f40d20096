import type { RunDetail, RunError, RunRecord, RunStatus, RunTrigger, StepRecord } from "../contract/runs.ts";
import type { Instant, Tx } from "../platform/db.ts";

export interface AgentKey {
  user_id: string;
  agent_id: string;
}

/** When an agent runs next. */
export interface NextRun {
  agent_id: string;
  next_run_at: Instant;
}

/** A run to be queued. */
export interface NewRun extends AgentKey {
  /** The version that the run is pinned to. */
  agent_version: number;
  model_id: string | null;
  /** What the engine needs to begin; handed back in the claim, as it was. */
  input: unknown;
  /** What the run begins with. Its intent is written with the run where that begins at once. */
  first_step?: StepStart;
  /** For whoever admits run-nows: what was known when this one was asked for, and has to hold still. */
  terms?: unknown;
  /** Nobody is told of it before it has ended: begun at once, it need not be on the disk until then. */
  is_awaited?: boolean;
}

/** What became of a run that was asked for: its record, and whether this node's worker has it already; or why not. */
export type Enqueued = { refusal: null; run: RunRecord; has_begun: boolean } | { refusal: string };

/** A right to work on a run. Every write names it; after another worker's claim it is worth nothing. */
export interface RunLease {
  readonly user_id: string;
  readonly run_id: string;
  readonly agent_id: string;
  readonly trigger: RunTrigger;
  readonly epoch: number;
}

/** What a lease is worth: the run goes on, its end was asked for, or it is another's. */
export type LeaseState = "running" | "cancelling" | "lost";

/** A run that a worker has got to carry out. */
export interface ClaimedRun {
  lease: RunLease;
  agent_id: string;
  agent_version: number;
  trigger: RunTrigger;
  scheduled_for: Instant | null;
  started_at: Instant;
  /** Above 1: a worker was lost. Steps that are there already are to be gone on from. */
  attempt: number;
  model_id: string | null;
  routing: Record<string, unknown> | null;
  cost_tokens: number;
  /** Real time that earlier workers were at it: a resumed run's time does not begin anew. Time in the queue is not counted. */
  elapsed_ms: number;
  input: unknown;
  /** The step whose intent was written with the run: `startStep` was as good as called for it. */
  begun_step: StepStart | null;
}

/** `concurrent_runs` counts over all nodes and users. */
export interface ClaimLimits {
  readonly concurrent_runs: number;
  readonly concurrent_runs_per_user: number;
}

/** The intent to make a model or tool call, written before it is made. */
export interface StepStart {
  /** 0, 1, 2, … */
  index: number;
  type: StepRecord["type"];
  name: string;
  arguments: unknown;
  internal?: unknown;
}

/** What came of a call. `usage` is added to the run's. `internal` replaces the step's when it is given. */
export interface StepFinish {
  index: number;
  status: "succeeded" | "failed" | "cancelled";
  result?: unknown;
  error?: RunError | null;
  safety?: unknown;
  usage?: { input_tokens: number; output_tokens: number; cost_tokens: number } | null;
  internal?: unknown;
  /** The model that was chosen, and how, where the run is to name it. */
  chosen?: { model_id: string; routing: Record<string, unknown> | null };
}

/** A step with what only the engine sees. */
export interface JournalStep extends StepRecord {
  internal: unknown;
}

/** A run as those see it who follow it. */
export interface FollowedRun {
  run: Omit<RunDetail, "steps">;
  cancel_requested_at: Instant | null;
  steps: StepRecord[];
}

/** A run with what it began with, as it was given. */
export interface BegunRun {
  run: RunRecord;
  input: unknown;
}

export type RunFinish =
  | { status: "succeeded"; output: string }
  | { status: "failed"; error: RunError; output?: string | null }
  | { status: "cancelled"; output?: string | null };

/** What a user should hear of, since nobody may be looking. */
export type Setback = AgentKey &
  (
    | { kind: "run_failed"; run_id: string; trigger: RunTrigger; error: RunError }
    | { kind: "schedule_paused"; reason: string }
  );
/** Hears of a setback in the transaction that makes it one: only SQL may be awaited. */
export type OnSetback = (setback: Setback, tx: Tx) => Promise<void>;

/** A run that has ended: succeeded, failed, also because its workers were lost, or cancelled. */
export interface EndedRun extends AgentKey {
  run_id: string;
  trigger: RunTrigger;
  status: RunStatus;
  error: RunError | null;
}

/** A run at work that is about to end. */
export interface EndingRun extends AgentKey {
  run_id: string;
  trigger: RunTrigger;
  /** Unless it was being cancelled. */
  fails: boolean;
}

/**
 * Hears of the end of runs that were at work, in the transaction that ends them: only SQL may be awaited. Before the
 * runs are touched it locks what their end is going to change, and returns what is to be done when they have ended:
 * whoever changes an agent locks it first and its runs after that, so nobody waits in a circle.
 */
export type OnRunEnd = (ending: readonly EndingRun[], tx: Tx) => Promise<(ended: readonly EndedRun[]) => Promise<void>>;

export interface RunFilter {
  status?: RunStatus | undefined;
  trigger?: RunTrigger | undefined;
  /** Of queued_at: inclusive. */
  from?: Instant | undefined;
  /** Of queued_at: exclusive. */
  to?: Instant | undefined;
}

/**
 * Statements that decide on run-nows and may ask other modules: `refuse` takes (runs, now) and returns `refusals`, `begin`
 * takes what sql/begin-runs.sql takes.
 */
export interface RunNowStatements {
  refuse: string;
  begin: string;
}
