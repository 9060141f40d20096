import type { RunError } from "../../api/contract/runs.ts";
import type { Sql, Tx } from "../../platform/db/db.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { RUN_COLUMNS, type RunRow } from "./run.store.ts";
import { FINISHED, sqlList, sqlNext, UNFINISHED, WAITING } from "./run-state.ts";

/**
 * Selects runs to cancel: one run, or all runs of an agent or a user. `waiting`: only runs without a worker. `with`: only
 * runs whose input has these fields. `error`: why the service cancels them.
 */
export interface RunSelection {
  user_id: string;
  agent_id: string | null;
  run_id: string | null;
  waiting?: boolean;
  with?: Readonly<Record<string, unknown>>;
  error?: RunError;
}

/** Requests the cancellation of open runs. A queued run ends at once. Returns the affected runs. */
export async function cancelRuns(sql: Sql, which: RunSelection, now: Instant): Promise<RunRow[]> {
  return sql.query<RunRow>({
    text: `with open as materialized (
        select user_id, id from run
        where user_id = $1 and ($2::uuid is null or agent_id = $2) and ($3::uuid is null or id = $3)
          and status in ${sqlList(UNFINISHED)} and (status in ${sqlList(WAITING)} or not $5)
          and ($6::jsonb is null or input @> $6::jsonb)
        order by user_id, id for update
      )
      update run set cancel_requested_at = coalesce(cancel_requested_at, $4::timestamptz),
        status = ${sqlNext("cancel")},
        error = coalesce(run.error, $7::jsonb),
        finished_at = case when ${sqlNext("cancel")} in ${sqlList(FINISHED)} then $4::timestamptz end,
        lease_until = case when ${sqlNext("cancel")} in ${sqlList(FINISHED)} then null else lease_until end
      from open where run.user_id = open.user_id and run.id = open.id
      returning ${RUN_COLUMNS.replaceAll(/\w+/g, "run.$&")}`,
    values: [
      which.user_id,
      which.agent_id,
      which.run_id,
      now,
      which.waiting ?? false,
      which.with === undefined ? null : JSON.stringify(which.with),
      which.error === undefined ? null : JSON.stringify(which.error),
    ],
  });
}

/** Deletes all runs and steps of a user. */
export async function deleteRunsOfUser(tx: Tx, user_id: string): Promise<void> {
  for (const table of ["run_step", "run"]) {
    await tx.query({ text: `delete from ${table} where user_id = $1`, values: [user_id] });
  }
}
