import type { Sql } from "../platform/db.ts";
import { type ClaimedRow, RUN_COLUMNS, worked } from "./run.store.ts";

/** What the database's clock shows, by which leases are written. */
export async function selectClock(sql: Sql): Promise<number> {
  const [row] = await sql.query<{ ms: number }>({
    name: "run_clock",
    text: "select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms",
  });
  if (row === undefined) throw new Error("a clock without a time");
  return row.ms;
}

/** Claims anew what the worker has at work, but for the runs that it knows of. */
export async function reclaimRuns(
  sql: Sql,
  { worker_id, known, lease_ms }: { worker_id: string; known: readonly string[]; lease_ms: number },
): Promise<ClaimedRow[]> {
  return sql.query<ClaimedRow>({
    text: `update run set epoch = epoch + 1, claimed_at = clock_timestamp(), worked_ms = worked_ms + ${worked("clock_timestamp()")},
        lease_until = clock_timestamp() + make_interval(secs => $3 / 1000.0)
      where worker_id = $1 and status in ('running', 'cancelling') and id not in (select value::uuid from jsonb_array_elements_text($2::jsonb))
      returning ${RUN_COLUMNS}, epoch, worked_ms, input`,
    values: [worker_id, JSON.stringify(known), lease_ms],
  });
}
