import { TOKENS_PER_CENT } from "../../kernel/constants.ts";
import type { Invariant } from "../ledger/ledger.types.ts";

/**
 * Invariants between money and tokens. The audit checks them in the same snapshot as the ledger's own; each query
 * returns the users that break the invariant.
 */
export const PAYMENT_INVARIANTS: readonly Invariant[] = [
  {
    invariant: "every successful payment has granted its tokens once, and no other payment has granted any",
    text: `select p.user_id, format('payment %s (%s, %s) of %s tokens, bucket %s', p.id, p.purpose, p.status, p.tokens, b.original) as detail
      from (
        select *, count(*) over (partition by user_id, bucket_id) as payments_of_bucket from payment where purpose <> 'overage'
      ) p left join bucket b on b.user_id = p.user_id and b.id = p.bucket_id
      where (p.status = 'succeeded' and p.tokens > 0) is distinct from (b.id is not null)
        or b.original <> p.tokens
        or (b.id is not null and p.payments_of_bucket > 1)`,
  },
  {
    invariant: "a payment with a wrong bill has granted nothing, and each other payment was billed as ordered",
    text: `select p.user_id, format('payment %s (%s) of %s %s, billed %s %s, bucket %s', p.id, p.status, p.amount_cents, p.currency,
        p.mismatch_cents, p.mismatch_currency, p.bucket_id) as detail
      from payment p
      where (p.status = 'mismatch') <> (p.mismatch_cents is not null)
        or (p.status = 'mismatch' and (p.bucket_id is not null
          or (p.mismatch_cents, lower(p.mismatch_currency)) = (p.amount_cents, lower(p.currency))))`,
  },
  {
    invariant: "every grant by a payment has its payment",
    text: `select b.user_id, format('bucket %s', b.id) as detail from bucket b
      where (b.grant_key like 'payment:%' or b.grant_key like 'subscription:%')
        and not exists (select from payment p where p.user_id = b.user_id and p.bucket_id = b.id)`,
  },
  {
    invariant:
      "the tokens clawed back from a payment are proportional to the money returned, less what adjustments took",
    text: `select p.user_id, format('payment %s clawed back %s of %s', p.id, p.clawed_back_tokens, p.tokens) as detail
      from payment p left join bucket b on b.user_id = p.user_id and b.id = p.bucket_id cross join lateral (
        select coalesce(sum(disputed_cents), 0) as cents from payment_dispute
          where user_id = p.user_id and payment_id = p.id and state <> 'won'
      ) disputed
      where p.clawed_back_tokens <> case when p.paid_cents = 0 then 0 else least(p.tokens - coalesce(b.adjusted, 0),
        floor(p.tokens::numeric
          * least(p.paid_cents, p.refunded_cents - p.refund_failed_cents + disputed.cents) / p.paid_cents)) end`,
  },
  {
    invariant: "the tokens clawed back from a grant equal those of its payment",
    text: `select p.user_id, format('payment %s clawed back %s, bucket %s', p.id, p.clawed_back_tokens, b.clawed_back) as detail
      from payment p join bucket b on b.user_id = p.user_id and b.id = p.bucket_id
      where b.clawed_back <> p.clawed_back_tokens`,
  },
  {
    invariant: "overage clawed back, less overage returned, equals the tokens clawed back from its invoices",
    text: `select a.user_id, format('invoices %s, reversals %s, given back %s', p.total, r.total, g.total) as detail
      from account a cross join lateral (
        select coalesce(sum(clawed_back_tokens), 0) as total from payment where user_id = a.user_id and purpose = 'overage'
      ) p cross join lateral (
        select coalesce(sum(amount), 0) as total from reversal where user_id = a.user_id and bucket_id is null
      ) r cross join lateral (
        select coalesce(sum(original), 0) as total from bucket where user_id = a.user_id and grant_key like 'given-back:%'
      ) g where p.total <> r.total - g.total`,
  },
  {
    invariant: "overage invoices equal the overage of closed periods plus the amount invoiced in this period",
    text: `select a.user_id, format('invoices %s cents, closed %s tokens, invoiced of this period %s cents', p.cents, a.overage_closed, b.cents) as detail
      from account a cross join lateral (
        select coalesce(sum(amount_cents), 0) as cents from payment where user_id = a.user_id and purpose = 'overage'
      ) p cross join lateral (
        select coalesce(sum(overage_invoiced_cents), 0) as cents from billing_account where user_id = a.user_id
      ) b where (p.cents - b.cents) * ${TOKENS_PER_CENT} <> a.overage_closed`,
  },
];
