import type { InputItem, OutputItem } from "../../api/contract/responses.ts";
import { httpErrors } from "../../api/http/errors.ts";
import { FREE_DAY } from "../../kernel/constants.ts";
import { createBatches } from "../../platform/db/batch-queue.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import type { Cipher } from "../../platform/lib/cipher.ts";
import { addDays, type Clock } from "../../platform/lib/clock.ts";

/** The most that one request may refer to: as much as a body may have. */
const MAX_FOUND_BYTES = 33_554_432;
/** Responses whose items one statement keeps. More would make its text too long. */
const BATCH_LIMIT = 16;

/** A sealed item, in hexadecimal. */
interface Row {
  user_id: string;
  id: string;
  item: string;
}

/** Output items of a user, sealed, as long as responses are stored: later requests name them by `item_reference`. */
export function createItemsStore(deps: { db: Db; clock: Clock; cipher: Cipher; keep_days: number }) {
  const { db, clock, cipher } = deps;
  const oldest = () => addDays(clock.now(), -deps.keep_days);
  const toContext = (user_id: string, id: string) => `${user_id} ${id}`;
  /** Responses that end together share a statement, because each statement waits for the disk. */
  const insert = createBatches(BATCH_LIMIT, async (kept: readonly (readonly Row[])[]): Promise<undefined[]> => {
    await db.query({
      name: "response_item_keep",
      text: `insert into response_item (user_id, id, item, created_at)
        select user_id, id, decode(item, 'hex'), $2
          from jsonb_to_recordset($1::jsonb) as kept(user_id uuid, id text, item text)
          where not exists (select from users where users.id = kept.user_id and erased_at is not null)`,
      values: [JSON.stringify(kept.flat()), clock.now()],
    });
    return kept.map(() => undefined);
  });
  /** contract 2.16.1: whether items of a response that cost nothing may be kept beside the user's others of a day. */
  async function hasRoom(user_id: string): Promise<boolean> {
    const { response_items, response_item_bytes } = FREE_DAY;
    const [kept] = await db.query<{ items: number; bytes: number }>({
      name: "response_item_room",
      text: `select count(*) as items, coalesce(sum(bytes), 0)::bigint as bytes from (
          select octet_length(item) as bytes from response_item where user_id = $1 and created_at > $3 limit $2
        ) as counted`,
      values: [user_id, response_items, addDays(clock.now(), -1)],
    });
    return kept !== undefined && kept.items < response_items && kept.bytes < response_item_bytes;
  }
  return {
    /** Keeps no item of a user who was erased meanwhile. */
    async keep(user_id: string, items: readonly OutputItem[], { is_free }: { is_free: boolean }): Promise<void> {
      if (is_free && !(await hasRoom(user_id))) return;
      const rows = items.map((item) => ({
        user_id,
        id: item.id,
        item: cipher.seal(Buffer.from(JSON.stringify(item)), toContext(user_id, item.id)).toString("hex"),
      }));
      if (rows.length > 0) await insert(rows);
    },

    /** The items that are kept, by their id. */
    async find(user_id: string, ids: readonly string[]): Promise<Map<string, InputItem>> {
      const [kept] = await db.query<{ bytes: number }>({
        name: "response_item_bytes",
        text: "select coalesce(sum(octet_length(item)), 0) as bytes from response_item where user_id = $1 and id = any($2::text[])",
        values: [user_id, ids],
      });
      if ((kept?.bytes ?? 0) > MAX_FOUND_BYTES) throw httpErrors.bodyTooLarge(MAX_FOUND_BYTES);
      const rows = await db.query<{ id: string; item: Uint8Array }>({
        name: "response_item_find",
        text: "select id, item from response_item where user_id = $1 and id = any($2::text[]) and created_at >= $3",
        values: [user_id, ids, oldest()],
      });
      return new Map(
        rows.map(({ id, item }) => {
          const opened = cipher.open(item, toContext(user_id, id));
          if (opened === null) throw new Error("a kept item does not open: was its row changed?");
          return [id, JSON.parse(opened.toString()) as InputItem];
        }),
      );
    },

    /** Deletes all items of a user. */
    async forgetUser(tx: Tx, user_id: string): Promise<void> {
      await tx.query({ text: "delete from response_item where user_id = $1", values: [user_id] });
    },

    /** Deletes older items. Called periodically. */
    async sweep(): Promise<void> {
      await db.query({ text: "delete from response_item where created_at < $1", values: [oldest()] });
    },
  };
}

export type ItemsStore = ReturnType<typeof createItemsStore>;
