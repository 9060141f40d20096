import type { InputItem, OutputItem, ResponseRecord } from "../contract/responses.ts";
import { errors } from "../errors.ts";
import { addDays, type Clock } from "../platform/clock.ts";
import type { Db, Tx } from "../platform/db.ts";
import { jsonbText } from "../platform/json.ts";

/** contract 4.11.6: what one account stores. Beyond it a response is answered with `store: false`. */
const MAX_ROWS = 5_000;
const MAX_BYTES = 268_435_456;
/** The longest chain of responses, and its most bytes: as much as a body may have. */
const MAX_CHAIN = 1_000;
const MAX_CHAIN_BYTES = 33_554_432;

/** A stored response with the items of its request. */
export interface StoredResponse {
  body: ResponseRecord;
  input: InputItem[];
}

/** Responses of a user, each with its own input. A conversation is the chain of their `previous_id`. */
export function createResponsesStore({ db, clock, keep_days }: { db: Db; clock: Clock; keep_days: number }) {
  const oldest = () => addDays(clock.now(), -keep_days);
  return {
    /** Whether the user may store another response. */
    async hasRoom(user_id: string): Promise<boolean> {
      const [kept] = await db.query<{ rows: number; bytes: number }>({
        name: "response_room",
        text: "select count(*) as rows, coalesce(sum(bytes), 0)::bigint as bytes from response where user_id = $1",
        values: [user_id],
      });
      return kept !== undefined && kept.rows < MAX_ROWS && kept.bytes < MAX_BYTES;
    },
    /** Stores nothing of a user who was erased meanwhile. */
    async keep(user_id: string, { body, input }: StoredResponse): Promise<void> {
      const texts = [jsonbText(body), jsonbText(input)] as const;
      await db.query({
        name: "response_keep",
        text: `insert into response (user_id, id, previous_id, body, input, bytes, created_at, used_at)
          values ($1, $2, $3, $4::jsonb, $5::jsonb, $6, $7, $7)`,
        values: [
          user_id,
          body.id,
          body.previous_response_id,
          texts[0],
          texts[1],
          texts[0].length + texts[1].length,
          clock.now(),
        ],
      });
    },
    async find(user_id: string, id: string): Promise<StoredResponse | undefined> {
      const [row] = await db.query<StoredResponse>({
        name: "response_find",
        text: "select body, input from response where user_id = $1 and id = $2 and used_at >= $3",
        values: [user_id, id, oldest()],
      });
      return row;
    },
    /**
     * The items of the conversation that ends with this response, oldest first; undefined if it, or one before it, is
     * not stored any more. Its responses are kept longer, because the conversation goes on. Throws 413.
     */
    async conversation(user_id: string, id: string): Promise<(InputItem | OutputItem)[] | undefined> {
      const chain = await db.query<{ id: string; previous_id: string | null; bytes: number }>({
        name: "response_chain",
        text: `with recursive chain as (
            select id, previous_id, bytes, 1 as place from response where user_id = $1 and id = $2 and used_at >= $3
            union all
            select r.id, r.previous_id, r.bytes, place + 1 from chain
              join response r on r.user_id = $1 and r.id = chain.previous_id where place < $4
          ) select id, previous_id, bytes from chain order by place desc`,
        values: [user_id, id, oldest(), MAX_CHAIN],
      });
      if (chain[0] === undefined || chain[0].previous_id !== null) return undefined;
      if (chain.reduce((sum, { bytes }) => sum + bytes, 0) > MAX_CHAIN_BYTES)
        throw errors.bodyTooLarge(MAX_CHAIN_BYTES);
      const ids = chain.map((row) => row.id);
      const rows = await db.query<{ id: string; input: InputItem[]; output: OutputItem[] }>({
        name: "response_items_of_chain",
        text: `update response set used_at = greatest(used_at, $3) where user_id = $1 and id = any($2::text[])
          returning id, input, body -> 'output' as output`,
        values: [user_id, ids, clock.now()],
      });
      const by_id = new Map(rows.map((row) => [row.id, row]));
      return ids.flatMap((each) => [...(by_id.get(each)?.input ?? []), ...(by_id.get(each)?.output ?? [])]);
    },
    async remove(user_id: string, id: string): Promise<boolean> {
      const removed = await db.query({
        text: "delete from response where user_id = $1 and id = $2 and used_at >= $3 returning id",
        values: [user_id, id, oldest()],
      });
      return removed.length > 0;
    },
    async forgetUser(tx: Tx, user_id: string): Promise<void> {
      await tx.query({ text: "delete from response where user_id = $1", values: [user_id] });
    },
    /** Deletes responses that nobody has continued for the days that they are kept. Called periodically. */
    async sweep(): Promise<void> {
      await db.query({ text: "delete from response where used_at < $1", values: [oldest()] });
    },
  };
}

export type ResponsesStore = ReturnType<typeof createResponsesStore>;
