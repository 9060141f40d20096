import { TOP_UP_MONTHS } from "../constants.ts";
import { errors } from "../errors.ts";
import type { Bucket, GrantSource, Ledger } from "../ledger/ledger.types.ts";
import { addMonths, type Clock } from "../platform/clock.ts";
import type { Db, Instant, Tx } from "../platform/db.ts";
import { newId } from "../platform/ids.ts";
import type { DueSource } from "../platform/timeline.ts";
import { periodOf } from "./period.ts";
import { createSubscriptionsStore, type SubscriptionRow } from "./subscriptions.store.ts";

export interface Plan {
  id: string;
  name: string;
  price_cents: number;
  currency: string;
  interval: string;
  included_tokens: number;
  rollover_months: number;
}

/** A subscription as the API shows it; every field null with status `none`. */
export interface Subscription {
  plan_id: string | null;
  status: "none" | "active" | "ended";
  current_period_start: Instant | null;
  current_period_end: Instant | null;
  cancel_at_period_end: boolean;
  pending_plan_id: string | null;
}

const UNIQUE_VIOLATION = "23505";
const NONE: Subscription = {
  plan_id: null,
  status: "none",
  current_period_start: null,
  current_period_end: null,
  cancel_at_period_end: false,
  pending_plan_id: null,
};

/** Plans, subscriptions and grants: decides what is granted when; the ledger alone writes balances. */
export function createBilling(deps: { db: Db; clock: Clock; ledger: Ledger; plans: readonly Plan[] }) {
  const { db, clock, ledger, plans } = deps;
  const store = createSubscriptionsStore(db);

  const planOf = (plan_id: string): Plan => {
    const plan = plans.find((each) => each.id === plan_id);
    if (plan === undefined) {
      throw errors.invalidValue(
        "plan_id",
        `plan_id is not a plan. The plans are ${plans.map((each) => each.id).join(", ")}.`,
      );
    }
    return plan;
  };

  /** The one grant of a paid period; it lasts `rollover_months` beyond the period's end. */
  const grantPeriod = (tx: Tx, row: SubscriptionRow) => {
    const plan = planOf(row.plan_id);
    return ledger.grant(
      {
        user_id: row.user_id,
        amount_tokens: plan.included_tokens,
        source: "subscription",
        granted_at: row.current_period_start,
        expires_at: addMonths(row.current_period_end, plan.rollover_months),
        note: plan.name,
        grant_key: `subscription:${row.id}:${row.current_period_start}`,
      },
      tx,
    );
  };

  /** Renews or ends the subscription that has been due longest; the user's id, or null when none is due. */
  const renewOne = () =>
    db.transaction(async (tx) => {
      const row = await store.due(tx, clock.now());
      if (row === undefined) return null;
      // A plan that is no longer offered ends with its period; it must not hold up everybody else's renewal.
      if (row.cancel_at_period_end || plans.every((plan) => plan.id !== row.plan_id)) {
        await store.update(tx, row.id, { status: "ended" });
        return row.user_id;
      }
      const { start, end } = periodOf(row.anchor, row.periods + 1);
      const renewed = { ...row, periods: row.periods + 1, current_period_start: start, current_period_end: end };
      await store.update(tx, row.id, renewed);
      await grantPeriod(tx, renewed);
      return row.user_id;
    });

  const renewals: DueSource = {
    name: "renewals",
    nextDueAt: (until) => store.nextEnd(until),
    async carryOut() {
      for (let user_id = await renewOne(); user_id !== null; user_id = await renewOne())
        await ledger.notifyGrant(user_id);
    },
  };

  return {
    plans,
    renewals,

    async subscription(user_id: string): Promise<Subscription> {
      const row = await store.active(user_id);
      return row === undefined ? NONE : subscriptionRecord(row);
    },

    /** Subscribes `user_id` from now on as if paid. 409 when there is a subscription already. */
    async subscribe(user_id: string, plan_id: string): Promise<Subscription> {
      const plan = planOf(plan_id);
      const now = clock.now();
      const { start, end } = periodOf(now, 1);
      const row: SubscriptionRow = {
        id: newId(),
        user_id,
        plan_id: plan.id,
        status: "active",
        anchor: now,
        periods: 1,
        current_period_start: start,
        current_period_end: end,
        cancel_at_period_end: false,
        pending_plan_id: null,
        created_at: now,
      };
      await db.transaction(async (tx) => {
        await store.insert(tx, row).catch((error: { code?: string }) => {
          if (error.code !== UNIQUE_VIOLATION) throw error;
          throw errors.conflict(
            "already_subscribed",
            "This user has a subscription. Changing plans is not part of this version.",
            "plan_id",
          );
        });
        await grantPeriod(tx, row);
      });
      await ledger.notifyGrant(user_id);
      return subscriptionRecord(row);
    },

    /** Grants tokens by the operator's hand; they last 12 months unless `expires_at` says otherwise. */
    async grant(
      user_id: string,
      wanted: {
        amount_tokens: number;
        source: GrantSource;
        expires_at?: Instant | undefined;
        note?: string | undefined;
      },
    ): Promise<Bucket> {
      const granted_at = clock.now();
      const expires_at = wanted.expires_at ?? addMonths(granted_at, TOP_UP_MONTHS);
      if (expires_at <= granted_at)
        throw errors.invalidValue("expires_at", `expires_at must lie after now (${granted_at}).`);
      const { amount_tokens, source } = wanted;
      const { posted } = await ledger.standing(user_id);
      if (posted + amount_tokens > Number.MAX_SAFE_INTEGER)
        throw errors.invalidValue("amount_tokens", "amount_tokens is more than this balance can take and stay exact.");
      return ledger.grant({ user_id, amount_tokens, source, granted_at, expires_at, note: wanted.note ?? null });
    },

    /** Ends what the user subscribed to, within the transaction that erases them. */
    endSubscriptions: (tx: Tx, user_id: string) => store.endOf(tx, user_id),
  };
}

export type Billing = ReturnType<typeof createBilling>;

function subscriptionRecord(row: SubscriptionRow): Subscription {
  const { plan_id, status, current_period_start, current_period_end, cancel_at_period_end, pending_plan_id } = row;
  return { plan_id, status, current_period_start, current_period_end, cancel_at_period_end, pending_plan_id };
}
