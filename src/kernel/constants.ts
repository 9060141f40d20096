/**
 * Numbers that the contract promises, with their clauses (docs/contract.md), and a few others that several modules share.
 */

/** $1 = 625,000 tokens: contract 4.2. */
export const TOKENS_PER_USD = 625_000;
/** 1 US cent = 6,250 tokens: contract 5.6. */
export const TOKENS_PER_CENT = 6_250;
/** The length of the free trial: contract 5.9. */
export const TRIAL_DAYS = 14;
/** contract 5: what a trial starts with; the price of one dollar. */
export const TRIAL_TOKENS = 625_000;
/** Unused plan tokens roll over for up to 3 months: contract 9 (`rollover_months`). */
export const ROLLOVER_MONTHS = 3;
/** contract 5: top-up buckets, and grants without an expiry of their own, last 12 months. */
export const TOP_UP_MONTHS = 12;
/** contract 5: the least a top-up may cost; the most is what payment providers take at once. */
export const PURCHASE_CENTS = { min: 100, max: 99_999_999 } as const;
/** Overage of this amount is invoiced before the period ends, so that no user gets an unexpectedly large bill. */
export const OVERAGE_INVOICE_CENTS = 10_000;
/** contract 4: rates are kept in millionths of a billed token per raw token. */
export const RATE_SCALE = 1_000_000;
/** `days` of the usage query: contract 5.3. */
export const USAGE_DAYS = { default: 30, min: 1, max: 365 } as const;
/** contract 5.13: the used share of a balance, an overage cap or a key's budget that gives an alert, in per cent. */
export const ALERT_PERCENTS = [50, 80, 100] as const;
export type AlertPercent = (typeof ALERT_PERCENTS)[number];
/** contract 2.5: bounds of `limit` in lists, and its default in most of them. */
export const LIST_LIMIT = { default: 20, min: 1, max: 100 } as const;
/** contract 2: how long an idempotency key replays its first answer. */
export const IDEMPOTENCY_HOURS = 24;
/** contract 4.11.6: what an account may store of the Responses API within 24 hours. */
export const STORED_RESPONSES = { per_day: 20_000, bytes_per_day: 268_435_456 } as const;
/**
 * contract 9: defaults of `limits`. These are additions: fallback_after_seconds (the time that `auto` waits for one model),
 * session_requests_per_minute (the limit of signed-in browsers, separate from API keys), min_schedule_minutes (the least
 * time between two runs of a schedule) and trigger_requests_per_minute.
 */
export const LIMITS = {
  requests_per_minute: 600,
  session_requests_per_minute: 600,
  concurrent_runs_per_user: 10,
  concurrent_runs: 50,
  body_bytes: 4_194_304,
  /** Conversations with their images and files. */
  model_body_bytes: 16_777_216,
  fallback_after_seconds: 60,
  min_schedule_minutes: 5,
  /** Deliveries to one trigger. All triggers of a user have the user's requests_per_minute. */
  trigger_requests_per_minute: 120,
} as const;
/** contract 6.2.1: the most schedules of an agent. */
export const AGENT_SCHEDULES = 20;
/** contract 6.17: the most triggers of an agent; a delivery's body; how long deliveries are listed and recognized. */
export const TRIGGERS = {
  per_agent: 20,
  body_bytes: 262_144,
  kept_days: 7,
  recognized_days: 3,
  /** The age of a signed timestamp. */
  tolerance_seconds: 300,
} as const;
/**
 * contract 2.16: the most rows of a user that can be created without paying tokens, so that no user fills the disk. Far
 * more than people need: a reseller has many end users, and each of them may have opened a thread.
 */
export const USER_ROWS = {
  agents: 1_000,
  /** Keys that are neither revoked nor expired. Of the others, as many are kept. */
  api_keys: 1_000,
  secrets: 1_000,
  /** A thread with a turn is not counted: its model call was paid. */
  empty_threads: 10_000,
  /** Runs that wait for a decision. A further one fails. */
  waiting_runs: 1_000,
  /** Failed and cancelled runs. Older ones that cost nothing are deleted. */
  unpaid_runs: 10_000,
  end_user_budgets: 100_000,
  webhook_endpoints: 10,
  /** Purchases and choices of plans that were not paid: open ones of UNPAID_ORDER_HOURS, failed ones of FAILED_ORDER_HOURS. */
  unpaid_orders: 50,
} as const;
/** contract 5.15: what is kept of a user's failed requests, and how many of a kind each node records in a minute. */
export const FAILED_REQUESTS = { kept: 10_000, kept_days: 30, per_minute: 60 } as const;
/**
 * contract 2.16.1: what requests that cost nothing may store of a user in a day, so that no user of a free model fills the
 * disk. Each call itself leaves a small row, so requests_per_minute is its limit.
 */
export const FREE_DAY = {
  /** Runs, and the bytes of their steps. */
  runs: 10_000,
  run_bytes: 1_073_741_824,
  /** New values of labels, and the bytes of all labels. `account/ledger/sql/ledger_keep_labels.sql` has these numbers too. */
  label_values: 10_000,
  label_bytes: 67_108_864,
  /** Answers to requests with an Idempotency-Key: small ones, and the bytes of large ones. */
  small_answers: 20_000,
  small_answer_bytes: 8_192,
  large_answers_bytes: 268_435_456,
  /** Output items of the Responses API. */
  response_items: 20_000,
  response_item_bytes: 268_435_456,
  /** Deliveries to triggers, and the bytes of their bodies. */
  trigger_deliveries: 20_000,
  trigger_delivery_bytes: 268_435_456,
} as const;
/** contract 2.16: Stripe closes a checkout page that is not paid after a day. */
export const UNPAID_ORDER_HOURS = 24;
/** contract 2.16: an order that failed is over, but a declined card must not be tried without end. */
export const FAILED_ORDER_HOURS = 1;
/** contract 6.8.3: the latest versions of an agent that are kept, beside versions of unfinished runs. */
export const KEPT_VERSIONS = 50;
/** contract 2.16: the stored size of all kept versions of a user's agents. One version may have 4 MB. */
export const AGENT_BYTES = 268_435_456;
/** contract 6: defaults of an agent's `limits`. */
export const AGENT_LIMITS = {
  max_steps: 25,
  max_run_seconds: 900,
  max_cost_tokens_per_run: null,
  max_cost_tokens_per_month: null,
  max_consecutive_failures: 5,
} as const;
/** contract 6: the default of an agent's `approval_hours`. */
export const APPROVAL_HOURS = 24;
/** The most passages that the safety layer reports as removed, and as marked. */
export const MAX_REMOVED = 50;
/** The efforts of reasoning, in the words of the providers. A provider may lack some. */
export const REASONING_EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;

/** contract 6: an agent's `model_settings` that are not set. Null: as the model does by default. */
export const MODEL_SETTINGS = {
  temperature: null,
  top_p: null,
  reasoning_effort: null,
  max_output_tokens: null,
} as const;
/** Names of the days, Monday first: position + 1 is ISO 8601's number. */
export const WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"] as const;
export type Weekday = (typeof WEEKDAYS)[number];
/** The lifetime of a hold without a renewal. Then its model call counts as dead and the hold expires. */
export const HOLD_SECONDS = 120;
/**
 * contract 4.7.1, after a hang-up: how long a call is read on for its usage, where the model may reason or said nothing
 * for `silent_ms`, for other callers, and for other runs; and the thoughts per second of a model that reports none.
 * Reasoning models of 2026 generate 50 to 150 tokens per second.
 */
export const READ_ON = {
  thinking_ms: 30_000,
  silent_ms: 2_000,
  other_ms: 3_000,
  run_ms: 1_000,
  thoughts_per_second: 100,
} as const;
/** contract 3: the lifetimes of sessions and mailed links. */
export const SESSION_DAYS = 30;
/** contract 8.1.3: how long an operator's session works after a look at the password. */
export const OPERATOR_CONFIRMATION_MINUTES = 30;
export const SIGN_UP_LINK_HOURS = 24;
export const RESET_LINK_HOURS = 1;
/**
 * contract 1.5, SIGTERM: calls in flight have PURSER_DRAIN_SECONDS (`drain`). A run goes on elsewhere, so its step has at
 * most `runs`. Streams that are cut have `streams` to write their last event, and `exit` after that the process exits.
 */
export const SHUTDOWN_SECONDS = { drain: 120, runs: 25, streams: 10, exit: 5 } as const;

if (TOKENS_PER_CENT * 100 !== TOKENS_PER_USD) throw new Error("TOKENS_PER_CENT and TOKENS_PER_USD disagree");
