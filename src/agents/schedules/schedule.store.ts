import type { AgentKey } from "../../api/contract/agents.ts";
import type { AgentDelivery } from "../../api/contract/deliveries.ts";
import type { RunData } from "../../api/contract/runs.ts";
import type { OccurrenceRecord } from "../../api/contract/schedules.ts";
import type { Sql, Tx } from "../../platform/db/db.ts";
import { assignments, firstRow, insertInto } from "../../platform/db/statements.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { jsonbText } from "../../platform/lib/json.ts";
import type { SpecFields } from "./spec-fields.ts";

/** Schedules and occurrences. */

/** A schedule of a user. */
export interface ScheduleId {
  user_id: string;
  id: string;
}

/** A schedule without what its runs do. */
export interface ScheduleState extends ScheduleId {
  agent_id: string;
  /** Unique within the agent. */
  name: string;
  spec: SpecFields;
  enabled: boolean;
  /** null: it is off, its agent is disabled, or it has ended. */
  next_run_at: Instant | null;
  /** Not null: due instants are recorded as skipped. */
  paused_reason: string | null;
  /** null: not paused, or the start of the pause was not recorded. */
  paused_at: Instant | null;
  /** Not null: it waits for tokens, and resumes when the account has had more refills. */
  resume_above: number | null;
  /** The API key that its runs count against; null: none. */
  api_key_id: string | null;
  consecutive_failures: number;
  created_at: Instant;
  updated_at: Instant;
}

export interface ScheduleRow extends ScheduleState {
  input: RunData | null;
  /** null: the agent's. */
  run_prompt: string | null;
  /** null: the agent's. */
  deliveries: readonly AgentDelivery[] | null;
}

/** A due schedule, locked by this transaction. */
export type DueRow = ScheduleRow & { next_run_at: Instant };

/** The schedule that an agent's schedule_* fields show. Each agent has it. */
export const DEFAULT_SCHEDULE = "default";

const STATE_COLUMNS = `user_id, id, agent_id, name, spec, enabled, next_run_at, paused_reason, paused_at, resume_above,
  api_key_id, consecutive_failures, created_at, updated_at`;
const COLUMNS = `${STATE_COLUMNS}, input, run_prompt, deliveries`;
/** A schedule that its user has set. The default one exists before that. */
const IS_SET = `(name <> '${DEFAULT_SCHEDULE}' or spec ? 'interval')`;

const toColumns = (row: ScheduleRow) => ({
  ...row,
  spec: JSON.stringify(row.spec),
  input: row.input === null ? null : jsonbText(row.input),
  deliveries: row.deliveries === null ? null : JSON.stringify(row.deliveries),
});

/** False: the agent has a schedule of this name. */
export async function insertSchedule(tx: Tx, row: ScheduleRow): Promise<boolean> {
  const end = "on conflict (user_id, agent_id, name) do nothing returning id";
  return (await tx.query(insertInto("schedule", toColumns(row), end))).length > 0;
}

export async function updateSchedule(tx: Tx, row: ScheduleRow): Promise<void> {
  const { user_id, id, agent_id: _, ...set } = toColumns(row);
  const values: unknown[] = [user_id, id];
  await tx.query({ text: `update schedule set ${assignments(values, set)} where user_id = $1 and id = $2`, values });
}

/** Deletes a schedule and its occurrences. */
export async function deleteSchedule(tx: Tx, { user_id, id }: ScheduleId): Promise<void> {
  await tx.query({ text: "delete from schedule where user_id = $1 and id = $2", values: [user_id, id] });
  await deleteOccurrencesOf(tx, { user_id, id });
}

export async function deleteOccurrencesOf(tx: Tx, { user_id, id }: ScheduleId): Promise<void> {
  await tx.query({ text: "delete from occurrence where user_id = $1 and schedule_id = $2", values: [user_id, id] });
}

/** The agent's schedules, the default one included, locked until the transaction ends. */
export async function lockSchedules(tx: Tx, { user_id, agent_id }: AgentKey): Promise<ScheduleRow[]> {
  return tx.query<ScheduleRow>({
    text: `select ${COLUMNS} from schedule where user_id = $1 and agent_id = $2 order by user_id, id for update`,
    values: [user_id, agent_id],
  });
}

/** The schedules of these agents, in the order of their creation, default first. */
export async function selectOfAgents(
  sql: Sql,
  user_id: string,
  agent_ids: readonly string[],
): Promise<ScheduleState[]> {
  return sql.query<ScheduleState>({
    name: "schedule_of_agents",
    text: `select ${STATE_COLUMNS} from schedule where user_id = $1 and agent_id = any($2::uuid[]) order by id`,
    values: [user_id, agent_ids],
  });
}

/** The agents with a schedule that is paused, or that is on and has failures in a row. */
export async function selectTroubledAgents(sql: Sql, user_id: string): Promise<string[]> {
  const rows = await sql.query<{ agent_id: string }>({
    name: "schedule_troubled_agents",
    text: `select distinct agent_id from schedule
      where user_id = $1 and enabled and next_run_at is not null and (paused_reason is not null or consecutive_failures > 0)`,
    values: [user_id],
  });
  return rows.map(({ agent_id }) => agent_id);
}

/** The time zone of each agent's schedule `default`, in order; absent: it has none. */
export async function selectZones(sql: Sql, agents: readonly AgentKey[]): Promise<(string | undefined)[]> {
  const rows = await sql.query<{ agent_id: string; timezone: string }>({
    name: "schedule_zones",
    text: `select schedule.agent_id, spec ->> 'timezone' as timezone
      from (select distinct user_id, agent_id from jsonb_to_recordset($1::jsonb) as key(user_id uuid, agent_id uuid)) as key
      join schedule using (user_id, agent_id) where name = $2`,
    values: [JSON.stringify(agents), DEFAULT_SCHEDULE],
  });
  const zones = new Map(rows.map(({ agent_id, timezone }) => [agent_id, timezone]));
  return agents.map(({ agent_id }) => zones.get(agent_id));
}

/** A page of the schedules that the agent's user has set, in the order of their creation, after the cursor `after_id`. */
export async function selectPage(
  sql: Sql,
  { user_id, agent_id }: AgentKey,
  { limit, after_id }: { limit: number; after_id: string | null },
): Promise<ScheduleRow[]> {
  return sql.query<ScheduleRow>({
    name: "schedule_list",
    text: `select ${COLUMNS} from schedule where user_id = $1 and agent_id = $2 and ${IS_SET}
        and ($3::uuid is null or id > $3) order by id limit $4`,
    values: [user_id, agent_id, after_id, limit],
  });
}

/** A schedule that its user has set. */
export async function selectSchedule(sql: Sql, { user_id, id }: ScheduleId): Promise<ScheduleRow | undefined> {
  return firstRow<ScheduleRow>(sql, {
    name: "schedule_find",
    text: `select ${COLUMNS} from schedule where user_id = $1 and id = $2 and ${IS_SET}`,
    values: [user_id, id],
  });
}

/** The schedules that count against an API key, locked until the transaction ends. */
export async function lockOfKey(tx: Tx, user_id: string, api_key_id: string): Promise<ScheduleState[]> {
  return tx.query<ScheduleState>({
    text: `select ${STATE_COLUMNS} from schedule where user_id = $1 and api_key_id = $2 order by user_id, id for update`,
    values: [user_id, api_key_id],
  });
}

/** The schedule that was paused, and whether it was going to run before. */
export type PausedRow = Pick<ScheduleState, "agent_id" | "name"> & { was_going: boolean };

/**
 * Sets or clears the reason of a pause; a new reason keeps the start of the pause. A pause for tokens, with
 * `resume_above`, does not replace a pause for another reason.
 */
export async function setPaused(
  sql: Sql,
  { user_id, id }: ScheduleId,
  { reason, resume_above = null, now }: { reason: string | null; resume_above?: number | null; now: Instant },
): Promise<PausedRow | undefined> {
  return firstRow<PausedRow>(sql, {
    text: `with before as (
        select next_run_at is not null and paused_reason is null as was_going from schedule where user_id = $1 and id = $2
          and ($4::bigint is null or paused_reason is null or resume_above is not null) for update
      )
      update schedule set paused_reason = $3::text, resume_above = $4,
        paused_at = case when $3::text is null then null when paused_reason is null then $5::timestamptz else paused_at end
      from before where user_id = $1 and id = $2
      returning agent_id, name, was_going`,
    values: [user_id, id, reason, resume_above, now],
  });
}

/** A schedule that waits for tokens. */
export interface WaitingRow extends ScheduleId {
  agent_id: string;
  resume_above: number;
}

/** Schedules that wait for tokens, of one user or all, ordered by user and id, after the cursor `after`. */
export async function selectWaiting(
  sql: Sql,
  page: { user_id: string | null; after: ScheduleId | null; limit: number },
): Promise<WaitingRow[]> {
  return sql.query<WaitingRow>({
    name: "schedule_waiting",
    text: `select user_id, id, agent_id, resume_above from schedule
      where resume_above is not null and ($1::uuid is null or user_id = $1)
        and ($2::uuid is null or (user_id, id) > ($2, $3::uuid))
      order by user_id, id limit $4`,
    values: [page.user_id, page.after?.user_id ?? null, page.after?.id ?? null, page.limit],
  });
}

/** Resumes a schedule that waits for tokens after enough refills. False: too few refills, or it no longer waits. */
export async function endWaiting(sql: Sql, { user_id, id }: ScheduleId, refills: number): Promise<boolean> {
  const rows = await sql.query({
    text: `update schedule set paused_reason = null, paused_at = null, resume_above = null, consecutive_failures = 0
      where user_id = $1 and id = $2 and resume_above < $3 returning id`,
    values: [user_id, id, refills],
  });
  return rows.length > 0;
}

/** Resumes a paused schedule, and sets its count of failures to 0. */
export async function resumeSchedule(tx: Tx, { user_id, id }: ScheduleId): Promise<void> {
  await tx.query({
    text: `update schedule set paused_reason = null, paused_at = null, resume_above = null, consecutive_failures = 0
      where user_id = $1 and id = $2`,
    values: [user_id, id],
  });
}

/**
 * Locks the schedules whose count of failures will change: a run of their agent fails, or they have failures counted.
 * Returns the ids of their agents.
 */
export async function lockCounted(tx: Tx, runs: readonly (AgentKey & { fails: boolean })[]): Promise<Set<string>> {
  const rows = await tx.query<{ agent_id: string }>({
    name: "schedule_lock_counted",
    text: `select schedule.agent_id from jsonb_to_recordset($1::jsonb) as run(user_id uuid, agent_id uuid, fails boolean)
      join schedule on schedule.user_id = run.user_id and schedule.agent_id = run.agent_id
      where fails or consecutive_failures > 0
      order by schedule.user_id, schedule.id for no key update of schedule`,
    values: [JSON.stringify(runs)],
  });
  return new Set(rows.map(({ agent_id }) => agent_id));
}

/**
 * Counts a failed run of a schedule, or resets the count to 0; a run without a schedule counts for the default one.
 * Returns the schedule and its failures in a row; absent when there is nothing to change.
 */
export async function countOutcome(
  tx: Tx,
  { user_id, agent_id, schedule_id }: AgentKey & { schedule_id: string | null },
  failed: boolean,
): Promise<{ id: string; name: string; failures: number } | undefined> {
  return firstRow(tx, {
    name: "schedule_outcome",
    text: `update schedule set consecutive_failures = case when $4 then consecutive_failures + 1 else 0 end
      where user_id = $1 and agent_id = $2 and case when $3::uuid is null then name = '${DEFAULT_SCHEDULE}' else id = $3 end
        and ($4 or consecutive_failures > 0)
      returning id, name, consecutive_failures as failures`,
    values: [user_id, agent_id, schedule_id, failed],
  });
}

/** The next run of an agent. */
export interface NextRun {
  agent_id: string;
  next_run_at: Instant;
}

/** A user's agents with a schedule that will run and is not paused, ordered by next run, after the cursor `after`. */
export async function selectNextRuns(
  sql: Sql,
  user_id: string,
  { limit, after }: { limit: number; after: NextRun | null },
): Promise<NextRun[]> {
  return sql.query<NextRun>({
    name: "schedule_next_runs",
    text: `select agent_id, next_run_at from (
        select agent_id, min(next_run_at) as next_run_at from schedule
        where user_id = $1 and next_run_at is not null and paused_reason is null group by agent_id
      ) as due
      where $2::timestamptz is null or (next_run_at, agent_id) > ($2, $3::uuid)
      order by next_run_at, agent_id limit $4`,
    values: [user_id, after?.next_run_at ?? null, after?.agent_id ?? null, limit],
  });
}

/** Locks up to `most` due schedules that no other node has locked. */
export async function lockDueSchedules(tx: Tx, now: Instant, most: number): Promise<DueRow[]> {
  return tx.query<DueRow>({
    name: "schedule_due",
    text: `select ${COLUMNS} from schedule where next_run_at <= $1 order by next_run_at limit $2 for update skip locked`,
    values: [now, most],
  });
}

export async function advanceSchedules(
  tx: Tx,
  next: readonly (ScheduleId & { next_run_at: Instant | null })[],
): Promise<void> {
  await tx.query({
    name: "schedule_advance",
    text: `update schedule set next_run_at = next.next_run_at
      from jsonb_to_recordset($1::jsonb) as next(user_id uuid, id uuid, next_run_at timestamptz)
      where schedule.user_id = next.user_id and schedule.id = next.id`,
    values: [JSON.stringify(next)],
  });
}

export async function selectNextDue(sql: Sql, until: Instant): Promise<Instant | null> {
  const row = await firstRow<{ at: Instant | null }>(sql, {
    name: "schedule_next",
    text: "select min(next_run_at) as at from schedule where next_run_at <= $1",
    values: [until],
  });
  return row?.at ?? null;
}

export interface OccurrenceRow extends Omit<OccurrenceRecord, "scheduled_for" | "status" | "run"> {
  user_id: string;
  agent_id: string;
}

/** Records the outcomes of due instants. Returns the run ids of instants that had not been recorded before. */
export async function insertOccurrences(tx: Tx, occurrences: readonly OccurrenceRow[]): Promise<Set<string>> {
  const rows = await tx.query<{ run_id: string | null }>({
    name: "occurrence_insert",
    text: `insert into occurrence (user_id, schedule_id, at, agent_id, state, reason, run_id, recorded_at)
      select user_id, schedule_id, at, agent_id, state, reason, run_id, recorded_at
      from jsonb_to_recordset($1::jsonb) as given(user_id uuid, schedule_id uuid, at timestamptz, agent_id uuid, state text,
        reason text, run_id uuid, recorded_at timestamptz)
      on conflict do nothing returning run_id`,
    values: [JSON.stringify(occurrences)],
  });
  return new Set(rows.flatMap(({ run_id }) => run_id ?? []));
}

/** The position of an occurrence in the list of an agent's. */
export type OccurrencePlace = Pick<OccurrenceRecord, "at" | "schedule_id">;

/** Occurrences of an agent or of one of its schedules, newest first. */
export async function selectOccurrences(
  sql: Sql,
  { user_id, agent_id, schedule_id = null }: AgentKey & { schedule_id?: string | null },
  { limit, before }: { limit: number; before: OccurrencePlace | null },
): Promise<Omit<OccurrenceRecord, "run">[]> {
  return sql.query({
    name: "occurrence_list",
    text: `select at, state, at as scheduled_for, state as status, schedule_id, reason, run_id, recorded_at from occurrence
      where user_id = $1 and agent_id = $2 and ($3::uuid is null or schedule_id = $3)
        and ($4::timestamptz is null or (at, schedule_id) < ($4, $5::uuid))
      order by at desc, schedule_id desc limit $6`,
    values: [user_id, agent_id, schedule_id, before?.at ?? null, before?.schedule_id ?? null, limit],
  });
}

/** Deletes occurrences recorded before an instant, oldest first. True: there may be more. */
export async function deleteOccurrences(sql: Sql, before: Instant, limit: number): Promise<boolean> {
  const rows = await sql.query({
    name: "occurrence_delete",
    text: `with old as materialized (
        select user_id, schedule_id, at from occurrence where recorded_at < $1 order by recorded_at limit $2
      )
      delete from occurrence using old
      where occurrence.user_id = old.user_id and occurrence.schedule_id = old.schedule_id and occurrence.at = old.at
      returning occurrence.at`,
    values: [before, limit],
  });
  return rows.length === limit;
}

/** Deletes the agent's schedules and their occurrences. */
export async function deleteOfAgent(tx: Tx, { user_id, agent_id }: AgentKey): Promise<void> {
  for (const table of ["schedule", "occurrence"]) {
    await tx.query({
      text: `delete from ${table} where user_id = $1 and agent_id = $2`,
      values: [user_id, agent_id],
    });
  }
}

/** Deletes all schedules and occurrences of a user. */
export async function deleteOfUser(tx: Tx, user_id: string): Promise<void> {
  for (const table of ["schedule", "occurrence"]) {
    await tx.query({ text: `delete from ${table} where user_id = $1`, values: [user_id] });
  }
}
