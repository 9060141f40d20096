import type { AgentKey } from "../../api/contract/agents.ts";
import type { OccurrenceRecord } from "../../api/contract/schedules.ts";
import type { Sql, Tx } from "../../platform/db/db.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { ScheduleSpec } from "./spec.ts";

/** Schedules and occurrences. */

export interface ScheduleRow extends AgentKey {
  spec: ScheduleSpec;
  active: boolean;
  next_run_at: Instant | null;
  paused_reason: string | null;
  /** null: not paused, or the start of the pause was not recorded. */
  paused_at: Instant | null;
}

/** A due schedule, locked by this transaction. */
export type DueRow = ScheduleRow & { next_run_at: Instant };

const COLUMNS = "user_id, agent_id, spec, active, next_run_at, paused_reason, paused_at";

/**
 * Sets an active schedule. An unchanged schedule keeps its next run, even if it is due now; a changed one is due next
 * at `next_run_at`.
 */
export async function upsertSchedule(
  tx: Tx,
  agent: AgentKey,
  { spec, next_run_at }: { spec: ScheduleSpec; next_run_at: Instant },
): Promise<void> {
  await tx.query({
    text: `insert into schedule (user_id, agent_id, spec, active, next_run_at) values ($1, $2, $3, true, $4)
      on conflict (user_id, agent_id) do update set spec = excluded.spec, active = true,
        next_run_at = case when schedule.active and schedule.spec = excluded.spec then schedule.next_run_at
          else excluded.next_run_at end`,
    values: [agent.user_id, agent.agent_id, JSON.stringify(spec), next_run_at],
  });
}

export async function deactivateSchedule(tx: Tx, agent: AgentKey): Promise<void> {
  await tx.query({
    text: "update schedule set active = false, next_run_at = null where user_id = $1 and agent_id = $2",
    values: [agent.user_id, agent.agent_id],
  });
}

/**
 * Sets or clears the reason of a pause; a new reason keeps the start of the pause. A pause for tokens, with
 * `resume_above`, does not replace a pause for another reason.
 *
 * True: the schedule was active and not paused before.
 */
export async function setPaused(
  sql: Sql,
  agent: AgentKey,
  { reason, resume_above = null, now }: { reason: string | null; resume_above?: number | null; now: Instant },
): Promise<boolean> {
  const [row] = await sql.query<{ was_going: boolean }>({
    text: `with before as (
        select active and paused_reason is null as was_going from schedule where user_id = $1 and agent_id = $2
          and ($4::bigint is null or paused_reason is null or resume_above is not null) for update
      )
      update schedule set paused_reason = $3::text, resume_above = $4,
        paused_at = case when $3::text is null then null when paused_reason is null then $5::timestamptz else paused_at end
      from before where user_id = $1 and agent_id = $2
      returning was_going`,
    values: [agent.user_id, agent.agent_id, reason, resume_above, now],
  });
  return row?.was_going === true;
}

/** A schedule that waits for tokens. */
export interface WaitingRow {
  user_id: string;
  agent_id: string;
  resume_above: number;
}

/** Schedules that wait for tokens, of one user or all, ordered by user and agent, after the cursor `after`. */
export async function selectWaiting(
  sql: Sql,
  page: { user_id: string | null; after: Pick<WaitingRow, "user_id" | "agent_id"> | null; limit: number },
): Promise<WaitingRow[]> {
  return sql.query<WaitingRow>({
    name: "schedule_waiting",
    text: `select user_id, agent_id, resume_above from schedule
      where resume_above is not null and ($1::uuid is null or user_id = $1)
        and ($2::uuid is null or (user_id, agent_id) > ($2, $3::uuid))
      order by user_id, agent_id limit $4`,
    values: [page.user_id, page.after?.user_id ?? null, page.after?.agent_id ?? null, page.limit],
  });
}

/** Resumes a schedule that waits for tokens after enough refills. False: too few refills, or it no longer waits. */
export async function endWaiting(tx: Tx, agent: AgentKey, refills: number): Promise<boolean> {
  const rows = await tx.query({
    text: `update schedule set paused_reason = null, paused_at = null, resume_above = null
      where user_id = $1 and agent_id = $2 and resume_above < $3 returning agent_id`,
    values: [agent.user_id, agent.agent_id, refills],
  });
  return rows.length > 0;
}

export async function selectSchedules(sql: Sql, user_id: string, agent_ids: readonly string[]): Promise<ScheduleRow[]> {
  return sql.query<ScheduleRow>({
    name: "schedule_list",
    text: `select ${COLUMNS} from schedule
      where user_id = $1 and agent_id in (select id::uuid from jsonb_array_elements_text($2::jsonb) as agent(id))`,
    values: [user_id, JSON.stringify(agent_ids)],
  });
}

/** The next run of an agent. */
export interface NextRun {
  agent_id: string;
  next_run_at: Instant;
}

/** Active schedules of a user that are not paused, ordered by next run, after the cursor `after`. */
export async function selectNextRuns(
  sql: Sql,
  user_id: string,
  { limit, after }: { limit: number; after: NextRun | null },
): Promise<NextRun[]> {
  return sql.query<NextRun>({
    name: "schedule_next_runs",
    text: `select agent_id, next_run_at from schedule
      where user_id = $1 and active and paused_reason is null
        and ($2::timestamptz is null or (next_run_at, agent_id) > ($2, $3::uuid))
      order by next_run_at, agent_id limit $4`,
    values: [user_id, after?.next_run_at ?? null, after?.agent_id ?? null, limit],
  });
}

/** The agent's schedule if it is due, locked by this transaction. */
export async function lockDueSchedule(tx: Tx, agent: AgentKey, now: Instant): Promise<DueRow | undefined> {
  const [row] = await tx.query<DueRow>({
    text: `select ${COLUMNS} from schedule where user_id = $1 and agent_id = $2 and active and next_run_at <= $3 for update`,
    values: [agent.user_id, agent.agent_id, now],
  });
  return row;
}

/** Locks up to `most` due schedules that no other node has locked. */
export async function lockDueSchedules(tx: Tx, now: Instant, most: number): Promise<DueRow[]> {
  return tx.query<DueRow>({
    name: "schedule_due",
    text: `select ${COLUMNS} from schedule where active and next_run_at <= $1 order by next_run_at limit $2 for update skip locked`,
    values: [now, most],
  });
}

export async function advanceSchedules(tx: Tx, next: readonly (AgentKey & { next_run_at: Instant })[]): Promise<void> {
  await tx.query({
    name: "schedule_advance",
    text: `update schedule set next_run_at = next.next_run_at
      from jsonb_to_recordset($1::jsonb) as next(user_id uuid, agent_id uuid, next_run_at timestamptz)
      where schedule.user_id = next.user_id and schedule.agent_id = next.agent_id`,
    values: [JSON.stringify(next)],
  });
}

export async function selectNextDue(sql: Sql, until: Instant): Promise<Instant | null> {
  const [row] = await sql.query<{ at: Instant | null }>({
    name: "schedule_next",
    text: "select min(next_run_at) as at from schedule where active and next_run_at <= $1",
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
    text: `insert into occurrence (user_id, agent_id, at, state, reason, run_id, recorded_at)
      select user_id, agent_id, at, state, reason, run_id, recorded_at
      from jsonb_to_recordset($1::jsonb) as given(user_id uuid, agent_id uuid, at timestamptz, state text, reason text, run_id uuid, recorded_at timestamptz)
      on conflict do nothing returning run_id`,
    values: [JSON.stringify(occurrences)],
  });
  return new Set(rows.flatMap(({ run_id }) => run_id ?? []));
}

export async function selectOccurrences(
  sql: Sql,
  agent: AgentKey,
  page: { limit: number; before: Instant | null },
): Promise<Omit<OccurrenceRecord, "run">[]> {
  return sql.query({
    name: "occurrence_list",
    text: `select at, state, at as scheduled_for, state as status, reason, run_id, recorded_at from occurrence
      where user_id = $1 and agent_id = $2 and ($3::timestamptz is null or at < $3) order by at desc limit $4`,
    values: [agent.user_id, agent.agent_id, page.before, page.limit],
  });
}

/** Deletes occurrences recorded before an instant, oldest first. True: there may be more. */
export async function deleteOccurrences(sql: Sql, before: Instant, limit: number): Promise<boolean> {
  const rows = await sql.query({
    name: "occurrence_delete",
    text: `with old as materialized (
        select user_id, agent_id, at from occurrence where recorded_at < $1 order by recorded_at limit $2
      )
      delete from occurrence using old
      where occurrence.user_id = old.user_id and occurrence.agent_id = old.agent_id and occurrence.at = old.at
      returning occurrence.at`,
    values: [before, limit],
  });
  return rows.length === limit;
}

/** Deletes the agent's schedule and its occurrences. */
export async function deleteSchedule(tx: Tx, agent: AgentKey): Promise<void> {
  for (const table of ["schedule", "occurrence"]) {
    await tx.query({
      text: `delete from ${table} where user_id = $1 and agent_id = $2`,
      values: [agent.user_id, agent.agent_id],
    });
  }
}

/** Deletes all schedules and occurrences of a user. */
export async function deleteSchedulesOfUser(tx: Tx, user_id: string): Promise<void> {
  for (const table of ["schedule", "occurrence"]) {
    await tx.query({ text: `delete from ${table} where user_id = $1`, values: [user_id] });
  }
}
