import type { Tx } from "../platform/db.ts";
import type { BillingContext } from "./context.ts";
import type { PaymentRow } from "./payments.store.ts";
import type { PaymentEvent } from "./payments.types.ts";

/** The provider events of one kind. */
export type Of<Kind extends PaymentEvent["kind"]> = Extract<PaymentEvent, { kind: Kind }>;

/** The effect of one event. `granted` is the user who received tokens, if any. */
export interface Applied {
  outcome: "applied" | "waiting" | "ignored";
  granted?: string;
}

export const APPLIED: Applied = { outcome: "applied" };
export const IGNORED: Applied = { outcome: "ignored" };

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
