import type { Instant } from "../platform/db.ts";

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

/** A model call in a list. */
export interface ChargedRequest {
  hold_id: string;
  request_id: string;
  model: string;
  agent_id: string | null;
  run_id: string | null;
  api_key_id: string | null;
  input_tokens: number;
  output_tokens: number;
  total_tokens: number;
  cost_tokens: number;
  created_at: Instant;
}
