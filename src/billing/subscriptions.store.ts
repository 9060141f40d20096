import { type Insertable, type JSONColumnType, sql as raw, type Selectable, type Updateable } from "kysely";
import type { Db, Instant, Sql, Tx } from "../platform/db.ts";
import type { ProviderName } from "./payments.types.ts";
import type { Plan } from "./plan.ts";

interface SubscriptionTable {
  user_id: string;
  id: string;
  provider: ProviderName;
  reference: string | null;
  checkout_reference: string | null;
  checkout_url: string | null;
  opening_until: unknown;
  status: "incomplete" | "active" | "past_due" | "ended";
  plan: JSONColumnType<Plan>;
  pending_plan: JSONColumnType<Plan | null, string | null, string | null>;
  anchor: Instant | null;
  periods: number;
  current_period_start: Instant | null;
  current_period_end: Instant | null;
  cancel_at_period_end: boolean;
  end_at_provider: boolean;
  created_at: Instant;
}

interface Tables {
  subscription: SubscriptionTable;
}

export type SubscriptionRow = Selectable<SubscriptionTable>;

/** Providers whose periods Purser's own clock runs. */
const OWN_PERIODS = ["operator", "sandbox"] as const;

/** Cursor of the sweep. */
export type DuePosition = Pick<SubscriptionRow, "current_period_end" | "id">;

export function createSubscriptionsStore(db: Db) {
  const tables = (sql: Sql = db) => sql.tables<Tables>();
  const all = (sql?: Sql) => tables(sql).selectFrom("subscription").selectAll();
  return {
    /** `opening_seconds` is the real time that a node has to open the checkout. */
    insert: (tx: Tx, row: Omit<Insertable<SubscriptionTable>, "opening_until">, opening_seconds: number) =>
      tables(tx)
        .insertInto("subscription")
        .values({ ...row, opening_until: raw`now() + make_interval(secs => ${opening_seconds})` })
        .returningAll()
        .executeTakeFirstOrThrow(),
    /** Whether a node is currently opening the checkout of this subscription. */
    isOpening: async (tx: Tx, row: Pick<SubscriptionRow, "user_id" | "id">) =>
      (await all(tx)
        .where("user_id", "=", row.user_id)
        .where("id", "=", row.id)
        .where("opening_until", ">", raw`now()`)
        .executeTakeFirst()) !== undefined,
    /** The user's only subscription that has not ended. Its checkout may still be open. */
    current: (user_id: string, sql?: Sql) =>
      all(sql).where("user_id", "=", user_id).where("status", "!=", "ended").executeTakeFirst(),
    /** The user's last subscription that ran and has ended. */
    lastEnded: (tx: Tx, user_id: string) =>
      all(tx)
        .where("user_id", "=", user_id)
        .where("status", "=", "ended")
        .where("current_period_start", "is not", null)
        .orderBy("id", "desc")
        .limit(1)
        .executeTakeFirst(),
    byId: (id: string, sql?: Sql) => all(sql).where("id", "=", id).executeTakeFirst(),
    update: (tx: Sql, row: Pick<SubscriptionRow, "user_id" | "id">, set: Updateable<SubscriptionTable>) =>
      tables(tx)
        .updateTable("subscription")
        .set(set)
        .where("user_id", "=", row.user_id)
        .where("id", "=", row.id)
        .returningAll()
        .executeTakeFirstOrThrow(),
    /** The next subscription after `last` whose period ended by `until`, among the subscriptions that Purser's clock renews. */
    due: (until: Instant, last: DuePosition | null) => {
      const query = tables()
        .selectFrom("subscription")
        .select(["user_id", "id", "current_period_end"])
        .where("status", "=", "active")
        .where("provider", "in", OWN_PERIODS)
        .where("current_period_end", "<=", until)
        .orderBy("current_period_end")
        .orderBy("id");
      const after = query.where((eb) =>
        eb(eb.refTuple("current_period_end", "id"), ">", eb.tuple(last?.current_period_end ?? null, last?.id ?? "")),
      );
      return (last === null ? query : after).limit(1).executeTakeFirst();
    },
    toEndAtProvider: (limit: number) => all().where("end_at_provider", "=", true).orderBy("id").limit(limit).execute(),
    /**
     * Records that the provider ended the subscription as in `row`. Changes nothing if an event has named another
     * reference meanwhile: that one must be ended too.
     */
    setEndedAtProvider: async ({ user_id, id, reference, checkout_reference }: SubscriptionRow): Promise<void> => {
      await tables()
        .updateTable("subscription")
        .set({ end_at_provider: false })
        .where("user_id", "=", user_id)
        .where("id", "=", id)
        .where("reference", "is not distinct from", reference)
        .where("checkout_reference", "is not distinct from", checkout_reference)
        .execute();
    },
  };
}

export type SubscriptionsStore = ReturnType<typeof createSubscriptionsStore>;
