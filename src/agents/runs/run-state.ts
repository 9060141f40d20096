import { RUN_STATUSES, type RunStatus } from "../../api/contract/runs.ts";

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

/** A status in which a run waits for something outside. */
export type WaitingStatus = {
  [Status in RunStatus]: (typeof RUN_STATUSES)[Status]["phase"] extends "waiting" ? Status : never;
}[RunStatus];
const WAITING = Object.keys(RUN_STATUSES).filter(
  (status) => RUN_STATUSES[status as RunStatus].phase === "waiting",
) as WaitingStatus[];
const fromWaiting = <Next extends RunStatus>(next: Next) =>
  Object.fromEntries(WAITING.map((status) => [status, next])) as Record<WaitingStatus, Next>;

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
  /** What a waiting run waited for has come. */
  resume: { by: "node", next: fromWaiting("queued") },
  /** A cancel request. A run without a worker ends at once, a running one when its worker has stopped. */
  cancel: {
    by: "caller",
    next: { queued: "cancelled", ...fromWaiting("cancelled"), running: "cancelling", cancelling: "cancelling" },
  },
  /** The worker's process ends and another worker resumes the run. */
  hand_back: { by: "worker", next: { running: "queued", cancelling: "cancelled" } },
  /** The same for a chat, whose caller is connected to this process. */
  hand_back_chat: { by: "worker", next: { running: "cancelled", cancelling: "cancelled" } },
  /** The run's worker is lost. A queued run had been reserved for that worker. */
  reap: { by: "node", next: { queued: "cancelled", running: "queued", cancelling: "cancelled" } },
  /** The run has lost too many workers, or it is a chat. */
  give_up: { by: "node", next: { running: "failed" } },
} as const satisfies Record<string, Transition>;

/** The statuses that a step may suspend a run in: `running` → one of them, by its worker. */
export const SUSPENSIONS: readonly WaitingStatus[] = WAITING;

export type RunTransition = keyof typeof TRANSITIONS;

/**
 * The phase of a run that is selected by its key, in conditions. It keeps the planner from an index of unfinished runs,
 * which can have many entries of the run's user (README.md, "Plans").
 */
export const PHASE_OF_ONE = "run.phase || ''";

/** The statuses from which the transition starts, as an SQL list for `in`. */
export function sqlBefore(transition: RunTransition): string {
  const statuses = Object.keys(TRANSITIONS[transition].next).map((status) => `'${status}'`);
  return `(${statuses.join(", ")})`;
}

/** The next status as an SQL expression over the present one. */
export function sqlNext(transition: RunTransition, status = "run.status"): string {
  const cases = Object.entries(TRANSITIONS[transition].next).map(([from, to]) => `when '${from}' then '${to}'`);
  return `case ${status} ${cases.join(" ")} end`;
}
