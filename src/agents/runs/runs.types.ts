import type { AgentKey } from "../../api/contract/agents.ts";
import type { Outcome, RequiredAction } from "../../api/contract/run-actions.ts";
import type {
  RunData,
  RunDetail,
  RunError,
  RunMetadata,
  RunRecord,
  RunStatus,
  RunTrigger,
  StepRecord,
} from "../../api/contract/runs.ts";
import type { Tx } from "../../platform/db/db.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { BudgetCaps, BudgetNeed } from "./budget-need.ts";
import type { WaitingStatus } from "./run-state.ts";

/** A run to start. */
export interface NewRun extends AgentKey {
  /** Absent: a new one. */
  id?: string;
  trigger: RunTrigger;
  /** The version that the run is pinned to. */
  agent_version: number;
  model_id: string | null;
  /** Data for the prompts. */
  input?: RunData | null | undefined;
  /** Pairs by which its caller finds it again. */
  metadata?: RunMetadata | null | undefined;
  /** What the run does in place of the agent's own run_prompt. */
  run_prompt?: string | null | undefined;
  /** What the engine needs of its start. The claim returns it unchanged. */
  engine_input: unknown;
  /** The schedule of a due run, and of a run-now of a schedule. */
  schedule_id?: string | null | undefined;
  /** The trigger of a webhook's run, and its name. */
  trigger_id?: string | undefined;
  trigger_name?: string | undefined;
  /** The due instant, of a due run. */
  scheduled_for?: Instant;
  /** Only this worker may claim the run, which is cancelled if the worker does not claim it in time. */
  reserved?: { worker_id: string; for_ms: number } | undefined;
  /** A chat whose caller does not wait on this node. */
  is_detached?: boolean | undefined;
  /** The first step of a run-now. If the run begins at once, the step's intent is written with the run. */
  first_step?: StepStart | undefined;
  /** Precondition of a run-now: facts known at its request that must still be true. */
  precondition?: unknown;
  /** The caller waits for the run's end. A run that begins at once need not be on the disk before that. */
  is_awaited?: boolean;
}

/**
 * The answer to a request for a run: its record, and whether this node's worker has begun it; or the reason for its
 * rejection.
 */
export type StartedRun = { refusal: null; run: RunRecord; has_begun: boolean } | { refusal: string };

/** A worker's right to execute a run. Every write names it; after another worker's claim it is invalid. */
export interface RunLease {
  readonly user_id: string;
  readonly run_id: string;
  readonly agent_id: string;
  readonly trigger: RunTrigger;
  readonly epoch: number;
}

/** A run that failed because its workers were lost. */
export type LostRun = Pick<RunLease, "user_id" | "run_id" | "agent_id" | "trigger">;

/** A run that was cancelled while no worker executed it. `error`: why the service cancelled it. */
export interface CancelledRun extends LostRun {
  error: RunError | null;
}

/** The state of a lease: the run continues, it has a cancel request, or the lease is lost. */
export type LeaseState = "running" | "cancelling" | "lost";

/** A run that a worker has claimed. */
export interface ClaimedRun {
  lease: RunLease;
  agent_id: string;
  agent_version: number;
  trigger: RunTrigger;
  scheduled_for: Instant | null;
  queued_at: Instant;
  started_at: Instant;
  /** Above 1: a worker was lost. The run resumes from its existing steps. */
  attempt: number;
  model_id: string | null;
  routing: Record<string, unknown> | null;
  cost_tokens: number;
  /**
   * Real time for which earlier workers executed the run; a resumed run's time limit does not restart. Time in the
   * queue is not counted.
   */
  elapsed_ms: number;
  input: RunData | null;
  run_prompt: string | null;
  engine_input: unknown;
  /** Its caller is connected to this node and waits for its answer, which no other worker can give. */
  has_caller: boolean;
  /** The step whose intent was written with the run, so `startStep` need not be called for it. */
  begun_step: StepStart | null;
}

/** `concurrent_runs` counts over all nodes and users. */
export interface ClaimLimits {
  readonly concurrent_runs: number;
  readonly concurrent_runs_per_user: number;
  /** The lower limits of plans for each of their users, by the id of the plan. */
  readonly concurrent_runs_of_plans?: Readonly<Record<string, number>> | undefined;
}

/** The intent to make a model or tool call, written before it is made. */
export interface StepStart {
  /** 0, 1, 2, … */
  index: number;
  type: StepRecord["type"];
  name: string;
  arguments: unknown;
  internal?: unknown;
  /** Of a tool's call that a model asked for: its place among the calls of that answer. */
  call?: number | undefined;
}

/** The outcome of a call. `usage` is added to the run's usage. `internal`, if given, replaces the step's. */
export interface StepFinish {
  index: number;
  status: "succeeded" | "failed" | "cancelled";
  result?: unknown;
  error?: RunError | null;
  safety?: unknown;
  usage?: { input_tokens: number; output_tokens: number; cost_tokens: number } | null;
  internal?: unknown;
  /** The chosen model and the routing decision, if the run must record them. */
  chosen?: { model_id: string; routing: Record<string, unknown> | null };
}

/** A step with its internal part, which only the engine sees. */
export interface JournalStep extends StepRecord {
  internal: unknown;
  /** Its place among the calls of its answer; null: no model asked for it. */
  call: number | null;
}

/** A run as its followers see it. */
export interface RunSnapshot {
  run: Omit<RunDetail, "deliveries" | "decisions" | "steps">;
  cancel_requested_at: Instant | null;
  steps: StepRecord[];
}

/** A run with what it began with, unchanged. */
export interface BegunRun {
  run: RunRecord;
  input: RunData | null;
  run_prompt: string | null;
  engine_input: unknown;
}

/** What a run waits for: its status, and `record`, which writes it in the transaction that suspends the run. */
export interface Suspension {
  status: WaitingStatus;
  record(tx: Tx): Promise<void>;
}

/** What a run asks a person to decide. */
export interface NewAction {
  type: RequiredAction["type"];
  /** Of a call: the step of the answer that asks for it, its place among the calls of that answer, and its future step. */
  turn?: number;
  call?: number;
  step?: number;
  tool?: string;
  arguments?: unknown;
  /** The JSON Schema by which other arguments are checked; null: the tool has its own check. */
  parameters?: Record<string, unknown> | null;
  destination?: string;
  /** Of a run that has reached a limit of tokens. */
  budget?: BudgetNeed;
  reason: string;
  untrusted_sources?: RequiredAction["untrusted_sources"];
  spent_tokens: number;
  requested_at: Instant;
  expires_at: Instant;
}

/** The action about a call, as the engine reads it. A null decision: it is open. */
export interface CallAction {
  turn: number;
  call: number;
  decision: Outcome | null;
  arguments: unknown;
  arguments_sent: unknown;
  reason_given: string | null;
}

/** The key of an action. */
export interface RunActionKey extends RunKey {
  id: string;
}

/** A run that waits for tokens, with its action. */
export interface BudgetWait extends RunActionKey {
  agent_id: string;
  budget: BudgetNeed;
}

/** A run that need not wait for tokens any more: `relief` says why, and it goes on with these caps. */
export interface BudgetRelief extends RunActionKey {
  relief: string;
  caps: Partial<BudgetCaps>;
}

/** A run that begins to wait, with what it waits for. */
export interface RunRequiresAction extends AgentKey {
  run_id: string;
  trigger: RunTrigger;
  actions: readonly RequiredAction[];
}

/** The answer of a run that succeeds. `output_json`: the same as JSON, if it has a schema. */
export interface FinalOutput {
  output: string;
  output_json?: unknown;
}

export type RunFinish =
  | ({ status: "succeeded" } & FinalOutput)
  | { status: "failed"; error: RunError; output?: string | null }
  | { status: "cancelled"; output?: string | null };

/** A run that has failed. */
export interface RunFailed extends AgentKey {
  run_id: string;
  trigger: RunTrigger;
  error: RunError;
}

/** A run that has succeeded. */
export interface RunSucceeded extends AgentKey {
  run_id: string;
  trigger: RunTrigger;
}

/** A run that has succeeded although calls of its tools failed. */
export interface RunHasErrors extends RunSucceeded {
  failed_steps: number;
  /** The last of these steps: its tool, the server of a tool or the model, and the error. */
  call: { name: string; error: RunError };
}

/** A run that has ended: succeeded, failed (lost workers included) or cancelled. */
export interface EndedRun extends AgentKey {
  run_id: string;
  schedule_id: string | null;
  trigger: RunTrigger;
  status: RunStatus;
  error: RunError | null;
  failed_steps: number;
  failed_calls: number;
  /** The engine's input of a due run, unchanged; null for other runs. */
  due_input: unknown;
}

/** A running run that is about to end. */
export interface EndingRun extends AgentKey {
  run_id: string;
  trigger: RunTrigger;
  /** The run fails, unless it was being cancelled. */
  fails: boolean;
}

/**
 * Called in the transaction that ends running runs; it may await SQL only. Before the runs are changed it locks the
 * rows that their end will change, and it returns the work to do after their end.
 *
 * Every transaction locks an agent before its runs, so there is no deadlock.
 */
export type OnRunEnd = (ending: readonly EndingRun[], tx: Tx) => Promise<(ended: readonly EndedRun[]) => Promise<void>>;

/** The key of a run. */
export interface RunKey {
  user_id: string;
  run_id: string;
}

/** Called before runs are deleted, in the same transaction: it may await SQL only. */
export type OnPrune = (tx: Tx, runs: readonly RunKey[]) => Promise<void>;

export interface RunFilter {
  status?: RunStatus | undefined;
  trigger?: RunTrigger | undefined;
  has_errors?: boolean | undefined;
  /** Start of the range of queued_at, inclusive. */
  from?: Instant | undefined;
  /** End of the range of queued_at, exclusive. */
  to?: Instant | undefined;
}

/** Filters of a user's runs over all agents. */
export interface RunSearch extends RunFilter {
  agent_id?: string | undefined;
  model_id?: string | undefined;
  schedule_id?: string | undefined;
  api_key_id?: string | undefined;
  /** The end user that the caller named. */
  user?: string | undefined;
  /** Pairs that the run's metadata has. */
  metadata?: RunMetadata | undefined;
  /** Words that its output, error or input has, all of them. */
  q?: string | undefined;
}

/**
 * Statements that accept or reject runs and may call other modules. `check` takes (runs, now) and returns `refusals`.
 * `begin` also begins the accepted run-nows; it takes the arguments of `beginRuns` in run.store.ts.
 */
export interface StartStatements {
  check: string;
  begin: string;
}

/** Limit of the batch that handles simultaneous operations of many runs in one statement. */
export const BATCH_LIMIT = 64;

/** Includes the epoch, because a stalled worker can hold an old and a new lease on one run. */
export function toLeaseKey({ run_id, epoch }: { run_id: string; epoch: number }): string {
  return `${run_id} ${epoch}`;
}
