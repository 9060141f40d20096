import type { BudgetInterval } from "../../api/contract/key-terms.ts";

/** One line of the daily usage. */
export interface UsageLine {
  date: string;
  model: string;
  agent_id: string | null;
  api_key_id: string | null;
  requests: number;
  input_tokens: number;
  cached_input_tokens: number;
  cache_write_tokens: number;
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

/** `user`, and `metadata.{name}`, as the request gave them. */
export type Labels = Readonly<Record<string, string>>;

export interface UsageGrouping {
  /** model, day, user, or metadata.{name} */
  group_by: string;
  days: number;
  limit: number;
  /** The cost and value of the last group of the page before. */
  after: { cost_tokens: number; value: string } | null;
}

/** The sums of one model, day, end user or value of a name. */
export interface UsageGroup {
  value: string;
  tokens: number;
  cost_tokens: number;
  requests: number;
}

/** What the usage of a window is summed by. */
export type UsageDimension = "model" | "agent" | "api_key" | "user" | `metadata.${string}`;

/** The calls that count. A null id: those without an agent or a key. `labels`: all of these pairs. */
export interface UsageFilter {
  model?: string | undefined;
  agent_id?: string | null | undefined;
  api_key_id?: string | null | undefined;
  labels: Labels;
}

export interface BreakdownRequest {
  /** The first UTC day, and the one after the last: `2026-03-01`. */
  from: string;
  to: string;
  /** One or two. */
  dimensions: readonly UsageDimension[];
  filter: UsageFilter;
  /** Groups beyond this many are summed. */
  limit: number;
}

/** What calls used and cost. */
export interface UsageFigures {
  cost_tokens: number;
  tokens: number;
  requests: number;
}

/** Figures with those of each day that has any, oldest first. */
export interface UsageSeries extends UsageFigures {
  daily: (UsageFigures & { date: string })[];
}

export interface UsageBreakdown {
  /** Later than asked if the calls before it are archived, and the daily sums lack a dimension. */
  from: string;
  total: UsageSeries;
  /** The highest cost first. `values` has one for each dimension; null: calls without an agent, key, user or this name. */
  groups: (UsageSeries & { values: (string | null)[] })[];
  /** The sum of the groups beyond the limit, and how many these are. */
  other: (UsageSeries & { groups: number }) | null;
}

/** The budget of an end user, with the billed tokens of its current interval. */
export interface EndUserBudget {
  user: string;
  budget_tokens: number;
  budget_interval: BudgetInterval | null;
  budget_used_tokens: number;
}
