import type { AgentKey } from "../../api/contract/agents.ts";
import { createBatches } from "../../platform/db/batch-queue.ts";
import type { Db, Sql, Tx } from "../../platform/db/db.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { stableJson } from "../../platform/lib/json.ts";
import * as scheduleStore from "./schedule.store.ts";
import { next } from "./spec.ts";
import { toSpec } from "./spec-fields.ts";
import { type DueRuns, recordPassed, tick } from "./tick.service.ts";

/** A schedule that was going to run and has been paused. */
export interface SchedulePaused extends AgentKey {
  schedule_id: string;
  schedule_name: string;
  reason: string;
}

export type ScheduleId = scheduleStore.ScheduleId;
export type ScheduleState = scheduleStore.ScheduleState;
export type ScheduleRow = scheduleStore.ScheduleRow;
export const DEFAULT_SCHEDULE = scheduleStore.DEFAULT_SCHEDULE;

/** The next run of an agent. */
export type NextRun = scheduleStore.NextRun;

/** Limit of the batch that reads simultaneously requested zones in one query. */
const BATCH_LIMIT = 64;
/** Occurrences deleted in one statement. */
const PRUNE_BATCH = 200;

export type Schedules = ReturnType<typeof createSchedules>;

/**
 * Schedules and their occurrences, in the domain time of `clock`. `notify` runs in the transaction that pauses a
 * schedule: it may await SQL only.
 */
export function createSchedules(deps: { db: Db; clock: Clock; notify(event: SchedulePaused, tx: Tx): Promise<void> }) {
  const { db, clock, notify } = deps;
  const zoneOf = createBatches(BATCH_LIMIT, (agents: AgentKey[]) => scheduleStore.selectZones(db, agents));
  const pause = async (tx: Tx, { user_id, id }: ScheduleId, reason: string, resume_above: number | null = null) => {
    const paused = await scheduleStore.setPaused(tx, { user_id, id }, { reason, resume_above, now: clock.now() });
    if (!paused?.was_going) return;
    const { agent_id, name } = paused;
    await notify({ user_id, agent_id, schedule_id: id, schedule_name: name, reason }, tx);
  };
  return {
    /** Inserts a schedule, whose next run is after now. False: the agent has a schedule of this name. */
    async insert(tx: Tx, row: ScheduleRow, { is_active }: { is_active: boolean }): Promise<boolean> {
      const is_on = row.enabled && is_active;
      const next_run_at = is_on ? next(toSpec(row.spec), clock.now()) : null;
      return scheduleStore.insertSchedule(tx, { ...row, next_run_at });
    },
    /** The time zone of the agent's schedule `default`; undefined: it has none. */
    zoneOf,
    /** The agent's schedules, locked until the transaction ends. */
    lock: (tx: Tx, agent: AgentKey): Promise<ScheduleRow[]> => scheduleStore.lockSchedules(tx, agent),
    /**
     * Writes a changed schedule, which `before` was, locked. An unchanged time keeps its next run. A changed one is due
     * next after now, and instants that have passed without a tick are recorded as skipped.
     * @param is_active whether the agent is enabled
     */
    async change(
      tx: Tx,
      { before, after, is_active }: { before: ScheduleRow; after: ScheduleRow; is_active: boolean },
    ): Promise<void> {
      const spec = after.enabled && is_active ? toSpec(after.spec) : null;
      const is_same = before.next_run_at !== null && spec !== null && stableJson(spec) === stableJson(before.spec);
      if (!is_same) await recordPassed(tx, clock.now(), before);
      const next_run_at = is_same ? before.next_run_at : spec === null ? null : next(spec, clock.now());
      await scheduleStore.updateSchedule(tx, { ...after, next_run_at });
    },
    /** Deletes a schedule and its occurrences. The default one is empty afterwards. */
    async remove(tx: Tx, row: ScheduleRow): Promise<void> {
      if (row.name !== DEFAULT_SCHEDULE) return scheduleStore.deleteSchedule(tx, row);
      await scheduleStore.deleteOccurrencesOf(tx, row);
      await scheduleStore.updateSchedule(tx, { ...row, ...EMPTY_SCHEDULE, updated_at: clock.now() });
    },
    /** The schedules of these agents, also default ones that were never set. */
    ofAgents: (user_id: string, agent_ids: readonly string[], sql: Sql = db): Promise<ScheduleState[]> =>
      scheduleStore.selectOfAgents(sql, user_id, agent_ids),
    /** The agents with a schedule that is paused, or that is on and has failures in a row. */
    troubledAgents: (user_id: string): Promise<string[]> => scheduleStore.selectTroubledAgents(db, user_id),
    /** A page of an agent's schedules, in the order of their creation; `after_id` is the last one of the page before. */
    list: (agent: AgentKey, page: { limit: number; after_id: string | null }): Promise<ScheduleRow[]> =>
      scheduleStore.selectPage(db, agent, page),
    find: (schedule: ScheduleId, sql: Sql = db): Promise<ScheduleRow | undefined> =>
      scheduleStore.selectSchedule(sql, schedule),
    /** The schedules that count against an API key, locked until the transaction ends. */
    lockOfKey: (tx: Tx, user_id: string, api_key_id: string): Promise<ScheduleState[]> =>
      scheduleStore.lockOfKey(tx, user_id, api_key_id),
    /** Due instants are skipped from now on. */
    pause: (tx: Tx, schedule: ScheduleId, reason: string): Promise<void> => pause(tx, schedule, reason),
    /** The same at the user's own request, who needs no notice. */
    async pauseQuietly(schedule: ScheduleId, reason: string): Promise<void> {
      await scheduleStore.setPaused(db, schedule, { reason, now: clock.now() });
    },
    /** Resumes a paused schedule, and sets its count of failures to 0. */
    resume: (tx: Tx, schedule: ScheduleId): Promise<void> => scheduleStore.resumeSchedule(tx, schedule),
    /**
     * Pauses a schedule until the account has had more refills than `resume_above`, the count before its run was queued.
     * A schedule that is paused for another reason keeps that reason.
     */
    pauseForTokens: (tx: Tx, schedule: ScheduleId, reason: string, resume_above: number): Promise<void> =>
      pause(tx, schedule, reason, resume_above),
    /** A page of the schedules that wait for tokens: a user's, or with null all users'. */
    waitingForTokens: (page: Parameters<typeof scheduleStore.selectWaiting>[1]) =>
      scheduleStore.selectWaiting(db, page),
    /** Resumes a schedule that waits for tokens if there have been enough refills. False: it stays paused. */
    resumeForTokens: (schedule: ScheduleId, refills: number): Promise<boolean> =>
      scheduleStore.endWaiting(db, schedule, refills),
    /** Call it before runs end: locks the schedules whose count of failures will change, and returns their agents' ids. */
    lockCounted: scheduleStore.lockCounted,
    /**
     * Counts a failed run, or resets the count to 0. A run without a schedule counts for the default one. Returns the
     * schedule and its failures in a row; absent when there is nothing to change.
     */
    countOutcome: scheduleStore.countOutcome,
    /**
     * The next runs of a user's agents, soonest first, after the cursor `after`. Paused and inactive schedules are
     * omitted.
     */
    nextRuns: (user_id: string, page: Parameters<typeof scheduleStore.selectNextRuns>[2]) =>
      scheduleStore.selectNextRuns(db, user_id, page),
    /** Occurrences of an agent or of one of its schedules, newest first; `before` is the last one of the page before. */
    occurrences: (
      of: AgentKey & { schedule_id?: string | null },
      page: Parameters<typeof scheduleStore.selectOccurrences>[2],
    ) => scheduleStore.selectOccurrences(db, of, page),
    /** Deletes the agent's schedules and their occurrences. */
    forgetAgent: (tx: Tx, agent: AgentKey): Promise<void> => scheduleStore.deleteOfAgent(tx, agent),
    /** Deletes all schedules and occurrences of a user. */
    forgetUser: (tx: Tx, user_id: string): Promise<void> => scheduleStore.deleteOfUser(tx, user_id),
    /** Deletes a batch of the occurrences recorded before an instant. True: there may be more. */
    pruneOccurrences: (before: Instant): Promise<boolean> => scheduleStore.deleteOccurrences(db, before, PRUNE_BATCH),
    /** Queues the runs that are due, see tick.service.ts. */
    tick: (due: DueRuns): Promise<void> => tick({ db, clock }, due),
    /** The next instant up to `until` at which a schedule is due; null if none. */
    nextDueAt: (until: Instant): Promise<Instant | null> => scheduleStore.selectNextDue(db, until),
  };
}

/** A schedule that is off and was never set. */
export const EMPTY_SCHEDULE = {
  spec: { timezone: "UTC" },
  input: null,
  run_prompt: null,
  deliveries: null,
  enabled: false,
  next_run_at: null,
  paused_reason: null,
  paused_at: null,
  resume_above: null,
  api_key_id: null,
  consecutive_failures: 0,
} as const;
