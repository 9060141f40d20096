import type { RunError } from "../../api/contract/runs.ts";
import { databaseNowMs } from "../../platform/db/clock-skew.ts";
import type { Db } from "../../platform/db/db.ts";
import { type Clock, monotonicMs } from "../../platform/lib/clock.ts";
import * as lostRunStore from "./lost-run.store.ts";
import { handBackRuns, reclaimRuns } from "./reclaim.store.ts";
import * as runStore from "./run.store.ts";
import type { RunEnds } from "./run-ends.ts";
import { claimedOf } from "./run-record.ts";
import {
  type CancelledRun,
  type ClaimedRun,
  type ClaimLimits,
  type LeaseState,
  type LostRun,
  leaseKey,
  type RunLease,
} from "./runs.types.ts";

/** A worker loses a lease that it has not renewed for this long. Real time. */
export const LEASE_MS = 30_000;
/** Interval at which a worker renews its leases. Three renewals may fail before the lease is lost. */
export const HEARTBEAT_MS = LEASE_MS / 4;
/**
 * contract 6, worker_lost: a run fails after this many lost workers in the middle of a step, with no step finished in
 * between.
 */
const MAX_LOSSES = 3;
const WORKER_LOST: RunError = {
  code: "worker_lost",
  message: "The worker of this run was lost and no other worker resumed it. Run it again.",
};

/** Claims of runs by workers, and runs of lost workers. Leases use the database's real time. */
export function createLeases(deps: {
  db: Db;
  clock: Clock;
  ends: RunEnds;
  onLost(failed: readonly LostRun[]): void;
  onCancelled?(run: CancelledRun): void;
}) {
  const { db, clock, ends, onCancelled = () => {} } = deps;
  const handBack = async (worker_id: string, lease: RunLease | null) => {
    for (const run of await handBackRuns(db, { worker_id, lease }, clock.now())) onCancelled(run);
  };
  const judgedAt = createLeaseTime({ step_ms: HEARTBEAT_MS, lease_ms: LEASE_MS });
  const reap = async (which: Pick<lostRunStore.Reaping, "unexpired" | "at_work" | "judged_at_ms">) => {
    const reaping = { max_losses: MAX_LOSSES, lease_ms: LEASE_MS, ...which, now: clock.now() };
    for (let has_more = true; has_more; ) {
      const reaped = await lostRunStore.reapRuns(db, reaping);
      for (const run of reaped.cancelled) onCancelled(run);
      has_more = reaped.has_more;
    }
    const failures: Error[] = [];
    const given_up: LostRun[] = [];
    for (const run of await lostRunStore.selectGivenUp(db, reaping)) {
      await db
        .transaction((tx) =>
          ends.endRuns(tx, [{ ...run, fails: true }], () => lostRunStore.failLostRun(tx, run, reaping, WORKER_LOST)),
        )
        .then(
          (ended) => {
            if (ended.size > 0) given_up.push(run);
          },
          (error: Error) => failures.push(error), // the other runs do not wait for this one
        );
    }
    if (given_up.length > 0) deps.onLost(given_up);
    if (failures[0] !== undefined) throw failures[0];
  };

  return {
    /**
     * Claims up to `most` queued runs for this worker: chats, then run-nows, then due runs, in turn among users and
     * within the limits. `reserved_only`: only runs reserved for this worker.
     */
    async claim(worker_id: string, most: number, limits: ClaimLimits, reserved_only = false): Promise<ClaimedRun[]> {
      const rows = await runStore.claimRuns(db, {
        worker_id,
        most,
        limits,
        reserved_only,
        lease_ms: LEASE_MS,
        now: clock.now(),
      });
      return rows.map(claimedOf);
    },
    /** Whether any run is queued. */
    hasQueued: () => runStore.hasQueued(db),
    /**
     * Claims again the runs of this worker that it does not know, because the answer to their claim was lost. `known`
     * are the runs that it executes.
     */
    async reclaim(worker_id: string, known: readonly string[]): Promise<ClaimedRun[]> {
      return (await reclaimRuns(db, { worker_id, known, lease_ms: LEASE_MS })).map(claimedOf);
    },
    /** Renews the leases; call it every HEARTBEAT_MS. Returns the state of each lease, in the order given. */
    async heartbeat(leases: readonly RunLease[]): Promise<LeaseState[]> {
      if (leases.length === 0) return [];
      const rows = await runStore.renewLeases(db, leases, LEASE_MS);
      const states = new Map<string, LeaseState>(rows.map((row) => [leaseKey(row), row.status]));
      return leases.map((lease) => states.get(leaseKey(lease)) ?? "lost");
    },
    /**
     * Returns the worker's unfinished runs to the queue at shutdown; another worker resumes each from its last finished
     * step. This includes runs that the worker does not know because the answer to their claim was lost.
     */
    handBack: (worker_id: string): Promise<void> => handBack(worker_id, null),
    /**
     * Returns one run to the queue when the worker has left it. Nothing is written if the run has ended or another
     * worker has claimed it.
     */
    handBackOne: handBack as (worker_id: string, lease: RunLease) => Promise<void>,
    /**
     * Takes runs from lost workers, except the runs `at_work` on the caller: leases of living workers also expire after
     * a sleep of the machine, a database outage or a clock jump. Idempotent; call it every second or so.
     */
    async reap(at_work: readonly string[] = []): Promise<void> {
      const steady_ms = monotonicMs();
      await reap({ unexpired: false, at_work, judged_at_ms: judgedAt(await databaseNowMs(db), steady_ms) });
    },
    /** Takes all running runs. Call it only when their workers are known to have ended. */
    takeBackAll: () => reap({ unexpired: true, at_work: [], judged_at_ms: null }),
  };
}

/**
 * Decides by which time leases expire, because the database's clock, which writes the leases, can be set. If it is set
 * one hour ahead, every lease looks expired, although its worker is alive and renews it at the next heartbeat.
 *
 * The node computes from its own steady clock what the database's clock should show. After a jump it judges leases by
 * that computed time for the length of a lease. A lease that was not renewed in that period is lost.
 *
 * `step_ms`: a smaller difference is not a jump. `lease_ms`: the length of a lease.
 */
export function createLeaseTime({ step_ms, lease_ms }: { step_ms: number; lease_ms: number }) {
  let ahead_ms: number | null = null;
  let stepped_at_ms: number | null = null;

  /**
   * Takes the time of the database's clock and the steady time at which it was read. Returns the time, by the
   * database's clock, at which to judge leases.
   */
  return function judgedAt(database_ms: number, steady_ms: number): number {
    const seen_ms = database_ms - steady_ms;
    if (ahead_ms === null || seen_ms - ahead_ms < step_ms) stepped_at_ms = null;
    else stepped_at_ms ??= steady_ms;
    if (stepped_at_ms === null || steady_ms - stepped_at_ms >= lease_ms) {
      ahead_ms = seen_ms;
      stepped_at_ms = null;
    }
    return steady_ms + (ahead_ms ?? seen_ms);
  };
}
