import type { Sql } from "../../platform/db/db.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { type ClaimedRow, ENDED_STEPS, RUN_COLUMNS, worked } from "./run.store.ts";
import { CLAIMED, sqlList, sqlNext } from "./run-state.ts";
import type { CancelledRun, RunLease } from "./runs.types.ts";

/** Claims the worker's runs again, except the runs in `known`. */
export async function reclaimRuns(
  sql: Sql,
  { worker_id, known, lease_ms }: { worker_id: string; known: readonly string[]; lease_ms: number },
): Promise<ClaimedRow[]> {
  return sql.query<ClaimedRow>({
    text: `update run set epoch = epoch + 1, claimed_at = clock_timestamp(), worked_ms = worked_ms + ${worked("clock_timestamp()")},
        lease_until = clock_timestamp() + make_interval(secs => $3 / 1000.0)
      where worker_id = $1 and status in ${sqlList(CLAIMED)} and id not in (select value::uuid from jsonb_array_elements_text($2::jsonb))
      returning ${RUN_COLUMNS}, epoch, worked_ms, input`,
    values: [worker_id, JSON.stringify(known), lease_ms],
  });
}

/**
 * Returns the worker's runs, or with `lease` only that run, to the queue as the same attempt. Runs that are being
 * cancelled and chats are cancelled instead. Returns the cancelled runs.
 */
export async function handBackRuns(
  sql: Sql,
  { worker_id, lease }: { worker_id: string; lease: RunLease | null },
  now: Instant,
): Promise<CancelledRun[]> {
  return sql.query<CancelledRun>({
    text: `with owned as materialized (
        select user_id, id from run where worker_id = $1 and status in ${sqlList(CLAIMED)}
          and ($3::uuid is null or (user_id = $3 and id = $4 and epoch = $5))
        order by user_id, id for update
      ), ended as (
        update run set worker_id = null, lease_until = null, worked_ms = run.worked_ms + ${worked("clock_timestamp()")},
          status = case when run.trigger = 'chat' then ${sqlNext("hand_back_chat")} else ${sqlNext("hand_back")} end,
          finished_at = case when run.status = 'cancelling' or run.trigger = 'chat' then $2::timestamptz end
        from owned where run.user_id = owned.user_id and run.id = owned.id returning run.*
      ), steps as (${ENDED_STEPS})
      select user_id, id as run_id, agent_id, trigger, error from ended where status = 'cancelled'`,
    values: [worker_id, now, lease?.user_id ?? null, lease?.run_id ?? null, lease?.epoch ?? null],
  });
}
