import type { AgentKey } from "../../api/contract/agents.ts";
import type { ResultDelivery } from "../../api/contract/deliveries.ts";
import type { RunData, StepRecord } from "../../api/contract/runs.ts";
import type { Sql } from "../../platform/db/db.ts";
import { createConditions } from "../../platform/db/statements.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { instantOf } from "../../platform/lib/instant.ts";
import { BEGIN_COLUMNS, type DetailRow, RUN_COLUMNS, type RunRow } from "./run.store.ts";
import type { JournalStep, RunFilter, RunKey } from "./runs.types.ts";

/** Reads of runs and their steps. */

/** `has_errors` of a run's record, as the index run_with_errors has it. */
export const HAS_ERRORS = "status = 'failed' or failed_calls > 0";

export async function selectRuns(
  sql: Sql,
  agent: AgentKey,
  filter: RunFilter,
  page: { limit: number; before_id: string | null },
): Promise<RunRow[]> {
  return sql.query<RunRow>({
    name: "run_list",
    text: `select ${RUN_COLUMNS} from run
      where user_id = $1 and agent_id = $2 and ($3::uuid is null or id < $3) and ($4::text is null or status = $4)
        and ($5::text is null or trigger = $5) and ($6::timestamptz is null or queued_at >= $6)
        and ($7::timestamptz is null or queued_at < $7) and ($8::boolean is null or (${HAS_ERRORS}) = $8)
      order by id desc limit $9`,
    values: [
      agent.user_id,
      agent.agent_id,
      page.before_id,
      filter.status ?? null,
      filter.trigger ?? null,
      filter.from ?? null,
      filter.to ?? null,
      filter.has_errors ?? null,
      page.limit,
    ],
  });
}

/** Runs of one user or of all users, newest first; with `agent_ids` of these agents only. */
export async function selectAllRuns(
  sql: Sql,
  filter: RunFilter & {
    user_id?: string | undefined;
    agent_id?: string | undefined;
    agent_ids?: readonly string[];
    ids?: readonly string[];
    error_code?: string | undefined;
  },
  page: { limit: number; before_id: string | null },
): Promise<RunRow[]> {
  const values: unknown[] = [page.limit];
  const { add, only, text: conditions } = createConditions(values);
  only("id <", page.before_id);
  only("user_id =", filter.user_id);
  only("agent_id =", filter.agent_id);
  if (filter.agent_ids !== undefined) add(`agent_id = any($${values.push(filter.agent_ids)}::uuid[])`);
  if (filter.ids !== undefined) add(`id = any($${values.push(filter.ids)}::uuid[])`);
  only("error ->> 'code' =", filter.error_code);
  only("trigger =", filter.trigger);
  only("queued_at >=", filter.from);
  only("queued_at <", filter.to);
  if (filter.has_errors !== undefined) add(filter.has_errors ? `(${HAS_ERRORS})` : `not (${HAS_ERRORS})`);
  // Written out, so that the planner uses the index of failed runs.
  if (filter.status === "failed") add("status = 'failed'");
  else only("status =", filter.status);
  const text = `select ${RUN_COLUMNS} from run where ${conditions()} order by id desc limit $1`;
  return sql.query<RunRow>({ text, values });
}

/** What became of these runs. */
export async function selectOutcomes(sql: Sql, user_id: string, run_ids: readonly string[]) {
  return sql.query<Pick<RunRow, "id" | "status"> & { has_errors: boolean }>({
    name: "run_outcomes",
    text: `select id, status, (${HAS_ERRORS}) as has_errors from run where user_id = $1 and id = any($2::uuid[])`,
    values: [user_id, run_ids],
  });
}

/** The versions of an agent that its unfinished runs pin. */
export async function selectPinnedVersions(sql: Sql, { user_id, agent_id }: AgentKey): Promise<number[]> {
  const rows = await sql.query<{ version: number }>({
    text: `select distinct agent_version as version from run
      where user_id = $1 and agent_id = $2 and phase <> 'ended'`,
    values: [user_id, agent_id],
  });
  return rows.map(({ version }) => version);
}

/** The unfinished run that a request began. */
export async function selectUnfinished(sql: Sql, user_id: string, request_id: string) {
  const [row] = await sql.query<{ id: string; agent_id: string }>({
    name: "run_unfinished",
    text: `select id, agent_id from run
      where user_id = $1 and phase <> 'ended' and engine_input->>'request_id' = $2 order by id desc limit 1`,
    values: [user_id, request_id],
  });
  return row ?? null;
}

/** A succeeded run as the source of a later one's {{last_output}}. */
export interface LastOutput {
  output: string;
  finished_at: Instant;
  /** The run had read outside content: a tool's answer, an end user's input, or an output that was tainted itself. */
  tainted: boolean;
}

/** The newest succeeded run before this one of its schedule; without a schedule, of its agent, chats and tests excepted. */
export async function selectLastOutput(
  sql: Sql,
  { user_id, agent_id, run_id }: RunKey & AgentKey,
): Promise<LastOutput | null> {
  const [row] = await sql.query<LastOutput>({
    name: "run_last_output",
    text: `select coalesce(output, '') as output, finished_at,
          coalesce(engine_input -> 'last' -> 'tainted' = 'true', false) or engine_input ? 'input_mark' or exists (
            select from run_step where run_step.user_id = run.user_id and run_id = run.id and type = 'tool' and safety <> 'null'
          ) as tainted
      from run cross join (select schedule_id as own from run where user_id = $1 and id = $3) as this
      where user_id = $1 and agent_id = $2 and id < $3 and status = 'succeeded' and trigger not in ('chat', 'test')
        and (own is null or schedule_id = own)
      order by id desc limit 1`,
    values: [user_id, agent_id, run_id],
  });
  return row ?? null;
}

export async function selectRun(sql: Sql, user_id: string, run_id: string) {
  const [row] = await sql.query<DetailRow>({
    name: "run_get",
    text: `select ${RUN_COLUMNS}, input, run_prompt, engine_input -> 'input_safety' as input_safety, output, output_json,
        run_deliveries(user_id, id) as deliveries, run_actions(user_id, id, false) as decisions
      from run where user_id = $1 and id = $2`,
    values: [user_id, run_id],
  });
  return row === undefined ? undefined : { ...row, deliveries: row.deliveries.map(parseDelivery) };
}

// Two callers may request the same run.
const GIVEN_KEYS =
  "(select distinct user_id, run_id from jsonb_to_recordset($1::jsonb) as key(user_id uuid, run_id uuid)) as given";

/** For each run, in order, whether it has finished. */
export async function selectFinished(sql: Sql, keys: readonly RunKey[]): Promise<boolean[]> {
  const rows = await sql.query<{ id: string }>({
    name: "run_finished",
    text: `select id from ${GIVEN_KEYS} join run on run.user_id = given.user_id and run.id = run_id where finished_at is not null`,
    values: [JSON.stringify(keys)],
  });
  const finished = new Set(rows.map(({ id }) => id));
  return keys.map(({ run_id }) => finished.has(run_id));
}

export interface RunDetails {
  run: DetailRow;
  steps: StepRecord[];
}

/** The columns of a step, but for its internal part. */
export const STEP_COLUMNS =
  "index, type, name, status, arguments, result, error, safety, usage, started_at, finished_at";

/**
 * Each run, in order, with its steps, read in one snapshot. "long": a run with more than `most_steps`, whose steps are not
 * read; undefined: no such run.
 */
export async function selectDetails(
  sql: Sql,
  keys: readonly RunKey[],
  most_steps: number,
): Promise<(RunDetails | "long" | undefined)[]> {
  const rows = await sql.query<{ detail: DetailJson | null; is_long: boolean | null }>({
    name: "run_details",
    text: `select steps_count > $2 as is_long, case when steps_count <= $2 then (
        select detail from run_details(key.user_id, key.run_id) as detail
      ) end as detail
      from rows from (jsonb_to_recordset($1::jsonb) as (user_id uuid, run_id uuid)) with ordinality as key
      left join run on run.user_id = key.user_id and run.id = key.run_id order by ordinality`,
    values: [JSON.stringify(keys), most_steps],
  });
  return rows.map(({ detail, is_long }) => (is_long ? "long" : detail === null ? undefined : parseDetail(detail)));
}

/** The steps of a run after one of them, as many as `limit`. */
export async function selectStepPage(
  sql: Sql,
  { user_id, run_id }: RunKey,
  { after, limit }: { after: number; limit: number },
): Promise<StepRecord[]> {
  return sql.query({
    name: "run_step_page",
    text: `select ${STEP_COLUMNS} from run_step
      where user_id = $1 and run_id = $2 and index > $3 order by index limit $4`,
    values: [user_id, run_id, after, limit],
  });
}

/** The result of the SQL function `run_details`, which formats instants differently. */
export type DetailJson = RunDetails["run"] & { steps: StepRecord[] };

export function parseDetail({ steps, ...run }: DetailJson): RunDetails {
  const { scheduled_for, queued_at, started_at, finished_at } = run;
  return {
    run: {
      ...run,
      scheduled_for: toInstantOrNull(scheduled_for),
      queued_at: instantOf(Date.parse(queued_at)),
      started_at: toInstantOrNull(started_at),
      finished_at: toInstantOrNull(finished_at),
      deliveries: run.deliveries.map(parseDelivery),
    },
    steps: steps.map((step) => ({
      ...step,
      started_at: instantOf(Date.parse(step.started_at)),
      finished_at: toInstantOrNull(step.finished_at),
    })),
  };
}

function parseDelivery(delivery: ResultDelivery): ResultDelivery {
  const { last_attempt_at, next_attempt_at, delivered_at } = delivery;
  return {
    ...delivery,
    last_attempt_at: toInstantOrNull(last_attempt_at),
    next_attempt_at: toInstantOrNull(next_attempt_at),
    delivered_at: toInstantOrNull(delivered_at),
  };
}

function toInstantOrNull(text: string | null): Instant | null {
  return text === null ? null : instantOf(Date.parse(text));
}

export async function selectSteps(sql: Sql, user_id: string, run_id: string): Promise<JournalStep[]> {
  return sql.query<JournalStep>({
    name: "run_steps",
    text: `select ${STEP_COLUMNS}, internal, call from run_step where user_id = $1 and run_id = $2 order by index`,
    values: [user_id, run_id],
  });
}

/** The newest run of each agent that is no test, by agent; `with_errors`: only if it failed or had errors. */
export async function selectLastRuns(
  sql: Sql,
  user_id: string,
  agent_ids: readonly string[],
  { with_errors = false } = {},
): Promise<RunRow[]> {
  return sql.query<RunRow>({
    name: with_errors ? "run_last_with_errors" : "run_last",
    text: `select last.* from jsonb_array_elements_text($2::jsonb) as agent(id)
      cross join lateral (
        select ${RUN_COLUMNS} from run where user_id = $1 and agent_id = agent.id::uuid and trigger <> 'test' order by id desc limit 1
      ) as last ${with_errors ? `where ${HAS_ERRORS}` : ""}`,
    values: [user_id, JSON.stringify(agent_ids)],
  });
}

/** A schedule, and whether its agent's run-nows without a schedule are its runs too. */
export interface RunsOfSchedule extends AgentKey {
  schedule_id: string;
  with_run_nows: boolean;
}

/** The schedules with an unfinished run, and the id of that run. */
export async function selectBusySchedules(
  sql: Sql,
  schedules: readonly RunsOfSchedule[],
): Promise<Map<string, string>> {
  const rows = await sql.query<{ schedule_id: string; run_id: string }>({
    name: "run_busy_schedules",
    // With the limit the planner looks up each agent instead of reading all open runs.
    text: `select due.schedule_id, open.id as run_id
      from jsonb_to_recordset($1::jsonb) as due(user_id uuid, agent_id uuid, schedule_id uuid, with_run_nows boolean)
      cross join lateral (
        select id from run where user_id = due.user_id and agent_id = due.agent_id and phase <> 'ended'
          and (schedule_id = due.schedule_id or (due.with_run_nows and schedule_id is null and trigger = 'manual')) limit 1
      ) as open`,
    values: [JSON.stringify(schedules)],
  });
  return new Map(rows.map(({ schedule_id, run_id }) => [schedule_id, run_id]));
}

/** The ids of running runs with a cancel request. */
export async function selectCancelling(sql: Sql): Promise<string[]> {
  const rows = await sql.query<{ id: string }>({
    name: "run_cancelling",
    text: "select id from run where status = 'cancelling'",
  });
  return rows.map(({ id }) => id);
}

/** Whether any run is queued or at work, and whether a worker holds a valid lease or reservation on one. */
export async function selectOpen(sql: Sql): Promise<{ open: boolean; attended: boolean }> {
  const open = `select from run where phase in ('queued', 'working')`;
  const [row] = await sql.query<{ open: boolean; attended: boolean }>({
    text: `select exists (${open}) as open, exists (${open} and lease_until > clock_timestamp()) as attended`,
  });
  return row ?? { open: false, attended: false };
}

/** The count of queued runs stops here, so a longer queue costs no more. */
const MOST_COUNTED = 20_000;

/** The number of queued runs, and when the oldest was queued. */
export async function selectQueue(sql: Sql): Promise<{ queued: number; oldest: Instant | null }> {
  const [row] = await sql.query<{ queued: number; oldest: Instant | null }>({
    name: "run_queue_figures",
    text: "select queued, oldest from queue_figures($1)",
    values: [MOST_COUNTED],
  });
  return row ?? { queued: 0, oldest: null };
}

/** Reads of runs for their followers and for threads. */

export interface FollowedRow extends Omit<DetailRow, "deliveries" | "decisions"> {
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
    text: `select ${RUN_COLUMNS}, input, run_prompt, engine_input -> 'input_safety' as input_safety, output, output_json, cancel_requested_at
      from run where user_id = $1 and id = $2`,
    values: [user_id, run_id],
  });
  if (run === undefined) return undefined;
  const steps = await sql.query<JournalStep>({
    name: "run_steps_from",
    text: `select ${STEP_COLUMNS}, null::jsonb as internal, call from run_step
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
    text: `select run.id as run_id, concat_ws(' ', run.status, run.started_at is not null, count(step.index), count(step.finished_at),
        case when run.status = 'requires_action' then run_actions(run.user_id, run.id, true) end) as fingerprint
      from jsonb_to_recordset($1::jsonb) as given(user_id uuid, run_id uuid)
      join run on run.user_id = given.user_id and run.id = given.run_id
      left join run_step as step on step.user_id = run.user_id and step.run_id = run.id
      group by run.user_id, run.id`,
    values: [JSON.stringify(runs)],
  });
}

/** A run with what it began with. */
export interface BegunRow extends RunRow {
  input: RunData | null;
  run_prompt: string | null;
  engine_input: unknown;
}

export async function selectBegun(sql: Sql, user_id: string, run_ids: readonly string[]): Promise<BegunRow[]> {
  return sql.query<BegunRow>({
    name: "run_begun",
    text: `select ${RUN_COLUMNS}, ${BEGIN_COLUMNS} from run where user_id = $1 and id in (select value::uuid from jsonb_array_elements_text($2::jsonb))`,
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
    text: `select id, (octet_length(engine_input::text) + (
          select coalesce(sum(octet_length(concat(arguments, result, error, safety))), 0) from run_step as step
          where step.user_id = run.user_id and step.run_id = run.id
        ))::bigint as bytes
      from run where user_id = $1 and id in (select value::uuid from jsonb_array_elements_text($2::jsonb))`,
    values: [user_id, JSON.stringify(run_ids)],
  });
}

/** Without the internal part, which may have megabytes of pictures. */
export async function selectStepsOfRuns(
  sql: Sql,
  user_id: string,
  run_ids: readonly string[],
): Promise<(JournalStep & { run_id: string })[]> {
  return sql.query({
    name: "run_steps_of",
    text: `select run_id, ${STEP_COLUMNS}, null::jsonb as internal, call from run_step
      where user_id = $1 and run_id in (select value::uuid from jsonb_array_elements_text($2::jsonb))
      order by run_id, index`,
    values: [user_id, JSON.stringify(run_ids)],
  });
}
