import { setTimeout } from "node:timers/promises";
import type { Db } from "../../src/platform/db/db.ts";
import type { Instant } from "../../src/platform/lib/instant.ts";

/** Fills the tables of schedules and runs in bulk, and does the measured work in bare SQL. */

/** One user for each number, whose agents and runs have numbers of their own. */
const ID = (number: string) => `('00000000-0000-7000-8000-' || lpad(to_hex(${number}), 12, '0'))::uuid`;

/** Finished runs of an idle queue. */
const IDLE_RUNS = 1_000;

/**
 * Empties the tables, except for a few finished runs. The statistics of `run` stay those of this idle queue, because a
 * burst of due schedules is over before PostgreSQL analyzes the table again.
 */
export async function empty(db: Db): Promise<void> {
  await db.query({
    text: "truncate run, run_step, runs_at_work, runs_at_work_change, occurrence, schedule, agent, agent_version, users cascade",
  });
  await db.query({ text: "alter table run set (autovacuum_enabled = false)" });
  await db.query({
    text: `insert into run (user_id, id, agent_id, agent_version, trigger, status, queued_at, finished_at, engine_input, priority)
      select ${ID("n")}, ${ID("n + 200000000")}, ${ID("n")}, 1, 'manual', 'succeeded', now(), now(), '{}', 1
      from generate_series(1, $1::integer) n`,
    values: [IDLE_RUNS],
  });
  await db.query({ text: "vacuum analyze run" });
}

/** Agents with a daily schedule that is due in a day, spread over `users`. */
export async function insertAgents(db: Db, of: { agents: number; users: number; now: Instant }): Promise<void> {
  const { agents, users, now } = of;
  await db.query({
    text: `insert into users (id, email, created_at)
      select ${ID("n")}, 'user' || n || '@example.com', $2 from generate_series(0, $1::integer - 1) n`,
    values: [users, now],
  });
  await db.query({
    text: `insert into agent (user_id, id, version, name, run_prompt, model_id, auto_route, is_active, tools_config,
        limits, created_at, updated_at)
      select ${ID("n % $2::integer")}, ${ID("n")}, 1, 'agent', 'Go.', 'bench/instant', false, true, '{}',
        '{"max_consecutive_failures": 5}', $3, $3 from generate_series(0, $1::integer - 1) n`,
    values: [agents, users, now],
  });
  await db.query({
    // Half a day later, because an instant near their own time would look like a change of the time zone's rules.
    text: `insert into schedule (user_id, id, agent_id, name, spec, enabled, next_run_at, created_at, updated_at)
      select user_id, id, id, 'default', jsonb_build_object('interval', 'daily', 'timezone', 'Europe/Berlin', 'times',
        jsonb_build_array(to_char(($1::timestamptz + interval '12 hours') at time zone 'Europe/Berlin', 'HH24:MI'))),
        true, $1::timestamptz + interval '1 day', $1, $1 from agent`,
    values: [now],
  });
  await db.query({ text: "vacuum analyze" });
}

/** Makes `due` of the schedules due at an instant. */
export async function setDue(db: Db, at: Instant, due: number): Promise<void> {
  await db.query({
    text: `update schedule set next_run_at = $1 where (user_id, id) in (
      select user_id, id from schedule order by id limit $2)`,
    values: [at, due],
  });
}

export async function untilDispatched(db: Db, runs: number): Promise<void> {
  for (;;) {
    const [row] = await db.query<{ done: boolean }>({ text: `select count(*) >= ${runs} as done from occurrence` });
    if (row?.done === true) return;
    await setTimeout(100);
  }
}

/** Milliseconds from `at` to the commit of each occurrence. */
export async function committedAfter(db: Db, at: Instant): Promise<number[]> {
  const rows = await db.query<{ late_ms: number }>({
    text: `select extract(epoch from pg_xact_commit_timestamp(occurrence.xmin) - $1::timestamptz)::float8 * 1000 as late_ms
      from occurrence join run on run.user_id = occurrence.user_id and run.id = occurrence.run_id`,
    values: [at],
  });
  return rows.map(({ late_ms }) => late_ms);
}

/** Handles all due schedules, with occurrences, runs and next instants, in one statement without decisions. */
export async function dispatch(db: Db): Promise<void> {
  await db.query({
    text: `with due as materialized (
        select user_id, id, agent_id, next_run_at, gen_random_uuid() as run_id from schedule
        where next_run_at <= clock_timestamp() for update skip locked
      ), occurrences as (
        insert into occurrence (user_id, schedule_id, agent_id, at, state, run_id, recorded_at)
        select user_id, id, agent_id, next_run_at, 'run', run_id, clock_timestamp() from due
      ), runs as (
        insert into run (user_id, id, agent_id, agent_version, trigger, schedule_id, scheduled_for, queued_at, engine_input, priority)
        select user_id, run_id, agent_id, 1, 'schedule', id, next_run_at, clock_timestamp(), '{}', 2 from due
      )
      update schedule set next_run_at = schedule.next_run_at + interval '1 day'
      from due where schedule.user_id = due.user_id and schedule.id = due.id`,
  });
}

/** Queued runs, spread over `users`. */
export async function insertRuns(db: Db, of: { runs: number; users: number; now: Instant }): Promise<void> {
  const { runs, users, now } = of;
  await db.query({
    text: `insert into run (user_id, id, agent_id, agent_version, trigger, queued_at, engine_input, priority)
      select ${ID("n % $2::integer")}, ${ID("n")}, ${ID("n")}, 1, 'manual', $3, '{}', 1 from generate_series(0, $1::integer - 1) n`,
    values: [runs, users, now],
  });
}

/** Runs at work of other workers. Each user has ten of them. */
export async function insertRunsAtWork(db: Db, of: { runs: number; now: Instant }): Promise<void> {
  const { runs, now } = of;
  await db.query({
    text: `insert into run (user_id, id, agent_id, agent_version, trigger, queued_at, engine_input, priority, status, started_at,
        worker_id, claimed_at, lease_until, epoch)
      select ${ID("n / 10")}, ${ID("n + 100000000")}, ${ID("n")}, 1, 'manual', $2, '{}', 1, 'running', $2, 'other', clock_timestamp(),
        clock_timestamp() + interval '1 hour', 1 from generate_series(0, $1::integer - 1) n`,
    values: [runs, now],
  });
}

/** Claims the oldest runs, ignoring users and limits. */
export async function claim(db: Db, most: number): Promise<readonly unknown[]> {
  return db.query({
    name: "bare_claim",
    text: `update run set status = 'running', epoch = epoch + 1, worker_id = 'bench',
        lease_until = clock_timestamp() + interval '30 seconds', started_at = clock_timestamp()
      where (user_id, id) in (
        select user_id, id from run where status = 'queued' order by priority, id limit $1 for update skip locked
      ) returning *`,
    values: [most],
  });
}

/** Ends the running runs of the worker. */
export async function endRuns(db: Db): Promise<void> {
  await db.query({
    name: "bare_end",
    text: `update run set status = 'succeeded', finished_at = clock_timestamp(), lease_until = null
      where phase = 'working' and worker_id = 'bench'`,
  });
}

export async function forgetRuns(db: Db): Promise<void> {
  await db.query({ text: "truncate run, run_step, runs_at_work, runs_at_work_change, occurrence" });
}
