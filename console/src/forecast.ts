import { count } from "./format.ts";

/** The forecast uses the usage of the last week. */
const PACE_DAYS = 7;
const DAY_MS = 86_400_000;

export interface Forecast {
  days: number;
  /** What the number of days follows from. Of all expiries the profile has only the trial's. */
  why: string;
}

/**
 * How long the balance lasts at the rate of the last week, but never beyond the end of a trial. null: no usage, and no
 * trial with tokens.
 */
export function forecast(
  {
    token_balance,
    is_trial,
    trial_ends_at,
  }: { token_balance: number; is_trial: boolean; trial_ends_at: string | null },
  { daily_usage }: { daily_usage: readonly { cost_tokens: number }[] },
  now = Date.now(),
): Forecast | null {
  const week = daily_usage.slice(-PACE_DAYS);
  const spent = week.reduce((sum, { cost_tokens }) => sum + cost_tokens, 0);
  const spent_after = spent === 0 ? Number.POSITIVE_INFINITY : token_balance / (spent / week.length);
  const trial_ends_after =
    is_trial && token_balance > 0 && trial_ends_at !== null
      ? Math.max(0, Date.parse(trial_ends_at) - now) / DAY_MS
      : Number.POSITIVE_INFINITY;
  if (trial_ends_after < spent_after) return { days: trial_ends_after, why: "then the trial ends" };
  return spent === 0 ? null : { days: spent_after, why: "at the last week's rate, unless tokens expire first" };
}

/** "less than a day", "12 days", "over a year" */
export function daysInWords(days: number): string {
  if (days > 365) return "over a year";
  return days < 1 ? "less than a day" : count(Math.floor(days), "day");
}
