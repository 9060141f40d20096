import { type Insertable, type JSONColumnType, sql as raw, type Selectable, type Updateable } from "kysely";
import type { Db, Instant, Sql, Tx } from "../platform/db.ts";
import type { PaymentEvent, ProviderName, Started } from "./payments.types.ts";
import type { Plan } from "./plan.ts";

interface PaymentTable {
  user_id: string;
  id: string;
  purpose: "top_up" | "period" | "upgrade" | "overage";
  status: "pending" | "succeeded" | "failed" | "void" | "mismatch";
  provider: ProviderName;
  reference: string | null;
  amount_cents: number;
  currency: string;
  tokens: number;
  subscription_id: string | null;
  period_start: Instant | null;
  plan: JSONColumnType<Plan | null, string | null, string | null>;
  checkout_url: string | null;
  bucket_id: string | null;
  paid_cents: number;
  refunded_cents: number;
  refund_failed_cents: number;
  clawed_back_tokens: number;
  /** The wrong bill of a mismatch. */
  mismatch_cents: number | null;
  mismatch_currency: string | null;
  /** Ordered by an automatic top-up. */
  automatic: boolean;
  /** An upgrade that was ordered after a cancellation, which it undoes once it is paid. */
  undoes_cancellation: boolean;
  send_at: unknown;
  created_at: Instant;
}

interface DisputeTable {
  provider: string;
  reference: string;
  user_id: string;
  payment_id: string;
  disputed_cents: number;
  state: "open" | "won" | "lost";
}

interface EventTable {
  provider: string;
  event_id: string;
  kind: string;
  reference: string | null;
  event: JSONColumnType<PaymentEvent>;
  outcome: "applied" | "waiting" | "ignored";
  received_at: Instant;
}

interface Tables {
  payment: PaymentTable;
  payment_dispute: DisputeTable;
  payment_event: EventTable;
}

export type PaymentRow = Selectable<PaymentTable>;
/** A new payment. Omitted columns start empty. */
export type NewPayment = Pick<
  PaymentRow,
  "user_id" | "id" | "purpose" | "provider" | "amount_cents" | "currency" | "tokens" | "created_at"
> & { automatic?: true; undoes_cancellation?: boolean; subscription_id?: string; period_start?: Instant; plan?: Plan };

/** The states of purchases in the operator's list. */
export type PurchaseState = "pending" | "succeeded" | "failed" | "refunded" | "mismatch";

const IS_REFUNDED = raw<boolean>`(status = 'succeeded' and refunded_cents > refund_failed_cents
  and refunded_cents - refund_failed_cents >= paid_cents)`;
const IN_STATE = {
  pending: raw<boolean>`status = 'pending'`,
  succeeded: raw<boolean>`status = 'succeeded' and not ${IS_REFUNDED}`,
  failed: raw<boolean>`status in ('failed', 'void')`,
  refunded: IS_REFUNDED,
  mismatch: raw<boolean>`status = 'mismatch'`,
} as const;

export function createPaymentsStore(db: Db) {
  const tables = (sql: Sql = db) => sql.tables<Tables>();
  const all = (sql?: Sql) => tables(sql).selectFrom("payment").selectAll();
  return {
    /**
     * With `send_in_seconds` (real time), the outbox sends the order after that time unless the provider has accepted
     * it.
     */
    insert: (tx: Sql, { plan, ...row }: NewPayment, send_in_seconds: number | null) =>
      tables(tx)
        .insertInto("payment")
        .values({
          ...row,
          status: "pending",
          plan: plan === undefined ? null : JSON.stringify(plan),
          send_at: send_in_seconds === null ? null : raw`now() + make_interval(secs => ${send_in_seconds})`,
        } as Insertable<PaymentTable>)
        .returningAll()
        .executeTakeFirstOrThrow(),
    byId: (id: string, sql?: Sql) => all(sql).where("id", "=", id).executeTakeFirst(),
    byReference: (tx: Tx, money: { provider: ProviderName; reference: string }) =>
      all(tx).where("provider", "=", money.provider).where("reference", "=", money.reference).executeTakeFirst(),
    ofPeriod: (tx: Tx, period: { user_id: string; subscription_id: string; period_start: Instant }) =>
      all(tx)
        .where("purpose", "=", "period")
        .where("user_id", "=", period.user_id)
        .where("subscription_id", "=", period.subscription_id)
        .where("period_start", "=", period.period_start)
        .executeTakeFirst(),
    /** Whether the user has a payment with this purpose and status. */
    some: async (user_id: string, is: Pick<PaymentRow, "purpose" | "status">, sql?: Sql) =>
      (await all(sql)
        .where("user_id", "=", user_id)
        .where("purpose", "=", is.purpose)
        .where("status", "=", is.status)
        .limit(1)
        .executeTakeFirst()) !== undefined,
    update: (sql: Sql, row: Pick<PaymentRow, "user_id" | "id">, set: Updateable<PaymentTable>) =>
      tables(sql)
        .updateTable("payment")
        .set(set)
        .where("user_id", "=", row.user_id)
        .where("id", "=", row.id)
        .returningAll()
        .executeTakeFirstOrThrow(),
    /** The subscription is cancelled, so the upgrades that were ordered before do not undo that. */
    keepCancellation: (tx: Tx, { user_id, id }: { user_id: string; id: string }) =>
      tables(tx)
        .updateTable("payment")
        .set({ undoes_cancellation: false })
        .where("user_id", "=", user_id)
        .where("subscription_id", "=", id)
        .where("undoes_cancellation", "=", true)
        .execute(),
    topUp: (user_id: string, id: string) =>
      all().where("user_id", "=", user_id).where("id", "=", id).where("purpose", "=", "top_up").executeTakeFirst(),
    topUps: (user_id: string, page: { limit: number; before_id: string | null }) => {
      const query = all().where("user_id", "=", user_id).where("purpose", "=", "top_up").orderBy("id", "desc");
      return (page.before_id === null ? query : query.where("id", "<", page.before_id)).limit(page.limit).execute();
    },
    /** Purchases of all users without overage, newest first. Without `status` it returns every state. */
    purchases: (status: PurchaseState | undefined, page: { limit: number; before_id: string | null }) => {
      let query = all().where("purpose", "!=", "overage").orderBy("id", "desc").limit(page.limit);
      if (status !== undefined) query = query.where(IN_STATE[status]);
      return (page.before_id === null ? query : query.where("id", "<", page.before_id)).execute();
    },
    /** Overage invoices, newest first, of one user or of all users. */
    invoices: (
      filter: { user_id?: string; status?: PaymentRow["status"] | undefined },
      page: { limit: number; before_id: string | null },
    ) => {
      let query = all().where("purpose", "=", "overage").orderBy("id", "desc").limit(page.limit);
      if (filter.user_id !== undefined) query = query.where("user_id", "=", filter.user_id);
      if (filter.status !== undefined) query = query.where("status", "=", filter.status);
      return (page.before_id === null ? query : query.where("id", "<", page.before_id)).execute();
    },
    /**
     * Records that the provider accepted the order as in `row`. Changes nothing if the payment has moved on. The events of
     * the acceptance end the order themselves, so it is sent again if the process dies before they are applied.
     */
    setAccepted: (
      row: Pick<PaymentRow, "user_id" | "id" | "status">,
      { checkout_url, events }: Pick<Started, "checkout_url" | "events">,
    ) =>
      tables()
        .updateTable("payment")
        .set(events.length === 0 ? { send_at: null, checkout_url } : { checkout_url })
        .where("user_id", "=", row.user_id)
        .where("id", "=", row.id)
        .where("status", "=", row.status)
        .execute(),
    /** Makes the outbox send the order at once. */
    sendNow: (tx: Tx, row: Pick<PaymentRow, "user_id" | "id">) =>
      tables(tx)
        .updateTable("payment")
        .set({ send_at: raw`now()` })
        .where("user_id", "=", row.user_id)
        .where("id", "=", row.id)
        .execute(),
    /** Claims due orders and sets their next send time, so that only one node sends each. */
    claimUnsent: (options: { limit: number; retry_seconds: number }) =>
      db.query<PaymentRow>({
        text: `update payment set send_at = now() + make_interval(secs => $2)
          where (user_id, id) in (
            select user_id, id from payment where send_at <= now() order by send_at limit $1 for update skip locked
          ) returning *`,
        values: [options.limit, options.retry_seconds],
      }),

    /** Stores the event and returns whether it is new. A known event stays unchanged. */
    insertEvent: async (tx: Tx, row: Insertable<EventTable>) =>
      (await tables(tx)
        .insertInto("payment_event")
        .values(row)
        .onConflict((conflict) => conflict.doNothing())
        .returning("event_id")
        .executeTakeFirst()) !== undefined,
    setOutcome: (tx: Tx, event: Pick<PaymentEvent, "provider" | "event_id">, outcome: EventTable["outcome"]) =>
      tables(tx)
        .updateTable("payment_event")
        .set({ outcome })
        .where("provider", "=", event.provider)
        .where("event_id", "=", event.event_id)
        .execute(),
    /** Locks a waiting event. Returns undefined when another node has applied it. */
    lockWaiting: (tx: Tx, event: Pick<PaymentEvent, "provider" | "event_id">) =>
      tables(tx)
        .selectFrom("payment_event")
        .select("event_id")
        .where("provider", "=", event.provider)
        .where("event_id", "=", event.event_id)
        .where("outcome", "=", "waiting")
        .forUpdate()
        .executeTakeFirst(),
    /** Waiting events whose payment exists now, in order of arrival. */
    waitingEvents: async (limit: number): Promise<PaymentEvent[]> => {
      const rows = await tables()
        .selectFrom("payment_event as e")
        .innerJoin("payment as p", (join) =>
          join.onRef("p.provider", "=", "e.provider").onRef("p.reference", "=", "e.reference"),
        )
        .select("e.event")
        .where("e.outcome", "=", "waiting")
        .orderBy("e.received_at")
        .limit(limit)
        .execute();
      return rows.map(({ event }) => event);
    },

    /**
     * Records a dispute. A closed dispute stays closed if events arrive late; only a lost one can still be won, by
     * appeal.
     */
    upsertDispute: (tx: Tx, row: DisputeTable) =>
      tables(tx)
        .insertInto("payment_dispute")
        .values(row)
        .onConflict((conflict) =>
          conflict
            .columns(["provider", "reference"])
            .doUpdateSet({ state: row.state, disputed_cents: row.disputed_cents })
            .where("payment_dispute.state", "in", row.state === "won" ? ["open", "lost"] : ["open"]),
        )
        .execute(),
    /** Sum of the payment's disputes that are open or lost. */
    async disputedCents(tx: Tx, payment: Pick<PaymentRow, "user_id" | "id">): Promise<number> {
      const { cents } = await tables(tx)
        .selectFrom("payment_dispute")
        .select(({ fn }) => fn.coalesce(fn.sum<number>("disputed_cents"), raw<number>`0`).as("cents"))
        .where("user_id", "=", payment.user_id)
        .where("payment_id", "=", payment.id)
        .where("state", "!=", "won")
        .executeTakeFirstOrThrow();
      return cents;
    },
  };
}

export type PaymentsStore = ReturnType<typeof createPaymentsStore>;
