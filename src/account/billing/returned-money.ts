import { TOP_UP_MONTHS } from "../../kernel/constants.ts";
import type { Tx } from "../../platform/db/db.ts";
import { addMonths } from "../../platform/lib/clock.ts";
import type { AutoTopups } from "./auto-topup.service.ts";
import { APPLIED, type Applied, type BillingContext, type EventOf, lockPayment } from "./context.ts";

type MoneyBack = EventOf<"refunded"> | EventOf<"disputed"> | EventOf<"dispute_closed">;

const REASON = { refunded: "Refunded", disputed: "Disputed", dispute_closed: "Dispute closed" } as const;

/** Applies refunds and disputes. */
export function createReturnedMoney(context: BillingContext, auto_topups: Pick<AutoTopups, "pause">) {
  const { clock, ledger, orders } = context;

  /** Takes tokens back, or returns them, until the tokens taken match the money returned. */
  const moneyBack = async (tx: Tx, event: MoneyBack): Promise<Applied> => {
    const { provider, event_id } = event;
    const payment = await lockPayment(context, tx, await orders.byReference(tx, event));
    if (payment === undefined) return { outcome: "waiting" };
    const { user_id, id: payment_id } = payment;
    let { refunded_cents, refund_failed_cents } = payment;
    if (event.kind === "refunded") {
      // totals only grow, so the larger one is the newer one
      refunded_cents = Math.max(refunded_cents, event.refunded_cents);
      refund_failed_cents = Math.max(refund_failed_cents, event.refund_failed_cents);
    } else {
      const state = event.kind === "disputed" ? "open" : event.won ? "won" : "lost";
      const { dispute_reference, disputed_cents } = event;
      await orders.upsertDispute(tx, {
        provider,
        reference: dispute_reference,
        user_id,
        payment_id,
        disputed_cents,
        state,
      });
    }
    const disputed_cents = await orders.disputedCents(tx, payment);
    const back_cents = refunded_cents - refund_failed_cents + disputed_cents;
    const adjusted = payment.bucket_id === null ? 0 : await ledger.adjustedTokens(tx, user_id, payment.bucket_id);
    const clawed_back_tokens = Math.min(payment.tokens - adjusted, clawBackTarget({ ...payment, back_cents }));
    const change = clawed_back_tokens - payment.clawed_back_tokens;
    await orders.update(tx, payment, { refunded_cents, refund_failed_cents, clawed_back_tokens });
    if (change === 0) return APPLIED;
    const { bucket_id } = payment;
    const key = `${provider}:${event_id}`;
    const movement = { user_id, bucket_id, amount_tokens: Math.abs(change), reason: REASON[event.kind], key };
    if (change > 0) {
      // a new purchase would only replace the returned one
      await auto_topups.pause(tx, payment, "payment_returned");
      await ledger.clawBack(movement, tx);
      return APPLIED;
    }
    const { reversed_tokens } = await ledger.reinstate(movement, tx);
    if (bucket_id === null) await giveBack(tx, movement, -change - reversed_tokens);
    return { outcome: "applied", granted: user_id };
  };

  /** Grants the tokens of overage that was paid after all, when a grant has already repaid its debt. */
  const giveBack = async (tx: Tx, { user_id, key }: { user_id: string; key: string }, amount_tokens: number) => {
    if (amount_tokens === 0) return;
    const lasting = { granted_at: clock.now(), expires_at: addMonths(clock.now(), TOP_UP_MONTHS) };
    const grant = { user_id, amount_tokens, source: "top_up" as const, grant_key: `given-back:${key}` };
    await ledger.grant({ ...grant, ...lasting, note: "Overage, paid later" }, tx);
  };

  return moneyBack;
}

/** Money of a payment that was returned or is disputed. Amounts in cents of the paid sum. */
interface ReturnedMoney {
  tokens: number;
  paid_cents: number;
  /** Sum of refunds that did not fail, and of disputes that are open or lost. */
  back_cents: number;
}

/**
 * The total tokens to take back from a payment: proportional to the returned money, rounded down until all of it is
 * returned. A payment of 0 cents takes nothing back.
 */
export function clawBackTarget({ tokens, paid_cents, back_cents }: ReturnedMoney): number {
  if (paid_cents === 0) return 0;
  return Number((BigInt(tokens) * BigInt(Math.min(paid_cents, back_cents))) / BigInt(paid_cents));
}
