import { FAILED_ORDER_HOURS, UNPAID_ORDER_HOURS, USER_ROWS } from "../../kernel/constants.ts";
import { PurserError } from "../../kernel/errors.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import { addSeconds, type Clock } from "../../platform/lib/clock.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { Ledger } from "../ledger/ledger.types.ts";
import type { Accounts, User } from "../users/accounts.service.ts";
import { type BillingAccountsStore, createBillingAccountsStore } from "./accounts.store.ts";
import { billingErrors } from "./errors.ts";
import { createPaymentsStore, type PaymentRow, type PaymentsStore } from "./payments.store.ts";
import type { Payer, PaymentEvent, PaymentProvider, ProviderName, Started } from "./payments.types.ts";
import type { Plan } from "./plan.ts";
import { createSimulatedPayments } from "./simulated-payments.ts";
import { createSubscriptionsStore, type SubscriptionsStore } from "./subscriptions.store.ts";

/** The dependencies of billing. */
export interface BillingOptions {
  db: Db;
  clock: Clock;
  ledger: Ledger;
  /** The plans on offer. A reload replaces them. */
  plans(): readonly Plan[];
  /** The provider that users pay through. */
  payments: PaymentProvider;
  users: Pick<Accounts, "user">;
  log: Pick<Log, "warn">;
}

/** The stores and providers that all parts of billing share. */
export interface BillingContext extends BillingOptions {
  accounts: BillingAccountsStore;
  subscriptions: SubscriptionsStore;
  /** The store of payments, paid or not. */
  orders: PaymentsStore;
  /** Simulated payments for what the operator gives. */
  operator: PaymentProvider;
  /** The provider of this name; null when it is no longer configured. */
  providerOf(provider: ProviderName): PaymentProvider | null;
  payerOf(user_id: string): Promise<Payer>;
  /** Only an active user may buy. */
  userStatus(user_id: string): Promise<"active" | "suspended" | "erased">;
  /** Stores the customer id that the provider returned. */
  rememberCustomer(user_id: string, provider: ProviderName, started: Started): Promise<void>;
}

/** Creates the shared stores and providers. */
export function createBillingContext(options: BillingOptions): BillingContext {
  const { db, payments } = options;
  const accounts = createBillingAccountsStore(db);
  const operator = createSimulatedPayments("operator");
  return {
    ...options,
    accounts,
    subscriptions: createSubscriptionsStore(db),
    orders: createPaymentsStore(db),
    operator,
    providerOf(provider) {
      if (provider === operator.provider) return operator;
      return provider === payments.provider ? payments : null;
    },
    async payerOf(user_id) {
      const [account, user] = await Promise.all([accounts.find(user_id), findUser(options.users, user_id)]);
      const known = account?.customer_provider === payments.provider ? account.customer_reference : null;
      return { user_id, email: user?.email ?? null, customer_reference: known };
    },
    async userStatus(user_id) {
      const user = await findUser(options.users, user_id);
      return user === null ? "erased" : user.suspended_at === null ? "active" : "suspended";
    },
    async rememberCustomer(user_id, provider, { customer_reference }) {
      if (customer_reference === null) return;
      await db.transaction(async (tx) => {
        await accounts.lock(tx, user_id);
        await accounts.update(tx, user_id, { customer_provider: provider, customer_reference });
      });
    },
  };
}

/** The user; null once they are erased. */
async function findUser(users: Pick<Accounts, "user">, user_id: string): Promise<User | null> {
  try {
    return await users.user(user_id);
  } catch (error) {
    if (error instanceof PurserError && error.code === "not_found") return null;
    throw error;
  }
}

/** The provider events of one kind. */
export type EventOf<Kind extends PaymentEvent["kind"]> = Extract<PaymentEvent, { kind: Kind }>;

/** The effect of one event. `granted` is the user who received tokens, if any. */
export interface Applied {
  outcome: "applied" | "waiting" | "ignored";
  granted?: string;
}

export const APPLIED: Applied = { outcome: "applied" };
export const IGNORED: Applied = { outcome: "ignored" };

/** Throws 409 when the user has too many orders that nobody paid. The caller holds the billing lock and then inserts one. */
export async function limitUnpaidOrders({ clock, orders }: BillingContext, tx: Tx, user_id: string): Promise<void> {
  const hoursAgo = (hours: number) => addSeconds(clock.now(), -hours * 3_600);
  const since = { open: hoursAgo(UNPAID_ORDER_HOURS), failed: hoursAgo(FAILED_ORDER_HOURS) };
  if ((await orders.unpaid(tx, user_id, since)) >= USER_ROWS.unpaid_orders) throw billingErrors.orderLimitReached();
}

/** Locks the billing of the payment's user and reads the payment again. */
export async function lockPayment(
  { accounts, orders }: Pick<BillingContext, "accounts" | "orders">,
  tx: Tx,
  payment: PaymentRow | undefined,
): Promise<PaymentRow | undefined> {
  if (payment === undefined) return undefined;
  await accounts.lock(tx, payment.user_id);
  return orders.byId(payment.id, tx);
}
