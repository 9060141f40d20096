import type { OutputItem, ResponseRecord } from "../../api/contract/responses.ts";
import { httpErrors } from "../../api/http/errors.ts";
import { STORED_RESPONSES } from "../../kernel/constants.ts";
import { errors } from "../../kernel/errors.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import { addDays, type Clock } from "../../platform/lib/clock.ts";
import { jsonbText } from "../../platform/lib/json.ts";
import type { StoredItem } from "./stored-items.ts";

/** The longest chain of responses, and its most bytes: as much as a body may have. */
const MAX_CHAIN = 1_000;
const MAX_CHAIN_BYTES = 33_554_432;

/** A stored response with the items of its request. */
export interface StoredResponse {
  body: ResponseRecord;
  input: StoredItem[];
}

/** Responses of a user, each with its own input. A conversation is the chain of their `previous_id`. */
export function createResponsesStore({ db, clock, keep_days }: { db: Db; clock: Clock; keep_days: number }) {
  const oldest = () => addDays(clock.now(), -keep_days);
  return {
    /** False if the user has stored as much as a day may have, or was erased meanwhile. */
    async keep(user_id: string, { body, input }: StoredResponse): Promise<boolean> {
      const [body_text, input_text] = [jsonbText(body), jsonbText(input)];
      const now = clock.now();
      const kept = await db.query<{ id: string }>({
        name: "response_keep",
        text: `insert into response (user_id, id, previous_id, body, input, bytes, created_at, used_at)
          select $1::uuid, $2, $3, $4::jsonb, $5::jsonb, $6::integer, $7::timestamptz, $7::timestamptz from (
            select count(*) as responses, coalesce(sum(bytes), 0) as bytes from response
              where user_id = $1 and created_at > $8
          ) as day where day.responses < $9 and day.bytes + $6::integer <= $10
          returning id`,
        values: [
          user_id,
          body.id,
          body.previous_response_id,
          body_text,
          input_text,
          Buffer.byteLength(body_text) + Buffer.byteLength(input_text),
          now,
          addDays(now, -1),
          STORED_RESPONSES.per_day,
          STORED_RESPONSES.bytes_per_day,
        ],
      });
      return kept.length > 0;
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
     * not stored any more. Its responses are kept longer, because the conversation goes on. Throws 400, 413.
     */
    async conversation(user_id: string, id: string): Promise<(StoredItem | OutputItem)[] | undefined> {
      const chain = await db.query<{
        id: string;
        previous_id: string | null;
        total_bytes: number;
        input: StoredItem[];
        output: OutputItem[];
      }>({
        name: "response_chain",
        // A chain that is too long or too large is cut, so its first response has a previous one.
        text: `with recursive chain as (
            select id, previous_id, bytes::bigint as total_bytes, 1 as place from response
              where user_id = $1 and id = $2 and used_at >= $3
            union all
            select r.id, r.previous_id, total_bytes + r.bytes, place + 1 from chain
              join response r on r.user_id = $1 and r.id = chain.previous_id
              where place < $4 and total_bytes <= $5
          )
          select chain.id, chain.previous_id, total_bytes, input, body -> 'output' as output
            from chain join response r on r.user_id = $1 and r.id = chain.id order by place desc`,
        values: [user_id, id, oldest(), MAX_CHAIN, MAX_CHAIN_BYTES],
      });
      const [first] = chain;
      if (first === undefined) return undefined;
      if (first.total_bytes > MAX_CHAIN_BYTES) throw httpErrors.bodyTooLarge(MAX_CHAIN_BYTES);
      if (first.previous_id !== null) {
        if (chain.length < MAX_CHAIN) return undefined;
        throw errors.invalidValue(
          "previous_response_id",
          `This conversation has ${MAX_CHAIN} responses, which is the most. Begin a new one with a summary as input.`,
        );
      }
      const ids = chain.map((row) => row.id);
      // Requests that continue the same responses at the same moment do not wait for each other.
      await db.query({
        name: "response_used",
        text: `update response set used_at = $3 where user_id = $1 and id in (
            select id from response where user_id = $1 and id = any($2::text[]) and used_at < $3 for update skip locked)`,
        values: [user_id, ids, clock.now()],
      });
      return withoutLostOutputs(chain.flatMap(({ input, output }) => [...input, ...output]));
    },
    /**
     * Deletes the response and what `item_reference` could name of it; a conversation goes on without its items. False:
     * there is none.
     */
    async remove(user_id: string, id: string): Promise<boolean> {
      const removed = await db.query({
        text: `with removed as (
            delete from response where user_id = $1 and id = $2 and used_at >= $3 returning id, previous_id, body
          ), later as (
            update response set previous_id = removed.previous_id from removed
              where response.user_id = $1 and response.previous_id = removed.id
          ), items as (
            delete from response_item where user_id = $1 and id in (
              select each ->> 'id' from removed, jsonb_array_elements(body -> 'output') as each)
          ) select id from removed`,
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

type Item = StoredItem | OutputItem;

/** The items without the outputs of calls that a deleted response made: providers reject these. */
function withoutLostOutputs(items: readonly Item[]): Item[] {
  const callIn = (item: Item) => (item as { call_id?: unknown }).call_id;
  const isOutput = ({ type }: Item) => type.endsWith("_output");
  const calls = new Set(items.filter((item) => !isOutput(item)).map(callIn));
  return items.filter((item) => !isOutput(item) || callIn(item) === undefined || calls.has(callIn(item)));
}

export type ResponsesStore = ReturnType<typeof createResponsesStore>;
