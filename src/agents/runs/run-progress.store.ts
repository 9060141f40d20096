import type { Sql } from "../../platform/db/db.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { RUN_COLUMNS, type RunRow } from "./run.store.ts";
import { STEP_COLUMNS } from "./run-history.store.ts";
import type { JournalStep } from "./runs.types.ts";

/** Reads of runs for their followers and for threads. */

export interface FollowedRow extends RunRow {
  output: string | null;
  cancel_requested_at: Instant | null;
}

/**
 * A run, and its steps from `from_step` on. The run is read first, so all steps of a finished run are final. Without the
 * internal part, which may have 16 MB of pictures.
 */
export async function selectFollowed(
  sql: Sql,
  { user_id, run_id, from_step }: { user_id: string; run_id: string; from_step: number },
): Promise<{ run: FollowedRow; steps: JournalStep[] } | undefined> {
  const [run] = await sql.query<FollowedRow>({
    name: "run_followed",
    text: `select ${RUN_COLUMNS}, output, cancel_requested_at from run where user_id = $1 and id = $2`,
    values: [user_id, run_id],
  });
  if (run === undefined) return undefined;
  const steps = await sql.query<JournalStep>({
    name: "run_steps_from",
    text: `select ${STEP_COLUMNS}, null::jsonb as internal from run_step
      where user_id = $1 and run_id = $2 and index >= $3 order by index`,
    values: [user_id, run_id, from_step],
  });
  return { run, steps };
}

/** A fingerprint of each run, which changes when the run has new events. */
export async function selectFingerprints(
  sql: Sql,
  runs: readonly { user_id: string; run_id: string }[],
): Promise<{ run_id: string; fingerprint: string }[]> {
  return sql.query({
    name: "run_fingerprints",
    text: `select run.id as run_id, concat_ws(' ', run.status, run.started_at is not null, count(step.index), count(step.finished_at)) as fingerprint
      from jsonb_to_recordset($1::jsonb) as given(user_id uuid, run_id uuid)
      join run on run.user_id = given.user_id and run.id = given.run_id
      left join run_step as step on step.user_id = run.user_id and step.run_id = run.id
      group by run.user_id, run.id`,
    values: [JSON.stringify(runs)],
  });
}

/** A run with its input. */
export interface BegunRow extends RunRow {
  input: unknown;
}

export async function selectBegun(sql: Sql, user_id: string, run_ids: readonly string[]): Promise<BegunRow[]> {
  return sql.query<BegunRow>({
    name: "run_begun",
    text: `select ${RUN_COLUMNS}, input from run where user_id = $1 and id in (select value::uuid from jsonb_array_elements_text($2::jsonb))`,
    values: [user_id, JSON.stringify(run_ids)],
  });
}

/** The approximate sizes of runs with their steps. */
export async function selectSizes(
  sql: Sql,
  user_id: string,
  run_ids: readonly string[],
): Promise<{ id: string; bytes: number }[]> {
  return sql.query({
    name: "run_sizes",
    text: `select id, (octet_length(input::text) + (
          select coalesce(sum(octet_length(concat(arguments, result, error, safety))), 0) from run_step as step
          where step.user_id = run.user_id and step.run_id = run.id
        ))::bigint as bytes
      from run where user_id = $1 and id in (select value::uuid from jsonb_array_elements_text($2::jsonb))`,
    values: [user_id, JSON.stringify(run_ids)],
  });
}

/** Without the internal part, which may have megabytes of pictures. */
export async function selectStepsOf(
  sql: Sql,
  user_id: string,
  run_ids: readonly string[],
): Promise<(JournalStep & { run_id: string })[]> {
  return sql.query({
    name: "run_steps_of",
    text: `select run_id, ${STEP_COLUMNS}, null::jsonb as internal from run_step
      where user_id = $1 and run_id in (select value::uuid from jsonb_array_elements_text($2::jsonb))
      order by run_id, index`,
    values: [user_id, JSON.stringify(run_ids)],
  });
}
