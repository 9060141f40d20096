import type { BudgetInterval, KeySpend } from "../../api/contract/key-terms.ts";
import type { ModelApi } from "../../api/contract/model-apis.ts";
import type { AlertPercent } from "../../kernel/constants.ts";
import type { Sql, Tx } from "../../platform/db/db.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { Adjustments, Reversal, ReversalOutcome } from "./adjustment.types.ts";
import type { EndUsers } from "./end-users.store.ts";
import type { PaymentCode } from "./errors.ts";
import type {
  BreakdownRequest,
  Labels,
  UsageBreakdown,
  UsageGroup,
  UsageGrouping,
  UsageLine,
  UsageSummary,
} from "./usage.types.ts";

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
  closed_reason: "spent" | "expired" | "clawed_back" | "closed" | null;
}

/** A request to reserve the worst-case cost of a model call before the call. All amounts are billed tokens. */
export interface HoldRequest {
  /**
   * Identifies the charge permanently: the caller's `newId()`, or the recorded id of a run step. A second hold or
   * settle with the same id changes nothing.
   */
  hold_id: string;
  /**
   * The HTTP request's id as the user saw it (X-Request-Id): a label to find the charge. NOT unique, since callers may
   * repeat it.
   */
  request_id: string;
  user_id: string;
  api_key_id: string | null;
  /** The key's budget, or null for none, counted from the start of the interval. The ledger records the key's use. */
  key_budget_tokens: number | null;
  key_budget_interval?: BudgetInterval | null;
  labels?: Labels;
  agent_id: string | null;
  run_id: string | null;
  /** A cap on the cost of the agent's calls from a given day, calls in flight included. null or absent: no cap. */
  agent_budget?: AgentBudget | null;
  /** The worst case. */
  amount_tokens: number;
  /** The smallest useful hold. It is below the worst case if max_tokens may be lowered, otherwise the same. */
  minimum_tokens: number;
  /** The inputs of the worst case, kept for `explain`. */
  estimate?: HoldEstimate;
  /** Runs before the hold, also when it is refused. If its answer is not `done`, HoldSupersededError is thrown. */
  hook?: TransactionHook;
}

/** A cap on the cost of an agent's calls. `from_day`: YYYY-MM-DD, UTC. */
export interface AgentBudget {
  from_day: string;
  cap_tokens: number;
}

/** The inputs of a hold's amount: raw tokens and the dearest rates that they can reach. */
export interface HoldEstimate extends ChargedRates {
  model: string;
  input_tokens: number;
  max_output_tokens: number;
  /** Set with the charge if the charge's counts are estimates too. */
  is_usage_estimated?: true;
}

/** The rates of a hold and its charge, in millionths of a billed token per raw token. */
export interface ChargedRates {
  input_rate_micro: number;
  output_rate_micro: number;
  /** Absent: cached input is billed at the input rate. */
  cached_input_rate_micro?: number;
  /** Absent: input that is written to the cache is billed at the input rate. */
  cache_write_rate_micro?: number;
  /** Absent: input that the cache keeps for an hour is billed as other cache writes. */
  cache_write_1h_rate_micro?: number;
  /** Identifies the whole price list in force at that time. */
  price_version?: string;
}

export type HoldOutcome =
  | { status: "held"; hold_id: string; held_tokens: number }
  | {
      status: "refused";
      code: PaymentCode | "agent_budget_exceeded";
      /** Unexpired remaining tokens minus holds and the rest of the overage cap, at most what is left of the budgets. */
      available: number;
      held: number;
    };

export class HoldSupersededError extends Error {
  readonly answer: TransactionHookAnswer;
  constructor(answer: TransactionHookAnswer) {
    super("the transaction hook rejected the hold; no tokens are held");
    this.answer = answer;
  }
}

/** Raw tokens of one call. Cached and written input are disjoint parts of the input; reasoning counts as output. */
export interface TokenCounts {
  input_tokens: number;
  cached_input_tokens: number;
  cache_write_tokens: number;
  /** The part of `cache_write_tokens` that the cache keeps for an hour. */
  cache_write_1h_tokens: number;
  output_tokens: number;
}

/**
 * Work of another module in the transaction of a hold or a settle. The statement given to `createLedger` carries out
 * the hooks of a batch. If an answer is not `done`, nothing is held or charged, and a settle's hold is released.
 */
export interface TransactionHook {
  /** The type of work, for that statement. */
  kind: string;
  argument: unknown;
}

export interface TransactionHookAnswer {
  done: boolean;
  [more: string]: unknown;
}

/** The usage and cost of a call: final, or so far. */
export interface Charge extends TokenCounts, ChargedRates {
  hold_id: string;
  request_id: string;
  user_id: string;
  api_key_id: string | null;
  agent_id: string | null;
  run_id: string | null;
  /** The model's id, as in the list of models. */
  model: string;
  cost_tokens: number;
  /** What the provider charges the operator; null: its prices are unknown. */
  upstream_cost_micro_usd: number | null;
  /** The budget of its key, for threshold alerts. null or absent: no budget. */
  key_budget_tokens?: number | null;
  key_budget_interval?: BudgetInterval | null;
  labels?: Labels;
  /** The provider reported no usable counts. */
  is_estimated?: boolean;
  /** For the request log. Absent: a run called the model. */
  api?: ModelApi | null;
  duration_ms?: number;
  first_token_ms?: number;
}

export interface SettleRequest extends Charge {
  hook?: TransactionHook;
}

/** A running call; its hold's lease is renewed. If the lease expires, the hold is settled at `charge`. */
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
      /** true: this hold_id was settled before. Nothing changed, and these are the amounts of the earlier charge. */
      replayed: boolean;
      /** The hook's answer; absent without a hook, or if the settle was replayed. */
      hook?: TransactionHookAnswer;
    }
  | { status: "superseded" };

/** A crossed threshold. A charge crosses it; an expiry or a claw-back can also cross a threshold of the balance. */
export type Crossing = {
  user_id: string;
  /** The number of the entry that crossed it; for a charge, the number of its last entry. */
  seq: number;
  /** null: no charge crossed it. */
  hold_id: string | null;
  percent: AlertPercent;
} & (
  | {
      kind: "balance";
      /** The balance after the last grant. */
      granted_tokens: number;
      remaining_tokens: number;
    }
  | { kind: "overage"; cap_tokens: number; used_tokens: number }
  | { kind: "key_budget"; api_key_id: string; budget_tokens: number; spent_tokens: number }
);

export interface AccountStatus {
  /** The remaining tokens of all unexpired buckets. */
  posted: number;
  held: number;
  /** posted − held of unexpired buckets; never below 0. */
  available: number;
  debt: number;
  trial_ends_at: Instant | null;
  /** true: the trial has not ended and the user has bought nothing. */
  is_trial: boolean;
  /** The code with which a request would be refused now, or null. */
  refusal: PaymentCode | null;
}

export interface GrantRequest {
  user_id: string;
  amount_tokens: number;
  source: GrantSource;
  granted_at: Instant;
  expires_at: Instant;
  note: string | null;
  /** The unique business key of the grant (a payment, a subscription period). Each key grants once. */
  grant_key?: string;
}

/** A balance below which something happens. */
export interface BalanceThreshold {
  user_id: string;
  threshold_tokens: number;
}

export interface Overage {
  /** null: overage is off. */
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
  /** The charge that caused the entry; part of the hash. Several entries may share one charge. */
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

/** The operator's reason of an adjustment, or note of a grant, until the user is erased. The hash does not cover it. */
export interface ReasonedEntry extends Entry {
  reason: string | null;
}

export interface EntryFilter {
  type?: Entry["type"] | undefined;
  run_id?: string | undefined;
  /** The call. */
  hold_id?: string | undefined;
  agent_id?: string | undefined;
  from?: Instant | undefined;
  to?: Instant | undefined;
}

/** Entries of one run, of one call without a run, or one entry alone: those that match the filter of the list. */
export interface EntryGroup {
  entries: number;
  /** What they moved the balance by: the sum of their amounts without overage and absorbed tokens. */
  moved_tokens: number;
  overage_tokens: number;
  absorbed_tokens: number;
  first_at: Instant;
  newest: Entry;
}

/** The place in a list of groups: they are those of the entries up to `as_of`, and the next ones have their newest entry before `before_seq`. */
export interface GroupsPlace {
  as_of: number;
  before_seq: number | null;
}

/** An open hold. */
export interface OpenHold {
  hold_id: string;
  request_id: string;
  api_key_id: string | null;
  agent_id: string | null;
  run_id: string | null;
  end_user: string | null;
  /** Held tokens of the balance, and of overage. */
  held_tokens: number;
  overage_tokens: number;
  /** Real time, also while a test clock is stopped. */
  since: Instant;
}

/** One charge with all its inputs: a settled call, or a call with an open hold. */
export interface ChargeRecord {
  hold_id: string;
  status: "open" | "settled";
  api_key_id: string | null;
  agent_id: string | null;
  run_id: string | null;
  /** null: the call was settled without a hold, or its hold had no estimate. */
  estimate: HoldEstimate | null;
  /** null: the hold had ended before the settle. */
  hold: { requested_tokens: number; held_tokens: number; overage_tokens: number; slices: Slice[] } | null;
  /** null while the hold is open. */
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
  /** null: cache writes were billed at the input rate. */
  cache_write_rate_micro: number | null;
  /** null: writes for an hour were billed as other cache writes. */
  cache_write_1h_rate_micro: number | null;
  output_rate_micro: number;
  price_version: string | null;
  cost_tokens: number;
  charged_tokens: number;
  overage_tokens: number;
  absorbed_tokens: number;
  /** true: the hold expired, and it was settled at its last progress. */
  from_progress: boolean;
  created_at: Instant;
  entries: Entry[];
}

/** A rule that must always be true. The query returns the accounts that break it, as `user_id` and `detail`. */
export interface Invariant {
  invariant: string;
  text: string;
}

export interface AuditReport {
  ok: boolean;
  checked: Record<string, number>;
  violations: { invariant: string; account_id: string | null; detail: string }[];
}

/** The operations of every model call. */
export type ChargingLedger = Pick<Ledger, "hold" | "settle" | "release">;

/** The only writer of balances. Every method reads the domain's clock itself. */
export interface Ledger extends Adjustments {
  /** Creates the account. With a trial, it also creates a bonus bucket that expires with the trial. */
  openAccount(tx: Tx, account: { user_id: string; trial: { ends_at: Instant; tokens: number } | null }): Promise<void>;
  hold(request: HoldRequest): Promise<HoldOutcome>;
  settle(request: SettleRequest): Promise<SettleOutcome>;
  /** Ends a hold without a charge. Does nothing if the hold has ended. */
  release(hold: { user_id: string; hold_id: string }): Promise<void>;
  /**
   * Renews the leases of running calls and stores their progress, in one statement. A sweep ends a hold whose lease has
   * expired: it settles the hold at its last progress, or releases it without one. A later settle charges the rest.
   */
  progress(calls: Progress[]): Promise<void>;
  /** The ids of those agents that a charge names. */
  chargedAgents(agents: readonly { user_id: string; agent_id: string }[]): Promise<ReadonlySet<string>>;
  /** Without `tx`, it notifies the grant before it resolves. With `tx`, the caller calls `notifyGrant` after the commit. */
  grant(request: GrantRequest, tx?: Tx): Promise<Bucket>;
  /** Subscribes to refills, after their commit. A crash loses the event, so `refills` is authoritative. */
  onGrant(listener: (user_id: string) => Promise<void>): void;
  /** Calls the listeners. Call it after the commit of your transaction that made a grant or allowed more overage. */
  notifyGrant(user_id: string): Promise<void>;
  /** Takes the unspent tokens from the bucket. Spent tokens become debt, and the next grant repays it first. */
  clawBack(request: Reversal, tx?: Tx): Promise<ReversalOutcome>;
  /** Returns clawed-back tokens of the bucket. They reduce debt first; the rest returns to the bucket. */
  reinstate(request: Reversal, tx?: Tx): Promise<ReversalOutcome>;
  /** The bucket, or undefined. */
  bucket(user_id: string, bucket_id: string): Promise<Bucket | undefined>;
  /** null turns overage off. A cap may be below the used and held overage: no more is held until the cap allows it. */
  setOverage(overage: { user_id: string; cap_tokens: number | null }, tx?: Tx): Promise<void>;
  /** With `tx`, locks the account until the transaction ends. */
  overage(user_id: string, tx?: Tx): Promise<Overage>;
  /** Begins a new overage period with `carried_tokens` used. Returns the overage used in the ended period. */
  closeOveragePeriod(period: { user_id: string; carried_tokens: number }, tx?: Tx): Promise<{ used_tokens: number }>;
  /** Accounts with at least `used_tokens` of overage in this period, or `uncapped_tokens` if their overage is off. */
  accountsWithOverage(used_tokens: number, uncapped_tokens?: number): Promise<{ user_id: string }[]>;
  /** The accounts whose balance, holds not deducted, is below their threshold. */
  accountsBelow(thresholds: readonly BalanceThreshold[], tx?: Tx): Promise<{ user_id: string }[]>;
  accountStatus(user_id: string): Promise<AccountStatus>;
  buckets(
    user_id: string,
    page: { include_closed: boolean; limit: number; after: string | null },
  ): Promise<{ buckets: Bucket[]; total_remaining: number }>;
  entries(user_id: string, filter: EntryFilter, page: { limit: number; before_seq: number | null }): Promise<Entry[]>;
  /** The number of the user's last entry; 0 without any. */
  lastSeq(user_id: string): Promise<number>;
  entryGroups(user_id: string, filter: EntryFilter, page: GroupsPlace & { limit: number }): Promise<EntryGroup[]>;
  /** The holds of a user's calls, newest first. */
  userHolds(user_id: string, page: { limit: number; before_id: string | null }): Promise<OpenHold[]>;
  /** All entries, oldest first, in pages. */
  allEntries(user_id: string, filter: EntryFilter): AsyncIterable<ReasonedEntry[]>;
  /** Entries and usage events of before this instant are in files of the operator. Null: none are. */
  archivedBefore(user_id: string): Promise<Instant | null>;
  usage(user_id: string, days: number): Promise<UsageSummary>;
  readonly end_users: EndUsers;
  /** The sums by one dimension, the highest cost first. */
  usageGroups(user_id: string, by: UsageGrouping): Promise<UsageGroup[]>;
  /** The usage of a window by day and by one or two dimensions. Throws 400 if it would read too many calls. */
  usageBreakdown(user_id: string, request: BreakdownRequest): Promise<UsageBreakdown>;
  /** The names of metadata that calls of these days have, at most 100. */
  metadataNames(user_id: string, window: { from: string; to: string }): Promise<string[]>;
  /** The lines that `usage` sums, oldest first, in pages. */
  usageLines(user_id: string, days: number): AsyncIterable<UsageLine[]>;
  /** The charges with this request id, newest first. Callers may repeat a request id. */
  charges(user_id: string, request_id: string, limit: number): Promise<ChargeRecord[]>;
  /** The billed tokens of these API keys of these users, by key. */
  keySpends(
    keys: { user_ids: readonly string[]; ids: readonly string[] },
    sql?: Sql,
  ): Promise<ReadonlyMap<string, KeySpend>>;
  /**
   * The refill count of each account: grants, reinstatements, overage turned on or raised, new overage periods. A
   * caller that found the account empty waits for a higher number; a crash cannot lose it.
   */
  refills(user_ids: readonly string[], sql?: Sql): Promise<ReadonlyMap<string, number>>;
  /**
   * Closes expired buckets with an entry each, ends holds whose lease has expired, and notifies crossings. Idempotent.
   * Rejects with the failures after all other work is done.
   */
  sweep(): Promise<void>;
  /** A settle waits for an unavailable database. After this call, it tries once more and then rejects. */
  beginStop(): void;
  /** Open holds of all accounts, counted up to 20,000. */
  openHolds(): Promise<number>;
  /** The next instant, up to `until`, when a bucket expires or a trial ends; null if none. */
  nextDueAt(until: Instant): Promise<Instant | null>;
  audit(): Promise<AuditReport>;
}
