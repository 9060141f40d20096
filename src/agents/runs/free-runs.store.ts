import { FREE_DAY } from "../../kernel/constants.ts";
import type { Db, Sql, Tx } from "../../platform/db/db.ts";
import { type Clock, startOfDay } from "../../platform/lib/clock.ts";

/** What runs that cost nothing have stored today. `sql/count_free_run.sql` notes them. */
export function createFreeRuns({ db, clock }: { db: Db; clock: Clock }) {
  const { runs, run_bytes } = FREE_DAY;
  return {
    /** Those of these users who may store no other free run today. */
    async withoutFreeRoom(user_ids: readonly string[], sql: Sql = db): Promise<ReadonlySet<string>> {
      if (user_ids.length === 0) return new Set();
      const rows = await sql.query<{ user_id: string }>({
        name: "free_run_room",
        text: `select user_id from unnest($1::uuid[]) as given(user_id) cross join lateral (
            select count(*) as runs, coalesce(sum(bytes), 0) as bytes from (
              select bytes from free_run where free_run.user_id = given.user_id and ended_at >= $2 limit $3
            ) as counted
          ) as today where runs >= $3 or bytes >= $4`,
        values: [user_ids, startOfDay(clock.now()), runs, run_bytes],
      });
      return new Set(rows.map(({ user_id }) => user_id));
    },
    /** Deletes the notes of former days. Called periodically. */
    async sweepFreeRuns(): Promise<void> {
      await db.query({ text: "delete from free_run where ended_at < $1", values: [startOfDay(clock.now())] });
    },
    async forgetFreeRuns(tx: Tx, user_id: string): Promise<void> {
      await tx.query({ text: "delete from free_run where user_id = $1", values: [user_id] });
    },
  };
}
