import type { UsageSummary } from "./api/queries.ts";
import { count } from "./format.ts";

/** The forecast uses the usage of the last week. */
const PACE_DAYS = 7;

/** Days until the balance is spent at the rate of the last week; null: no usage. */
export function daysLeft(balance: number, { daily_usage }: UsageSummary): number | null {
  const week = daily_usage.slice(-PACE_DAYS);
  const spent = week.reduce((sum, { cost_tokens }) => sum + cost_tokens, 0);
  return spent === 0 ? null : balance / (spent / week.length);
}

/** "less than a day", "12 days", "over a year" */
export function daysInWords(days: number): string {
  if (days > 365) return "over a year";
  return days < 1 ? "less than a day" : count(Math.floor(days), "day");
}
