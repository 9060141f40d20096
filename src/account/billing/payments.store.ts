import type { Db, Sql, Tx } from "../../platform/db/db.ts";
import { assignments, createConditions, firstRow, insertInto, oneRow } from "../../platform/db/statements.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { PaymentEvent, ProviderName, Started } from "./payments.types.ts";
import type { Plan } from "./plan.ts";

export interface PaymentRow {
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
  plan: Plan | null;
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
  send_at: Instant | null;
  created_at: Instant;
}

interface DisputeRow {
  provider: string;
  reference: string;
  user_id: string;
  payment_id: string;
  disputed_cents: number;
  state: "open" | "won" | "lost";
}

interface EventRow {
  provider: string;
  event_id: string;
  kind: string;
  reference: string | null;
  event: PaymentEvent;
  outcome: "applied" | "waiting" | "ignored";
  received_at: Instant;
}

const COLUMNS = `user_id, id, purpose, status, provider, reference, amount_cents, currency, tokens, subscription_id,
  period_start, plan, checkout_url, bucket_id, paid_cents, refunded_cents, refund_failed_cents, clawed_back_tokens,
  mismatch_cents, mismatch_currency, automatic, undoes_cancellation, send_at, created_at`;
const PAYMENTS = `select ${COLUMNS} from payment`;

/** A new payment. Omitted columns start empty. */
export type NewPayment = Pick<
  PaymentRow,
  "user_id" | "id" | "purpose" | "provider" | "amount_cents" | "currency" | "tokens" | "created_at"
> & { automatic?: true; undoes_cancellation?: boolean; subscription_id?: string; period_start?: Instant; plan?: Plan };

/** The states of purchases in the operator's list. */
export type PurchaseState = "pending" | "succeeded" | "failed" | "refunded" | "mismatch";

const IS_REFUNDED = `(status = 'succeeded' and refunded_cents > refund_failed_cents
  and refunded_cents - refund_failed_cents >= paid_cents)`;
const IN_STATE: Readonly<Record<PurchaseState, string>> = {
  pending: "status = 'pending'",
  succeeded: `status = 'succeeded' and not ${IS_REFUNDED}`,
  failed: "status in ('failed', 'void')",
  refunded: IS_REFUNDED,
  mismatch: "status = 'mismatch'",
};

type PaymentKey = Pick<PaymentRow, "user_id" | "id">;
type Page = { limit: number; before_id: string | null };
/** A page of a list of all users; with `after_id` oldest first. */
export type PageOfAll = Page | { limit: number; after_id: string | null };
/** When the payments of a list were created: from, and before. */
export interface CreatedWithin {
  from?: Instant | undefined;
  to?: Instant | undefined;
}

export function createPaymentsStore(db: Db) {
  return {
    ...paymentStatements(db),
    ...eventStatements(db),
  };
}

function paymentStatements(db: Db) {
  return {
    /**
     * With `send_in_seconds` (real time), the outbox sends the order after that time unless the provider has accepted
     * it.
     */
    insert: (sql: Sql, row: NewPayment, send_in_seconds: number | null) =>
      oneRow<PaymentRow>(sql, {
        text: `insert into payment (user_id, id, purpose, status, provider, amount_cents, currency, tokens, created_at,
            subscription_id, period_start, plan, automatic, undoes_cancellation, send_at)
          values ($1, $2, $3, 'pending', $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, now() + make_interval(secs => $14))
          returning ${COLUMNS}`,
        values: [
          row.user_id,
          row.id,
          row.purpose,
          row.provider,
          row.amount_cents,
          row.currency,
          row.tokens,
          row.created_at,
          row.subscription_id ?? null,
          row.period_start ?? null,
          row.plan === undefined ? null : JSON.stringify(row.plan),
          row.automatic ?? false,
          row.undoes_cancellation ?? false,
          send_in_seconds,
        ],
      }),
    byId: (id: string, sql: Sql = db) => firstRow<PaymentRow>(sql, { text: `${PAYMENTS} where id = $1`, values: [id] }),
    byReference: (tx: Tx, { provider, reference }: { provider: ProviderName; reference: string }) =>
      firstRow<PaymentRow>(tx, {
        text: `${PAYMENTS} where provider = $1 and reference = $2`,
        values: [provider, reference],
      }),
    ofPeriod: (tx: Tx, period: { user_id: string; subscription_id: string; period_start: Instant }) =>
      firstRow<PaymentRow>(tx, {
        text: `${PAYMENTS} where purpose = 'period' and user_id = $1 and subscription_id = $2 and period_start = $3`,
        values: [period.user_id, period.subscription_id, period.period_start],
      }),
    /** Whether the user has a payment with this purpose and status. */
    async some(user_id: string, is: Pick<PaymentRow, "purpose" | "status">, sql: Sql = db): Promise<boolean> {
      const found = await sql.query({
        text: "select id from payment where user_id = $1 and purpose = $2 and status = $3 limit 1",
        values: [user_id, is.purpose, is.status],
      });
      return found.length > 0;
    },
    /** The number of the user's orders since an instant that nobody paid: purchases, upgrades, and checkouts of plans. */
    async unpaid(tx: Tx, user_id: string, since: { open: Instant; failed: Instant }): Promise<number> {
      const { count } = await oneRow<{ count: number }>(tx, {
        text: `select (
            select count(*) from payment where user_id = $1 and created_at > $2 and status in ('pending', 'failed')
              and purpose in ('top_up', 'upgrade') and not automatic and (status = 'pending' or created_at > $3)
          ) + (
            select count(*) from subscription where user_id = $1 and created_at > $2 and current_period_start is null
              and (status <> 'ended' or checkout_reference is not null or created_at > $3)
          ) as count`,
        values: [user_id, since.open, since.failed],
      });
      return count;
    },
    update: (sql: Sql, { user_id, id }: PaymentKey, set: Partial<PaymentRow>) => {
      const values: unknown[] = [user_id, id];
      return oneRow<PaymentRow>(sql, {
        text: `update payment set ${assignments(values, set)} where user_id = $1 and id = $2 returning ${COLUMNS}`,
        values,
      });
    },
    /** The subscription is cancelled, so the upgrades that were ordered before do not undo that. */
    keepCancellation: (tx: Tx, { user_id, id }: { user_id: string; id: string }) =>
      tx.query({
        text: `update payment set undoes_cancellation = false
          where user_id = $1 and subscription_id = $2 and undoes_cancellation`,
        values: [user_id, id],
      }),
    topUp: (user_id: string, id: string) =>
      firstRow<PaymentRow>(db, {
        text: `${PAYMENTS} where user_id = $1 and id = $2 and purpose = 'top_up'`,
        values: [user_id, id],
      }),
    topUps: (user_id: string, { limit, before_id }: Page) =>
      db.query<PaymentRow>({
        text: `${PAYMENTS} where user_id = $1 and purpose = 'top_up' and ($2::uuid is null or id < $2)
          order by id desc limit $3`,
        values: [user_id, before_id, limit],
      }),
    /** All payments of a user, newest first. */
    ofUser: (user_id: string, { limit, before_id }: Page) =>
      db.query<PaymentRow>({
        text: `${PAYMENTS} where user_id = $1 and ($2::uuid is null or id < $2) order by id desc limit $3`,
        values: [user_id, before_id, limit],
      }),
    /** Purchases of all users without overage. Without `status` it returns every state. */
    purchases: ({ status, ...within }: { status?: PurchaseState | undefined } & CreatedWithin, page: PageOfAll) => {
      const wanted = wantedPayments("purpose <> 'overage'", within, page);
      if (status !== undefined) wanted.add(IN_STATE[status]);
      return db.query<PaymentRow>(wanted.statement());
    },
    /** Overage invoices, of one user or of all users. */
    invoices: (
      filter: { user_id?: string; status?: PaymentRow["status"] | undefined } & CreatedWithin,
      page: PageOfAll,
    ) => {
      const wanted = wantedPayments("purpose = 'overage'", filter, page);
      wanted.only("user_id =", filter.user_id);
      wanted.only("status =", filter.status);
      return db.query<PaymentRow>(wanted.statement());
    },
    /**
     * Records that the provider accepted the order as in `row`. Changes nothing if the payment has moved on. The events of
     * the acceptance end the order themselves, so it is sent again if the process dies before they are applied.
     */
    setAccepted: (
      { user_id, id, status }: Pick<PaymentRow, "user_id" | "id" | "status">,
      { checkout_url, events }: Pick<Started, "checkout_url" | "events">,
    ) =>
      db.query({
        text: `update payment set checkout_url = $4, send_at = case when $5 then send_at end
          where user_id = $1 and id = $2 and status = $3`,
        values: [user_id, id, status, checkout_url, events.length > 0],
      }),
    /** Makes the outbox send the order at once. */
    sendNow: (tx: Tx, { user_id, id }: PaymentKey) =>
      tx.query({ text: "update payment set send_at = now() where user_id = $1 and id = $2", values: [user_id, id] }),
    /** Claims due orders and sets their next send time, so that only one node sends each. */
    claimUnsent: (options: { limit: number; retry_seconds: number }) =>
      db.query<PaymentRow>({
        text: `update payment set send_at = now() + make_interval(secs => $2)
          where (user_id, id) in (
            select user_id, id from payment where send_at <= now() order by send_at limit $1 for update skip locked
          ) returning ${COLUMNS}`,
        values: [options.limit, options.retry_seconds],
      }),
  };
}

/** The conditions of a list of payments, and its statement once all are added. */
function wantedPayments(purpose: string, { from, to }: CreatedWithin, page: PageOfAll) {
  const values: unknown[] = [page.limit];
  const { add, only, text } = createConditions(values, purpose);
  const is_oldest_first = "after_id" in page;
  only("created_at >=", from);
  only("created_at <", to);
  if (is_oldest_first) only("id >", page.after_id);
  else only("id <", page.before_id);
  const order = is_oldest_first ? "asc" : "desc";
  const statement = () => ({ text: `${PAYMENTS} where ${text()} order by id ${order} limit $1`, values });
  return { add, only, statement };
}

type EventKey = Pick<PaymentEvent, "provider" | "event_id">;

/** Events of providers, and the disputes that they report. */
function eventStatements(db: Db) {
  return {
    /** Stores the event and returns whether it is new. A known event stays unchanged. */
    async insertEvent(tx: Tx, row: EventRow): Promise<boolean> {
      const stored = { ...row, event: JSON.stringify(row.event) };
      const inserted = await tx.query(insertInto("payment_event", stored, "on conflict do nothing returning event_id"));
      return inserted.length > 0;
    },
    /** Those of these events that are stored already. */
    async knownEvents(provider: ProviderName, event_ids: readonly string[]): Promise<Set<string>> {
      const rows = await db.query<{ event_id: string }>({
        text: "select event_id from payment_event where provider = $1 and event_id = any($2::text[])",
        values: [provider, event_ids],
      });
      return new Set(rows.map(({ event_id }) => event_id));
    },
    setOutcome: (tx: Tx, { provider, event_id }: EventKey, outcome: EventRow["outcome"]) =>
      tx.query({
        text: "update payment_event set outcome = $3 where provider = $1 and event_id = $2",
        values: [provider, event_id, outcome],
      }),
    /** Locks a waiting event. Returns undefined when another node has applied it. */
    lockWaiting: (tx: Tx, { provider, event_id }: EventKey) =>
      firstRow<{ event_id: string }>(tx, {
        text: `select event_id from payment_event where provider = $1 and event_id = $2 and outcome = 'waiting'
          for update`,
        values: [provider, event_id],
      }),
    /** Waiting events whose payment exists now, in order of arrival. */
    async waitingEvents(limit: number): Promise<PaymentEvent[]> {
      const rows = await db.query<Pick<EventRow, "event">>({
        text: `select e.event from payment_event e join payment p on p.provider = e.provider and p.reference = e.reference
          where e.outcome = 'waiting' order by e.received_at limit $1`,
        values: [limit],
      });
      return rows.map(({ event }) => event);
    },
    /** Deletes events received before an instant, except waiting ones that can be applied now. */
    deleteEventsBefore: (instant: Instant) =>
      db.query({
        text: `delete from payment_event as e where received_at < $1 and not (outcome = 'waiting'
          and exists (select from payment p where p.provider = e.provider and p.reference = e.reference))`,
        values: [instant],
      }),

    /**
     * Records a dispute. A closed dispute stays closed if events arrive late; only a lost one can still be won, by
     * appeal.
     */
    upsertDispute: (tx: Tx, row: DisputeRow) =>
      tx.query(
        insertInto(
          "payment_dispute",
          row,
          `on conflict (provider, reference) do update
            set state = excluded.state, disputed_cents = excluded.disputed_cents
            where payment_dispute.state = 'open' or (payment_dispute.state = 'lost' and excluded.state = 'won')`,
        ),
      ),
    /** Sum of the payment's disputes that are open or lost. */
    async disputedCents(tx: Tx, { user_id, id }: PaymentKey): Promise<number> {
      const { cents } = await oneRow<{ cents: number }>(tx, {
        text: `select coalesce(sum(disputed_cents), 0) as cents from payment_dispute
          where user_id = $1 and payment_id = $2 and state <> 'won'`,
        values: [user_id, id],
      });
      return cents;
    },
  };
}

export type PaymentsStore = ReturnType<typeof createPaymentsStore>;
