import type { Db, Instant, Sql, Tx } from "../platform/db.ts";

export interface ThreadRow {
  user_id: string;
  uid: string;
  agent_id: string;
  id: string;
  last_turn: number;
  last_run_id: string | null;
  created_at: Instant;
  updated_at: Instant;
}

export interface TurnRow {
  user_id: string;
  thread_uid: string;
  turn: number;
  run_id: string;
  turns_left_out: number;
}

interface Tables {
  thread: ThreadRow;
  thread_turn: TurnRow;
}

export interface ThreadKey {
  user_id: string;
  agent_id: string;
  thread_id: string;
}

export function createThreadsStore(db: Db) {
  const tables = (sql: Sql = db) => sql.tables<Tables>();
  const byKey = ({ user_id, agent_id, thread_id }: ThreadKey, sql: Sql = db) =>
    tables(sql)
      .selectFrom("thread")
      .selectAll()
      .where("user_id", "=", user_id)
      .where("agent_id", "=", agent_id)
      .where("id", "=", thread_id);
  return {
    /** False: a thread with this id exists. */
    async insert(sql: Sql, row: ThreadRow): Promise<boolean> {
      const query = tables(sql).insertInto("thread").values(row);
      const inserted = await query
        .onConflict((conflict) => conflict.columns(["user_id", "agent_id", "id"]).doNothing())
        .returning("uid")
        .executeTakeFirst();
      return inserted !== undefined;
    },
    thread: (key: ThreadKey) => byKey(key).executeTakeFirst(),
    lock: (tx: Tx, key: ThreadKey) => byKey(key, tx).forUpdate().executeTakeFirst(),
    /** Newest first. */
    list: (agent: Omit<ThreadKey, "thread_id">, page: { limit: number; before_uid: string | null }) => {
      const query = tables()
        .selectFrom("thread")
        .selectAll()
        .where("user_id", "=", agent.user_id)
        .where("agent_id", "=", agent.agent_id)
        .orderBy("uid", "desc")
        .limit(page.limit);
      return (page.before_uid === null ? query : query.where("uid", "<", page.before_uid)).execute();
    },
    /** Writes the turn. It replaces a failed turn with the same number. */
    async beginTurn(tx: Tx, row: Omit<TurnRow, "turns_left_out">, now: Instant): Promise<void> {
      await tables(tx)
        .insertInto("thread_turn")
        .values({ ...row, turns_left_out: 0 })
        .onConflict((conflict) =>
          conflict.columns(["user_id", "thread_uid", "turn"]).doUpdateSet({ run_id: row.run_id, turns_left_out: 0 }),
        )
        .execute();
      await tables(tx)
        .updateTable("thread")
        .set({ last_turn: row.turn, last_run_id: row.run_id, updated_at: now })
        .where("user_id", "=", row.user_id)
        .where("uid", "=", row.thread_uid)
        .execute();
    },
    turnOf: (user_id: string, run_id: string) =>
      tables()
        .selectFrom("thread_turn")
        .selectAll()
        .where("user_id", "=", user_id)
        .where("run_id", "=", run_id)
        .executeTakeFirst(),
    /** The latest turns before one, latest first. */
    turnsBefore: (
      { user_id, uid }: Pick<ThreadRow, "user_id" | "uid">,
      { before_turn, limit }: { before_turn: number; limit: number },
      sql: Sql = db,
    ) =>
      tables(sql)
        .selectFrom("thread_turn")
        .selectAll()
        .where("user_id", "=", user_id)
        .where("thread_uid", "=", uid)
        .where("turn", "<", before_turn)
        .orderBy("turn", "desc")
        .limit(limit)
        .execute(),
    async noteLeftOut({ user_id, thread_uid, turn, turns_left_out }: Omit<TurnRow, "run_id">): Promise<void> {
      await tables()
        .updateTable("thread_turn")
        .set({ turns_left_out })
        .where("user_id", "=", user_id)
        .where("thread_uid", "=", thread_uid)
        .where("turn", "=", turn)
        .execute();
    },
    /** False: the thread does not exist. */
    async remove({ user_id, agent_id, thread_id }: ThreadKey): Promise<boolean> {
      const query = tables().deleteFrom("thread").where("user_id", "=", user_id).where("agent_id", "=", agent_id);
      return (await query.where("id", "=", thread_id).returning("uid").executeTakeFirst()) !== undefined;
    },
    /** Deletes turns by their runs, and the threads whose last turn is among them. */
    async removeTurns(tx: Tx, runs: readonly { user_id: string; run_id: string }[]): Promise<void> {
      const given = "jsonb_to_recordset($1::jsonb) as old(user_id uuid, run_id uuid)";
      const values = [JSON.stringify(runs)];
      // The start of a turn locks its thread before its turns.
      await tx.query({
        text: `select from thread where (user_id, uid) in (
            select turn.user_id, thread_uid from ${given} join thread_turn turn on turn.user_id = old.user_id and turn.run_id = old.run_id
          ) order by user_id, uid for update`,
        values,
      });
      await tx.query({
        text: `with gone as (
            delete from thread_turn turn using ${given} where turn.user_id = old.user_id and turn.run_id = old.run_id
            returning turn.user_id, turn.thread_uid, turn.run_id
          )
          delete from thread using gone
          where thread.user_id = gone.user_id and thread.uid = gone.thread_uid and thread.last_run_id = gone.run_id`,
        values,
      });
    },
    async removeAll(tx: Tx, user_id: string, agent_id: string | null): Promise<void> {
      const query = tables(tx).deleteFrom("thread").where("user_id", "=", user_id);
      await (agent_id === null ? query : query.where("agent_id", "=", agent_id)).execute();
    },
  };
}
