import type { AgentKey } from "../../api/contract/agents.ts";
import type { Db, Sql, Tx } from "../../platform/db/db.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import * as scheduleStore from "./schedule.store.ts";
import { next, type ScheduleSpec } from "./spec.ts";
import { type DueRuns, recordPassed, tick } from "./tick.service.ts";

/** A schedule that was active and has been paused. */
export interface SchedulePaused extends AgentKey {
  reason: string;
}

/** The current state of a schedule. */
export interface ScheduleState {
  /** null: not active. */
  next_run_at: Instant | null;
  /** Not null: due instants are recorded as skipped. */
  paused_reason: string | null;
}

/** The next run of an agent. */
export type NextRun = scheduleStore.NextRun;

/** Occurrences deleted in one statement. */
const PRUNE_BATCH = 200;

export type Schedules = ReturnType<typeof createSchedules>;

/**
 * Schedules and their occurrences, in the domain time of `clock`. `notify` runs in the transaction that pauses a
 * schedule: it may await SQL only.
 */
export function createSchedules(deps: { db: Db; clock: Clock; notify(event: SchedulePaused, tx: Tx): Promise<void> }) {
  const { db, clock, notify } = deps;
  const setPaused = async (tx: Tx, agent: AgentKey, reason: string | null, resume_above?: number) => {
    const { user_id, agent_id } = agent;
    const pause = { reason, resume_above: resume_above ?? null, now: clock.now() };
    const was_active = await scheduleStore.setPaused(tx, agent, pause);
    if (was_active && reason !== null) await notify({ user_id, agent_id, reason }, tx);
  };
  return {
    /**
     * Sets when the agent runs; null turns the schedule off. An unchanged schedule keeps its next run. A changed one is
     * due next after now, and instants that have passed without a tick are recorded as skipped.
     */
    async setSchedule(tx: Tx, agent: AgentKey, spec: ScheduleSpec | null): Promise<void> {
      await recordPassed(tx, clock.now(), agent, spec);
      if (spec === null) return scheduleStore.deactivateSchedule(tx, agent);
      await scheduleStore.upsertSchedule(tx, agent, { spec, next_run_at: next(spec, clock.now()) });
    },
    /** With a reason, due instants are skipped from now on; null resumes. */
    async pauseSchedule(agent: AgentKey, reason: string | null, tx?: Tx): Promise<void> {
      await (tx === undefined ? db.transaction((own) => setPaused(own, agent, reason)) : setPaused(tx, agent, reason));
    },
    /**
     * Pauses a schedule until the account has had more refills than `resume_above`, the count before its run was queued.
     * A schedule that is paused for another reason keeps that reason.
     */
    pauseForTokens: (tx: Tx, agent: AgentKey, reason: string, resume_above: number) =>
      setPaused(tx, agent, reason, resume_above),
    /** A page of the schedules that wait for tokens: a user's, or with null all users'. */
    waitingForTokens: (page: Parameters<typeof scheduleStore.selectWaiting>[1]) =>
      scheduleStore.selectWaiting(db, page),
    /** Resumes a schedule that waits for tokens if there have been enough refills. False: it stays paused. */
    resumeForTokens: (tx: Tx, agent: AgentKey, refills: number) => scheduleStore.endWaiting(tx, agent, refills),
    /** The state of the agents' schedules, by agent. An agent that never had a schedule is absent. */
    async schedules(user_id: string, agent_ids: readonly string[], sql: Sql = db): Promise<Map<string, ScheduleState>> {
      const rows = await scheduleStore.selectSchedules(sql, user_id, agent_ids);
      return new Map(
        rows.map(({ agent_id, next_run_at, paused_reason }) => [agent_id, { next_run_at, paused_reason }]),
      );
    },
    /**
     * The next runs of a user's agents, soonest first, after the cursor `after`. Paused and inactive schedules are
     * omitted.
     */
    nextRuns: (user_id: string, page: Parameters<typeof scheduleStore.selectNextRuns>[2]) =>
      scheduleStore.selectNextRuns(db, user_id, page),
    /** The agent's occurrences, newest first; `before` is the `at` of the last one of the page before. */
    occurrences: (agent: AgentKey, page: { limit: number; before: Instant | null }) =>
      scheduleStore.selectOccurrences(db, agent, page),
    /** Deletes the agent's schedule and its occurrences. */
    forgetAgent: (tx: Tx, agent: AgentKey): Promise<void> => scheduleStore.deleteSchedule(tx, agent),
    /** Deletes all schedules and occurrences of a user. */
    forgetUser: (tx: Tx, user_id: string): Promise<void> => scheduleStore.deleteSchedulesOfUser(tx, user_id),
    /** Deletes a batch of the occurrences recorded before an instant. True: there may be more. */
    pruneOccurrences: (before: Instant): Promise<boolean> => scheduleStore.deleteOccurrences(db, before, PRUNE_BATCH),
    /** Queues the runs that are due, see tick.service.ts. */
    tick: (due: DueRuns): Promise<void> => tick({ db, clock }, due),
    /** The next instant up to `until` at which a schedule is due; null if none. */
    nextDueAt: (until: Instant): Promise<Instant | null> => scheduleStore.selectNextDue(db, until),
  };
}
