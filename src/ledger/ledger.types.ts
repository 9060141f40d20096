import type { PaymentCode } from "../errors.ts";
import type { Instant, Tx } from "../platform/db.ts";

/** Where a bucket's tokens came from. */
export type GrantSource = "subscription" | "top_up" | "bonus";

export interface Bucket {
  id: string;
  source: GrantSource;
  original_amount: number;
  remaining: number;
  held: number;
  granted_at: Instant;
  expires_at: Instant;
  note: string | null;
  closed_reason: "spent" | "expired" | "clawed_back" | null;
}

/** What a model call may cost at worst, asked for before it is made. All amounts are billed tokens. */
export interface HoldRequest {
  /**
   * Names the charge for ever (`newId()` of whoever asks, or a run step's recorded id): a second hold or settle with
   * it changes nothing.
   */
  hold_id: string;
  /** The HTTP request's id as the user saw it (X-Request-Id): a label to find the charge by, NOT unique, since callers may repeat theirs. */
  request_id: string;
  user_id: string;
  api_key_id: string | null;
  /** The key's budget, or null for none; the ledger keeps what the key has spent and holds. */
  key_budget_tokens: number | null;
  agent_id: string | null;
  run_id: string | null;
  /** The worst case. */
  amount_tokens: number;
  /** The least that is of use: less than the worst case where max_tokens may be lowered, else the same. */
  minimum_tokens: number;
}

export type HoldOutcome =
  | { status: "held"; hold_id: string; held_tokens: number }
  | {
      status: "refused";
      code: PaymentCode;
      /** unexpired remaining, holds deducted, and no more than what the key's budget leaves */
      available: number;
      held: number;
    };

/** Raw tokens of one call in disjoint classes: `input_tokens` includes `cached_input_tokens`; reasoning is output. */
export interface TokenCounts {
  input_tokens: number;
  cached_input_tokens: number;
  output_tokens: number;
}

/** One SQL function of another room, run in the transaction of the settle. It must be `(jsonb) returns boolean`; false undoes the settle and releases the hold. */
export interface Rider {
  procedure: string;
  argument: unknown;
}

export interface SettleRequest extends TokenCounts {
  hold_id: string;
  request_id: string;
  user_id: string;
  api_key_id: string | null;
  agent_id: string | null;
  run_id: string | null;
  /** The model's id, as listed. */
  model: string;
  cost_tokens: number;
  /** Millionths of a billed token per raw token, kept for `explain`. */
  input_rate_micro: number;
  output_rate_micro: number;
  /** Absent: cached input was billed at the input rate. */
  cached_input_rate_micro?: number;
  rider?: Rider;
}

/** cost = charged + overage + absorbed, always. */
export type SettleOutcome =
  | {
      status: "settled";
      cost_tokens: number;
      charged_tokens: number;
      overage_tokens: number;
      absorbed_tokens: number;
      /** true when this hold_id had been settled before: nothing was changed. */
      replayed: boolean;
    }
  | { status: "superseded" };

export interface Standing {
  /** Σ remaining of unexpired buckets. */
  posted: number;
  held: number;
  /** posted − held of unexpired buckets, never below 0. */
  available: number;
  debt: number;
  trial_ends_at: Instant | null;
  /** The trial runs now: it has not ended and nothing was bought. */
  is_trial: boolean;
  /** Why a request would be refused now, or null. */
  refusal: PaymentCode | null;
}

export interface GrantRequest {
  user_id: string;
  amount_tokens: number;
  source: GrantSource;
  granted_at: Instant;
  expires_at: Instant;
  note: string | null;
  /** Unique business key of the grant (a payment, a subscription period): the same one grants once. */
  grant_key?: string;
}

export interface Entry {
  id: string;
  seq: number;
  type: "grant" | "usage" | "expiry" | "refund" | "clawback" | "overage" | "absorbed" | "adjustment";
  amount: number;
  balance_after: number;
  bucket_id: string | null;
  /** The charge that caused it, in the hash; several entries may share one. */
  hold_id: string | null;
  source: GrantSource | null;
  model: string | null;
  agent_id: string | null;
  run_id: string | null;
  request_id: string | null;
  api_key_id: string | null;
  description: string;
  created_at: Instant;
  hash: string;
}

export interface EntryFilter {
  type?: Entry["type"] | undefined;
  run_id?: string | undefined;
  agent_id?: string | undefined;
  from?: Instant | undefined;
  to?: Instant | undefined;
}

export interface UsageSummary {
  total_tokens_used: number;
  total_cost_tokens: number;
  daily_usage: { date: string; tokens: number; cost_tokens: number; requests: number }[];
  model_breakdown: { model_name: string; tokens: number; cost_tokens: number; requests: number }[];
  agent_breakdown: { agent_id: string | null; tokens: number; cost_tokens: number; requests: number }[];
  api_key_breakdown: { api_key_id: string | null; tokens: number; cost_tokens: number; requests: number }[];
}

export interface AuditReport {
  ok: boolean;
  checked: Record<string, number>;
  violations: { invariant: string; account_id: string | null; detail: string }[];
}

/** The only writer of balances. Every method reads the domain's clock itself. */
export interface Ledger {
  /** Creates the account; with a trial, its bonus bucket, which ends with the trial. */
  openAccount(tx: Tx, account: { user_id: string; trial: { ends_at: Instant; tokens: number } | null }): Promise<void>;
  hold(request: HoldRequest): Promise<HoldOutcome>;
  settle(request: SettleRequest): Promise<SettleOutcome>;
  /** Lets a hold go uncharged; harmless when it is gone. */
  release(hold: { user_id: string; hold_id: string }): Promise<void>;
  /** Without `tx`, subscribers are told before it resolves. With `tx`, call `notifyGrant` once that is committed. */
  grant(request: GrantRequest, tx?: Tx): Promise<Bucket>;
  /** Tells the subscribers of `onGrant` that a grant made in a transaction of the caller's is committed. */
  notifyGrant(user_id: string): Promise<void>;
  standing(user_id: string): Promise<Standing>;
  buckets(
    user_id: string,
    page: { include_closed: boolean; limit: number; after: string | null },
  ): Promise<{ buckets: Bucket[]; total_remaining: number }>;
  entries(user_id: string, filter: EntryFilter, page: { limit: number; before_seq: number | null }): Promise<Entry[]>;
  usage(user_id: string, days: number): Promise<UsageSummary>;
  keySpend(user_id: string): Promise<Map<string, number>>;
  /** Subscribes to grants, after they are committed: a paused schedule resumes by this. */
  onGrant(listener: (user_id: string) => Promise<void>): void;
  /** Closes buckets past their expiry with an entry each, and lets dead holds go. Idempotent. */
  sweep(): Promise<void>;
  /** The next instant, up to `until`, at which a bucket expires or a trial ends; null if none. */
  nextDueAt(until: Instant): Promise<Instant | null>;
  audit(): Promise<AuditReport>;
}
