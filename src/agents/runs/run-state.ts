import { type RunStatus, runStatusSchema } from "../../api/contract/runs.ts";

/**
 * The states of a run and the transitions between them. Stores build their SQL from this table, and tests compare it
 * with the statements in sql/ and with the status changes that a database sees. README.md has the diagram.
 */

interface Transition {
  /** Who makes the transition. `lease`: the worker that holds the run's lease. `node`: any node. */
  readonly by: "caller" | "tick" | "lease" | "worker" | "node";
  /** The next status by the present one; `new`: the run is inserted. */
  readonly next: Readonly<Partial<Record<RunStatus | "new", RunStatus>>>;
}

export const TRANSITIONS = {
  /** A run-now or a chat is queued. */
  enqueue: { by: "caller", next: { new: "queued" } },
  /** A due run is queued. */
  schedule: { by: "tick", next: { new: "queued" } },
  /** A run-now begins at once, because the node's own worker has a place for it. */
  begin: { by: "worker", next: { new: "running" } },
  claim: { by: "worker", next: { queued: "running" } },
  succeed: { by: "lease", next: { running: "succeeded", cancelling: "cancelled" } },
  fail: { by: "lease", next: { running: "failed", cancelling: "cancelled" } },
  /** The worker has stopped a run. */
  stop: { by: "lease", next: { running: "cancelled", cancelling: "cancelled" } },
  /** A cancel request. A queued run ends at once, a running one when its worker has stopped. */
  cancel: { by: "caller", next: { queued: "cancelled", running: "cancelling", cancelling: "cancelling" } },
  /** The worker's process ends and another worker resumes the run. */
  hand_back: { by: "worker", next: { running: "queued", cancelling: "cancelled" } },
  /** The same for a chat, whose caller is connected to this process. */
  hand_back_chat: { by: "worker", next: { running: "cancelled", cancelling: "cancelled" } },
  /** The run's worker is lost. A queued run had been reserved for that worker. */
  reap: { by: "node", next: { queued: "cancelled", running: "queued", cancelling: "cancelled" } },
  /** The run has lost too many workers, or it is a chat. */
  give_up: { by: "node", next: { running: "failed" } },
} as const satisfies Record<string, Transition>;

export type RunTransition = keyof typeof TRANSITIONS;

/**
 * Each status is in one phase.
 *
 * - `waiting`: no worker executes the run. A cancel ends it at once, and a run-now counts against the queue of its user.
 * - `claimed`: a worker executes it, and it counts against `concurrent_runs`. The lists in sql/ have these statuses.
 * - `finished`: it never changes.
 */
type Phase = "waiting" | "claimed" | "finished";
const PHASES: Readonly<Record<RunStatus, Phase>> = {
  queued: "waiting",
  running: "claimed",
  cancelling: "claimed",
  succeeded: "finished",
  failed: "finished",
  cancelled: "finished",
};
const inPhase = (phase: Phase) => runStatusSchema.options.filter((status) => PHASES[status] === phase);

export const WAITING = inPhase("waiting");
export const CLAIMED = inPhase("claimed");
export const FINISHED = inPhase("finished");
/**
 * Such runs keep their agent busy, and the settable clock waits for them. They can have a lease, because a waiting one can
 * be reserved for a worker. The indexes `run_open` and `run_leased` have this list.
 */
export const UNFINISHED = [...WAITING, ...CLAIMED];

/** The statuses as an SQL list for `in`. */
export function sqlList(statuses: readonly RunStatus[]): string {
  return `(${statuses.map((status) => `'${status}'`).join(", ")})`;
}

/**
 * The status of a run that is selected by its key, in conditions. It keeps the planner from an index of unfinished runs,
 * which can have many entries of the run's user (README.md, "Plans").
 */
export const STATUS_OF_ONE = "run.status || ''";

/** The statuses from which the transition starts, as an SQL list for `in`. */
export function sqlBefore(transition: RunTransition): string {
  return sqlList(Object.keys(TRANSITIONS[transition].next) as RunStatus[]);
}

/** The next status as an SQL expression over the present one. */
export function sqlNext(transition: RunTransition, status = "run.status"): string {
  const cases = Object.entries(TRANSITIONS[transition].next).map(([from, to]) => `when '${from}' then '${to}'`);
  return `case ${status} ${cases.join(" ")} end`;
}
