import { addDays } from "../../platform/lib/clock.ts";
import { type Instant, instantOf } from "../../platform/lib/instant.ts";

/** contract 3: a budget starts again with each interval. Days are UTC; weeks start on Monday. */
export const BUDGET_INTERVALS = ["day", "week", "month"] as const;
export type BudgetInterval = (typeof BUDGET_INTERVALS)[number];

/** The limits of a key, user or plan; null or absent: none. */
export interface Limits {
  requests_per_minute?: number | null | undefined;
  /** Raw tokens, input and output. */
  tokens_per_minute?: number | null | undefined;
  concurrent_runs?: number | null | undefined;
}

/** The limits of a user or a plan. */
export interface UserLimits extends Limits {
  /** Ids of models; null or absent: all. */
  allowed_models?: string[] | null | undefined;
}

/** What an API key may spend and use, and the labels of its request. Runs keep it from the request that started them. */
export interface KeyTerms {
  /** null for a person signed in to the console. */
  api_key_id: string | null;
  /** The key's budget in billed tokens, null for none. */
  key_budget_tokens: number | null;
  /** null or absent: the budget does not start again. */
  key_budget_interval?: BudgetInterval | null;
  /** Ids of models; null or absent: all. */
  allowed_models?: readonly string[] | null;
  key_limits?: Limits | null;
  /** The request's `user` and `metadata`, for its usage. */
  labels?: Readonly<Record<string, string>> | null;
}

/** Whether a list of allowed models has this one, by its id or UUID. null: it allows all. */
export function allows(allowed: readonly string[] | null | undefined, { id, uuid }: { id: string; uuid: string }) {
  return allowed == null || allowed.includes(id) || allowed.includes(uuid);
}

/** The caller of a model call. */
export type Payer = KeyTerms & { user_id: string };

/** The terms of a caller's key, without empty ones: runs store them. */
export function keyTermsOf(terms: KeyTerms): KeyTerms {
  const { api_key_id, key_budget_tokens, key_budget_interval, allowed_models, key_limits, labels } = terms;
  return {
    api_key_id,
    key_budget_tokens,
    ...(key_budget_interval == null ? {} : { key_budget_interval }),
    ...(allowed_models == null ? {} : { allowed_models }),
    ...(key_limits == null ? {} : { key_limits }),
    ...(labels == null ? {} : { labels }),
  };
}

export function payerOf(caller: Payer): Payer {
  return { user_id: caller.user_id, ...keyTermsOf(caller) };
}

/** The billed tokens of a key: of its whole life, and of the current interval of each kind. */
export interface KeySpend extends Record<BudgetInterval, number> {
  spent: number;
}

/** The billed tokens that count against a budget with this interval. `spend`: undefined before the first call. */
export function budgetUse(spend: KeySpend | undefined, interval: BudgetInterval | null): number {
  return spend?.[interval ?? "spent"] ?? 0;
}

/** The next start of an interval after `now`; null for a budget that does not start again. */
export function budgetResetsAt(interval: BudgetInterval | null, now: Instant): Instant | null {
  if (interval === null) return null;
  const today = Temporal.PlainDate.from(now.slice(0, 10));
  if (interval === "month") {
    return instantOf(today.with({ day: 1 }).add({ months: 1 }).toZonedDateTime("UTC").toInstant());
  }
  return addDays(`${today}T00:00:00.000Z`, interval === "day" ? 1 : 8 - today.dayOfWeek);
}
