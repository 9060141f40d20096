import type { Db, Sql, Tx } from "../../platform/db/db.ts";
import { createConditions, firstRow, haveWords, wordsOf } from "../../platform/db/statements.ts";
import type { Instant } from "../../platform/lib/instant.ts";

export interface ThreadRow {
  user_id: string;
  uid: string;
  agent_id: string;
  id: string;
  title: string | null;
  /** The run whose message the title comes from; null: a person chose the title, or there is none yet. */
  title_run_id: string | null;
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

export interface ThreadKey {
  user_id: string;
  agent_id: string;
  thread_id: string;
}

/** A row of a list, with the name of its agent. */
export type ListedRow = ThreadRow & { agent_name: string };
/** Which threads of a user a list has. */
export interface ThreadFilter {
  agent_id?: string | undefined;
  /** Words of the title. */
  q?: string | undefined;
}
/** `before_uid`: the last thread of the page before. */
export interface ThreadPage {
  limit: number;
  before_uid: string | null;
}
type ThreadId = Pick<ThreadRow, "user_id" | "uid">;

const THREAD_COLUMNS =
  "user_id, uid, agent_id, id, title, title_run_id, last_turn, last_run_id, created_at, updated_at";
const TURN_COLUMNS = "user_id, thread_uid, turn, run_id, turns_left_out";
/** As the index thread_words has them. */
const WORDS = wordsOf("title");
/** No turn gave the thread a title yet, though it has turns. */
const IS_UNTITLED = "title is null and title_run_id is null and last_turn > 0";
const BY_KEY = `select ${THREAD_COLUMNS} from thread where user_id = $1 and agent_id = $2 and id = $3`;
const keyValues = ({ user_id, agent_id, thread_id }: ThreadKey) => [user_id, agent_id, thread_id];

export function createThreadsStore(db: Db) {
  return {
    /** False: a thread with this id exists. */
    async insert(sql: Sql, row: ThreadRow): Promise<boolean> {
      const { user_id, uid, agent_id, id, title, title_run_id, last_turn, last_run_id, created_at, updated_at } = row;
      const inserted = await sql.query({
        name: "thread_insert",
        text: `insert into thread (${THREAD_COLUMNS}) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
          on conflict (user_id, agent_id, id) do nothing returning uid`,
        values: [user_id, uid, agent_id, id, title, title_run_id, last_turn, last_run_id, created_at, updated_at],
      });
      return inserted.length > 0;
    },
    /** False: the agent does not exist. A deletion of the agent waits until the transaction ends, and then finds its threads. */
    async keepAgent(tx: Tx, { user_id, agent_id }: ThreadKey): Promise<boolean> {
      const kept = await tx.query({
        name: "thread_keep_agent",
        text: "select from agent where user_id = $1 and id = $2 and deleted_at is null for key share",
        values: [user_id, agent_id],
      });
      return kept.length > 0;
    },
    thread: (key: ThreadKey) => firstRow<ThreadRow>(db, { name: "thread_find", text: BY_KEY, values: keyValues(key) }),
    lock: (tx: Tx, key: ThreadKey) =>
      firstRow<ThreadRow>(tx, { name: "thread_lock", text: `${BY_KEY} for update`, values: keyValues(key) }),
    /** Newest first. */
    list(user_id: string, { agent_id, q }: ThreadFilter, { limit, before_uid }: ThreadPage): Promise<ListedRow[]> {
      const values: unknown[] = [user_id, limit];
      const { add, only, text: conditions } = createConditions(values, "user_id = $1");
      only("agent_id =", agent_id);
      only("uid <", before_uid);
      if (q !== undefined) add(haveWords(WORDS, { user_id: "$1", q: `$${values.push(q)}` }));
      // The index of words has no order. With the offset the planner cannot read all threads in order instead.
      const fence = q === undefined ? "" : "offset 0";
      return db.query<ListedRow>({
        text: `select ${THREAD_COLUMNS}, (select name from agent where agent.user_id = thread.user_id and agent.id = agent_id) as agent_name
          from (select ${THREAD_COLUMNS} from thread where ${conditions()} ${fence}) as thread order by uid desc limit $2`,
        values,
      });
    },
    /** Undefined: the thread does not exist. */
    rename: (key: ThreadKey, title: string) =>
      firstRow<ThreadRow>(db, {
        text: `update thread set title = $4, title_run_id = null where user_id = $1 and agent_id = $2 and id = $3
          returning ${THREAD_COLUMNS}`,
        values: [...keyValues(key), title],
      }),
    /** Threads that need a title, each with its first turn's run, in the order of their keys after `after`. */
    untitled: (after: ThreadId, limit: number) =>
      db.query<ThreadId & { run_id: string | null }>({
        text: `select user_id, uid, (
              select run_id from thread_turn as turn where turn.user_id = thread.user_id and thread_uid = uid order by turn limit 1
            ) as run_id
          from thread where (user_id, uid) > ($1, $2) and ${IS_UNTITLED} order by user_id, uid limit $3`,
        values: [after.user_id, after.uid, limit],
      }),
    /** Does nothing if the thread has got a title meanwhile. */
    async setFirstTitle({ user_id, uid }: ThreadId, { run_id, title }: { run_id: string; title: string | null }) {
      await db.query({
        text: `update thread set title = $3, title_run_id = $4 where user_id = $1 and uid = $2 and ${IS_UNTITLED}`,
        values: [user_id, uid, title, run_id],
      });
    },
    /** Writes the turn. It replaces a failed turn with the same number. */
    async beginTurn(
      tx: Tx,
      row: Omit<TurnRow, "turns_left_out">,
      { title, title_run_id, now }: Pick<ThreadRow, "title" | "title_run_id"> & { now: Instant },
    ): Promise<void> {
      const { user_id, thread_uid, turn, run_id } = row;
      await tx.query({
        name: "thread_turn_write",
        text: `insert into thread_turn (${TURN_COLUMNS}) values ($1, $2, $3, $4, 0)
          on conflict (user_id, thread_uid, turn) do update set run_id = excluded.run_id, turns_left_out = 0`,
        values: [user_id, thread_uid, turn, run_id],
      });
      await tx.query({
        name: "thread_set_last_turn",
        text: `update thread set last_turn = $3, last_run_id = $4, updated_at = $5, title = $6, title_run_id = $7
          where user_id = $1 and uid = $2`,
        values: [user_id, thread_uid, turn, run_id, now, title, title_run_id],
      });
    },
    turnOf: (user_id: string, run_id: string) =>
      firstRow<TurnRow>(db, {
        name: "thread_turn_of_run",
        text: `select ${TURN_COLUMNS} from thread_turn where user_id = $1 and run_id = $2`,
        values: [user_id, run_id],
      }),
    /** The latest turns before one, latest first. */
    turnsBefore: (
      { user_id, uid }: ThreadId,
      { before_turn, limit }: { before_turn: number; limit: number },
      sql: Sql = db,
    ) =>
      sql.query<TurnRow>({
        name: "thread_turns_before",
        text: `select ${TURN_COLUMNS} from thread_turn where user_id = $1 and thread_uid = $2 and turn < $3
          order by turn desc limit $4`,
        values: [user_id, uid, before_turn, limit],
      }),
    async noteLeftOut({ user_id, thread_uid, turn, turns_left_out }: Omit<TurnRow, "run_id">): Promise<void> {
      await db.query({
        text: "update thread_turn set turns_left_out = $4 where user_id = $1 and thread_uid = $2 and turn = $3",
        values: [user_id, thread_uid, turn, turns_left_out],
      });
    },
    /** False: the thread does not exist. */
    async remove(key: ThreadKey): Promise<boolean> {
      const removed = await db.query({
        text: "delete from thread where user_id = $1 and agent_id = $2 and id = $3 returning uid",
        values: keyValues(key),
      });
      return removed.length > 0;
    },
    /** Deletes turns by their runs with the titles that came from them, and the threads that have no other turn. */
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
        text: `update thread set title = null, title_run_id = null
          from ${given} join thread_turn turn on turn.user_id = old.user_id and turn.run_id = old.run_id
          where thread.user_id = turn.user_id and thread.uid = turn.thread_uid and thread.title_run_id = turn.run_id`,
        values,
      });
      await tx.query({
        text: `with gone as (
            delete from thread_turn turn using ${given} where turn.user_id = old.user_id and turn.run_id = old.run_id
            returning turn.user_id, turn.thread_uid, turn.run_id
          )
          delete from thread where (user_id, uid) in (select user_id, thread_uid from gone) and not exists (
            select from thread_turn turn where turn.user_id = thread.user_id and turn.thread_uid = thread.uid
              and (turn.user_id, turn.run_id) not in (select user_id, run_id from gone)
          )`,
        values,
      });
    },
    async removeAll(tx: Tx, user_id: string, agent_id: string | null): Promise<void> {
      await tx.query({
        text: "delete from thread where user_id = $1 and ($2::uuid is null or agent_id = $2)",
        values: [user_id, agent_id],
      });
    },
  };
}
