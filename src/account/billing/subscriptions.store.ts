import type { Db, Sql, Tx } from "../../platform/db/db.ts";
import { assignments, firstRow, oneRow } from "../../platform/db/statements.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { ProviderName } from "./payments.types.ts";
import type { Plan } from "./plan.ts";

export interface SubscriptionRow {
  user_id: string;
  id: string;
  provider: ProviderName;
  reference: string | null;
  checkout_reference: string | null;
  checkout_url: string | null;
  opening_until: Instant | null;
  status: "incomplete" | "active" | "past_due" | "ended";
  plan: Plan;
  pending_plan: Plan | null;
  anchor: Instant | null;
  periods: number;
  current_period_start: Instant | null;
  current_period_end: Instant | null;
  cancel_at_period_end: boolean;
  end_at_provider: boolean;
  created_at: Instant;
}

const COLUMNS = `user_id, id, provider, reference, checkout_reference, checkout_url, opening_until, status, plan,
  pending_plan, anchor, periods, current_period_start, current_period_end, cancel_at_period_end, end_at_provider,
  created_at`;
const SUBSCRIPTIONS = `select ${COLUMNS} from subscription`;

type SubscriptionKey = Pick<SubscriptionRow, "user_id" | "id">;

/** Cursor of the sweep. */
export type DuePosition = Pick<SubscriptionRow, "current_period_end" | "id">;

export function createSubscriptionsStore(db: Db) {
  return {
    /** Inserts an incomplete subscription. `opening_seconds` is the real time that a node has to open the checkout. */
    insert: (
      tx: Tx,
      row: Pick<SubscriptionRow, "user_id" | "id" | "provider" | "plan" | "created_at">,
      opening_seconds: number,
    ) =>
      oneRow<SubscriptionRow>(tx, {
        text: `insert into subscription (user_id, id, provider, status, plan, created_at, opening_until)
          values ($1, $2, $3, 'incomplete', $4, $5, now() + make_interval(secs => $6)) returning ${COLUMNS}`,
        values: [row.user_id, row.id, row.provider, JSON.stringify(row.plan), row.created_at, opening_seconds],
      }),
    /** Whether a node is currently opening the checkout of this subscription. */
    async isOpening(tx: Tx, { user_id, id }: SubscriptionKey): Promise<boolean> {
      const opening = await tx.query({
        text: "select id from subscription where user_id = $1 and id = $2 and opening_until > now()",
        values: [user_id, id],
      });
      return opening.length > 0;
    },
    /** The user's only subscription that has not ended. Its checkout may still be open. */
    current: (user_id: string, sql: Sql = db) =>
      firstRow<SubscriptionRow>(sql, {
        name: "subscription_current",
        text: `${SUBSCRIPTIONS} where user_id = $1 and status <> 'ended'`,
        values: [user_id],
      }),
    /** The user's last subscription that ran and has ended. */
    lastEnded: (tx: Tx, user_id: string) =>
      firstRow<SubscriptionRow>(tx, {
        text: `${SUBSCRIPTIONS} where user_id = $1 and status = 'ended' and current_period_start is not null
          order by id desc limit 1`,
        values: [user_id],
      }),
    byId: (id: string, sql: Sql = db) =>
      firstRow<SubscriptionRow>(sql, { text: `${SUBSCRIPTIONS} where id = $1`, values: [id] }),
    update: (sql: Sql, { user_id, id }: SubscriptionKey, set: Partial<SubscriptionRow>) => {
      const values: unknown[] = [user_id, id];
      return oneRow<SubscriptionRow>(sql, {
        text: `update subscription set ${assignments(values, set)} where user_id = $1 and id = $2 returning ${COLUMNS}`,
        values,
      });
    },
    /** The next subscription after `last` whose period ended by `until`, among the subscriptions that Purser's clock renews. */
    due: (until: Instant, last: DuePosition | null) =>
      firstRow<DuePosition & { user_id: string }>(db, {
        text: `select user_id, id, current_period_end from subscription
          where status = 'active' and provider in ('operator', 'sandbox') and current_period_end <= $1
            and ($2::timestamptz is null or (current_period_end, id) > ($2, $3::uuid))
          order by current_period_end, id limit 1`,
        values: [until, last?.current_period_end ?? null, last?.id ?? null],
      }),
    toEndAtProvider: (limit: number) =>
      db.query<SubscriptionRow>({
        text: `${SUBSCRIPTIONS} where end_at_provider order by id limit $1`,
        values: [limit],
      }),
    /**
     * Records that the provider ended the subscription as in `row`. Changes nothing if an event has named another
     * reference meanwhile: that one must be ended too.
     */
    setEndedAtProvider: async ({ user_id, id, reference, checkout_reference }: SubscriptionRow): Promise<void> => {
      await db.query({
        text: `update subscription set end_at_provider = false
          where user_id = $1 and id = $2 and reference is not distinct from $3
            and checkout_reference is not distinct from $4`,
        values: [user_id, id, reference, checkout_reference],
      });
    },
  };
}

export type SubscriptionsStore = ReturnType<typeof createSubscriptionsStore>;
