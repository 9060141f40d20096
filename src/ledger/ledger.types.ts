import type { PaymentCode } from "../errors.ts";
import type { Instant, Sql, Tx } from "../platform/db.ts";

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
  /** The agent's cap on what its calls may cost from a day on, those in flight included; null or absent: none. */
  agent_budget?: AgentBudget | null;
  /** The worst case. */
  amount_tokens: number;
  /** The least that is of use: less than the worst case where max_tokens may be lowered, else the same. */
  minimum_tokens: number;
  /** What the worst case was made from, kept for `explain`. */
  estimate?: HoldEstimate;
  /** Done before anything is held, and also when that is refused. Where it does not agree, HoldSupersededError is thrown. */
  rider?: Rider;
}

/** `from_day`: YYYY-MM-DD, UTC. */
export interface AgentBudget {
  from_day: string;
  cap_tokens: number;
}

/** How a hold's amount came about: raw tokens, and the rates that they were taken at. */
export interface HoldEstimate extends ChargedRates {
  model: string;
  input_tokens: number;
  max_output_tokens: number;
  /** Set with the charge: its counts are estimated as well. */
  is_usage_estimated?: true;
}

/** Rates as a hold and its charge record them, in millionths of a billed token per raw token. */
export interface ChargedRates {
  input_rate_micro: number;
  output_rate_micro: number;
  /** Absent: cached input is billed at the input rate. */
  cached_input_rate_micro?: number;
  /** Names the whole price list that was in force. */
  price_version?: string;
}

export type HoldOutcome =
  | { status: "held"; hold_id: string; held_tokens: number }
  | {
      status: "refused";
      code: PaymentCode | "agent_budget_exceeded";
      /** unexpired remaining, holds deducted, and no more than what the key's budget leaves */
      available: number;
      held: number;
    };

/** The hold's rider did not agree: nothing is held. */
export class HoldSupersededError extends Error {
  readonly answer: RiderAnswer;
  constructor(answer: RiderAnswer) {
    super("what was to be done with a hold was refused, and so nothing is held");
    this.answer = answer;
  }
}

/** Raw tokens of one call in disjoint classes: `input_tokens` includes `cached_input_tokens`; reasoning is output. */
export interface TokenCounts {
  input_tokens: number;
  cached_input_tokens: number;
  output_tokens: number;
}

/**
 * What another module does in the transaction of a hold or a settle. The statement given to `createLedger` carries out the
 * riders of a batch. Where an answer is not `done`, nothing is held or charged, and a settle's hold is released.
 */
export interface Rider {
  /** What that statement tells riders apart by. */
  kind: string;
  argument: unknown;
}

export interface RiderAnswer {
  done: boolean;
  [more: string]: unknown;
}

/** What a call has come to: at its end, or so far. */
export interface Charge extends TokenCounts, ChargedRates {
  hold_id: string;
  request_id: string;
  user_id: string;
  api_key_id: string | null;
  agent_id: string | null;
  run_id: string | null;
  /** The model's id, as listed. */
  model: string;
  cost_tokens: number;
  /** Its key's budget, to tell when that is nearly spent; null or absent: none. */
  key_budget_tokens?: number | null;
  /** The provider reported no usable counts. */
  is_estimated?: boolean;
}

export interface SettleRequest extends Charge {
  rider?: Rider;
}

/** A call that lives: its hold's lease is renewed. With a charge, that is what an expiry would settle it as. */
export interface Progress {
  user_id: string;
  hold_id: string;
  charge: Charge | null;
}

/** cost = charged + overage + absorbed, always. */
export type SettleOutcome =
  | {
      status: "settled";
      cost_tokens: number;
      charged_tokens: number;
      overage_tokens: number;
      absorbed_tokens: number;
      /** true when this hold_id had been settled before: nothing was changed, and this is what was charged then. */
      replayed: boolean;
      /** What the rider answered; absent without one, or when it was replayed. */
      rider?: RiderAnswer;
    }
  | { status: "superseded" };

/** A threshold that was crossed: by a charge, or of the balance also by an expiry or a claw-back. */
export type Crossing = {
  user_id: string;
  /** The number of the entry that crossed it, or of the last of its charge. */
  seq: number;
  /** null: no charge did. */
  hold_id: string | null;
  percent: 50 | 80 | 100;
} & (
  | {
      kind: "balance";
      /** what the balance was after the last grant */
      granted_tokens: number;
      remaining_tokens: number;
    }
  | { kind: "overage"; cap_tokens: number; used_tokens: number }
  | { kind: "key_budget"; api_key_id: string; budget_tokens: number; spent_tokens: number }
);

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

/** Takes back what a payment had granted, or gives it back again. */
export interface Reversal {
  user_id: string;
  /** The bucket of the payment's grant; null: overage was paid for, which is used already. */
  bucket_id: string | null;
  /** Beside what was reversed before: partial refunds add up. No more than the bucket's grant is ever taken. */
  amount_tokens: number;
  /** What the ledger's line says. */
  reason: string;
  /** Unique business key: the same one reverses once, whether it takes or gives back. */
  key: string;
}

export interface ReversalOutcome {
  /** Less than asked for where the grant, or what had been taken of it, was less; or, of overage, where debt was. */
  reversed_tokens: number;
  /** Of these, what became debt, or what debt was let off. */
  debt_tokens: number;
}

export interface Overage {
  /** null: off. */
  cap_tokens: number | null;
  used_tokens: number;
  held_tokens: number;
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

/** One charge with all that it was made from: a settled call, or one that still holds. */
export interface ChargeRecord {
  hold_id: string;
  status: "open" | "settled";
  api_key_id: string | null;
  agent_id: string | null;
  run_id: string | null;
  /** null when the call was settled without a hold, or held without one. */
  estimate: HoldEstimate | null;
  /** null when it was gone by the time of the settle. */
  hold: { requested_tokens: number; held_tokens: number; overage_tokens: number; slices: Slice[] } | null;
  /** null while it is open. */
  charge: SettledCharge | null;
}

export interface Slice {
  bucket_id: string;
  tokens: number;
}

export interface SettledCharge extends TokenCounts {
  model: string;
  input_rate_micro: number;
  /** null: cached input was billed at the input rate. */
  cached_input_rate_micro: number | null;
  output_rate_micro: number;
  price_version: string | null;
  cost_tokens: number;
  charged_tokens: number;
  overage_tokens: number;
  absorbed_tokens: number;
  /** Its hold expired, and it was settled as what was last known of it. */
  from_progress: boolean;
  created_at: Instant;
  entries: Entry[];
}

/** One line of the daily usage. */
export interface UsageLine {
  date: string;
  model: string;
  agent_id: string | null;
  api_key_id: string | null;
  requests: number;
  input_tokens: number;
  cached_input_tokens: number;
  output_tokens: number;
  cost_tokens: number;
}

export interface UsageSummary {
  total_tokens_used: number;
  total_cost_tokens: number;
  daily_usage: { date: string; tokens: number; cost_tokens: number; requests: number }[];
  model_breakdown: { model_name: string; tokens: number; cost_tokens: number; requests: number }[];
  agent_breakdown: { agent_id: string | null; tokens: number; cost_tokens: number; requests: number }[];
  api_key_breakdown: { api_key_id: string | null; tokens: number; cost_tokens: number; requests: number }[];
}

/** One thing that must always hold: a query that yields the accounts which break it, as `user_id` and `detail`. */
export interface Invariant {
  invariant: string;
  text: string;
}

export interface AuditReport {
  ok: boolean;
  checked: Record<string, number>;
  violations: { invariant: string; account_id: string | null; detail: string }[];
}

/** The only writer of balances. Every method reads the domain's clock itself. */
/** The operations that every model call makes. */
export type ChargingLedger = Pick<Ledger, "hold" | "settle" | "release">;

export interface Ledger {
  /** Creates the account; with a trial, its bonus bucket, which ends with the trial. */
  openAccount(tx: Tx, account: { user_id: string; trial: { ends_at: Instant; tokens: number } | null }): Promise<void>;
  hold(request: HoldRequest): Promise<HoldOutcome>;
  settle(request: SettleRequest): Promise<SettleOutcome>;
  /** Lets a hold go uncharged; harmless when it is gone. */
  release(hold: { user_id: string; hold_id: string }): Promise<void>;
  /**
   * Renews the leases of calls that live, all in one statement, and notes how far they are. A hold whose lease runs out
   * is ended by a sweep: settled as what was last noted, or released when nothing was. A settle that comes after that
   * charges the rest.
   */
  progress(calls: Progress[]): Promise<void>;
  /** Without `tx`, `onGrant` is called before it resolves. With `tx`, call `notifyGrant` once that is committed. */
  grant(request: GrantRequest, tx?: Tx): Promise<Bucket>;
  /** Calls `onGrant` after the commit of a transaction of the caller that made a grant or allowed more overage. */
  notifyGrant(user_id: string): Promise<void>;
  /** Takes from the bucket what is unspent of it; what was spent becomes debt, which the next grant repays first. */
  clawBack(request: Reversal, tx?: Tx): Promise<ReversalOutcome>;
  /** Gives back what was clawed back of the bucket: debt is let off first, the rest returns to the bucket. */
  reinstate(request: Reversal, tx?: Tx): Promise<ReversalOutcome>;
  /** null turns overage off. A cap below what is used and held stands; nothing more is held until there is room. */
  setOverage(overage: { user_id: string; cap_tokens: number | null }, tx?: Tx): Promise<void>;
  /** With `tx`, locked until that ends. */
  overage(user_id: string, tx?: Tx): Promise<Overage>;
  /** Begins a new overage period with `carried_tokens` used; answers what the ended one came to. */
  closeOveragePeriod(period: { user_id: string; carried_tokens: number }, tx?: Tx): Promise<{ used_tokens: number }>;
  /** Accounts whose overage of this period has come to `used_tokens`; where none is allowed (any more), to `uncapped_tokens`. */
  overageFrom(used_tokens: number, uncapped_tokens?: number): Promise<{ user_id: string }[]>;
  standing(user_id: string): Promise<Standing>;
  buckets(
    user_id: string,
    page: { include_closed: boolean; limit: number; after: string | null },
  ): Promise<{ buckets: Bucket[]; total_remaining: number }>;
  entries(user_id: string, filter: EntryFilter, page: { limit: number; before_seq: number | null }): Promise<Entry[]>;
  /** All entries, oldest first, a part at a time. */
  allEntries(user_id: string, filter: EntryFilter): AsyncIterable<Entry[]>;
  usage(user_id: string, days: number): Promise<UsageSummary>;
  /** The lines that `usage` sums, oldest first, a part at a time. */
  usageLines(user_id: string, days: number): AsyncIterable<UsageLine[]>;
  /** The charges that carry this request id, newest first: callers may repeat theirs. */
  charges(user_id: string, request_id: string, limit: number): Promise<ChargeRecord[]>;
  keySpend(user_id: string): Promise<ReadonlyMap<string, number>>;
  /** Billed tokens by API key, of several users. */
  keySpends(user_ids: readonly string[], sql?: Sql): Promise<ReadonlyMap<string, number>>;
  /**
   * Of each account, how often there came something new to spend: a grant, a reinstatement, overage that was allowed,
   * raised or begun anew. Whoever found it empty waits for a higher number: it cannot be missed, whatever dies meanwhile.
   */
  refills(user_ids: readonly string[], sql?: Sql): Promise<ReadonlyMap<string, number>>;
  /**
   * Closes buckets past their expiry with an entry each, ends holds whose lease has run out, and tells of crossings.
   * Idempotent. Rejects with what failed, once all the rest is done.
   */
  sweep(): Promise<void>;
  /** A settle waits for a database that is away; from now on it tries once more, then rejects. */
  beginStop(): void;
  /** The next instant, up to `until`, at which a bucket expires or a trial ends; null if none. */
  nextDueAt(until: Instant): Promise<Instant | null>;
  audit(): Promise<AuditReport>;
}
