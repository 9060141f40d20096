import type { Accounts } from "../accounts/accounts.service.ts";
import { PurserError } from "../errors.ts";
import type { Ledger } from "../ledger/ledger.types.ts";
import type { Clock } from "../platform/clock.ts";
import type { Db } from "../platform/db.ts";
import type { Log } from "../platform/log.ts";
import { type BillingAccountsStore, createBillingAccountsStore } from "./accounts.store.ts";
import { createAsIfPaid } from "./as-if-paid.ts";
import { createPaymentsStore, type PaymentsStore } from "./payments.store.ts";
import type { Payer, Payments, Provider, Started } from "./payments.types.ts";
import type { Plan } from "./plan.ts";
import { createSubscriptionsStore, type SubscriptionsStore } from "./subscriptions.store.ts";

/** What billing is given. */
export interface BillingOptions {
  db: Db;
  clock: Clock;
  ledger: Ledger;
  plans: readonly Plan[];
  payments: Payments;
  people: Pick<Accounts, "user">;
  log: Pick<Log, "warn">;
}

/** What every part of billing works with. */
export interface BillingRoom extends BillingOptions {
  accounts: BillingAccountsStore;
  subscriptions: SubscriptionsStore;
  orders: PaymentsStore;
  /** The operator's hand: as if paid. */
  operator: Payments;
  /** Who moves the money of what was begun with `provider`; null when that is no longer configured. */
  paymentsOf(provider: Provider): Payments | null;
  payerOf(user_id: string): Promise<Payer>;
  /** Keeps the customer that a provider has named. */
  rememberCustomer(user_id: string, provider: Provider, started: Started): Promise<void>;
}

/** The stores and the providers, put together. */
export function createRoom(options: BillingOptions): BillingRoom {
  const { db, payments } = options;
  const accounts = createBillingAccountsStore(db);
  const operator = createAsIfPaid("operator");
  return {
    ...options,
    accounts,
    subscriptions: createSubscriptionsStore(db),
    orders: createPaymentsStore(db),
    operator,
    paymentsOf(provider) {
      if (provider === operator.provider) return operator;
      return provider === payments.provider ? payments : null;
    },
    async payerOf(user_id) {
      const [account, email] = await Promise.all([accounts.find(user_id), emailOf(options.people, user_id)]);
      const known = account?.customer_provider === payments.provider ? account.customer_reference : null;
      return { user_id, email, customer_reference: known };
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

/** Where the user gets receipts; null once they are erased. */
async function emailOf(people: Pick<Accounts, "user">, user_id: string): Promise<string | null> {
  try {
    return (await people.user(user_id)).email;
  } catch (error) {
    if (error instanceof PurserError && error.code === "not_found") return null;
    throw error;
  }
}
