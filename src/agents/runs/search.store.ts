import type { Sql } from "../../platform/db/db.ts";
import { createConditions, haveWords, wordsOf } from "../../platform/db/statements.ts";
import { HAS_ERRORS } from "./history.store.ts";
import { RUN_COLUMNS, type RunRow } from "./run.store.ts";
import type { RunSearch } from "./runs.types.ts";

/** A user's runs over all agents, by their filters. */

/** A run in the list of all runs. `text`: the beginning of its output. */
export interface FoundRow extends RunRow {
  api_key_id: string | null;
  end_user: string | null;
  text: string | null;
  has_injection: boolean;
}

/** Characters of the output that are read for its first line. */
const TEXT_CHARS = 1_000;
/** The words of a run with its user, as the index run_words has them. */
const WORDS =
  wordsOf(`left(coalesce(output, ''), 8000) || ' ' || coalesce(error ->> 'code', '') || ' ' || left(coalesce(error ->> 'message', ''), 1000)
      || ' ' || replace(left(coalesce(input::text, ''), 2000), '\\n', ' ')`);
/** The metadata of a run with its user, as the index run_metadata has it. */
const METADATA = `(('["' || user_id::text || '"]')::jsonb || metadata)`;

const HAS_INJECTION = `exists (select from run_step
    where run_step.user_id = run.user_id and run_id = run.id and type = 'tool' and safety @> '{"verdict": {"injected": true}}')`;

/** A place in the list: the last run before it. */
export type SearchCursor = Pick<RunRow, "queued_at" | "id">;

/**
 * The user's runs, newest first, those of deleted agents included. Ended and unfinished runs are two searches, because
 * the indexes of the filters have ended runs only.
 */
export async function searchRuns(
  sql: Sql,
  user_id: string,
  filter: RunSearch,
  { limit, after }: { limit: number; after: SearchCursor | null },
): Promise<FoundRow[]> {
  const values: unknown[] = [user_id, limit];
  const { add, only, text: conditions } = createConditions(values, "user_id = $1");
  if (after !== null) add(`(queued_at, id) < ($${values.push(after.queued_at)}, $${values.push(after.id)})`);
  only("status =", filter.status);
  only("trigger =", filter.trigger);
  if (filter.has_errors !== undefined) add(filter.has_errors ? `(${HAS_ERRORS})` : `not (${HAS_ERRORS})`);
  only("agent_id =", filter.agent_id);
  only("model_id =", filter.model_id);
  only("schedule_id =", filter.schedule_id);
  only("api_key_id =", filter.api_key_id);
  only("end_user =", filter.user);
  only("queued_at >=", filter.from);
  only("queued_at <", filter.to);
  const { metadata, q } = filter;
  if (metadata !== undefined) {
    add(`${METADATA} @> $${values.push(JSON.stringify([user_id, metadata]))}::jsonb`);
  }
  if (q !== undefined) add(haveWords(WORDS, { user_id: "$1", q: `$${values.push(q)}` }));
  // The indexes of words and metadata have no order. With the offset the planner cannot read all runs in order instead.
  const fence = metadata === undefined && q === undefined ? "" : "offset 0";
  const keysOf = (phase: string) => `(
      select queued_at, id from (select queued_at, id from run where ${conditions()} and ${phase} ${fence}) as matching
      order by queued_at desc, id desc limit $2
    )`;
  const text = `select ${RUN_COLUMNS}, api_key_id, end_user, left(output, ${TEXT_CHARS}) as text, ${HAS_INJECTION} as has_injection from run
    where user_id = $1 and id = any (array(
      select id from (${keysOf("phase <> 'ended'")} union all ${keysOf("finished_at is not null")}) as found
      order by queued_at desc, id desc limit $2
    )) order by queued_at desc, id desc`;
  return sql.query<FoundRow>({ text, values });
}

/** Merges new entries into the indexes of the search. */
export async function mergeSearchEntries(sql: Sql): Promise<void> {
  await sql.query({ text: "select gin_clean_pending_list('run_words'), gin_clean_pending_list('run_metadata')" });
}
