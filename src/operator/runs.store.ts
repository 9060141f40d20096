import type { OperatorsRunStep, RunFailures } from "../api/contract/admin-users.ts";
import type { Db } from "../platform/db/db.ts";
import { readStatement } from "../platform/db/sql-functions.ts";
import type { Instant } from "../platform/lib/instant.ts";

const RUN_FAILURES = readStatement(import.meta.dirname, "run-failures");
const MOST_GROUPS = 100;

/** The failed runs of a window by user, agent and error, the most frequent first. */
export function selectRunFailures(
  db: Db,
  { from, to, user_id }: { from: Instant; to?: Instant | undefined; user_id?: string | undefined },
): Promise<RunFailures[]> {
  return db.query({ text: RUN_FAILURES, values: [from, to ?? null, user_id ?? null, MOST_GROUPS] });
}

/** The steps of a run without what they sent and got. */
export function readRunSteps(db: Db, run: { user_id: string; run_id: string }): Promise<OperatorsRunStep[]> {
  return db.query({
    text: `select index, type, name, status, usage, started_at, finished_at,
        case when error is not null then jsonb_build_object('code', error -> 'code', 'message', error -> 'message') end as error
      from run_step where user_id = $1 and run_id = $2 order by index`,
    values: [run.user_id, run.run_id],
  });
}
