import type { CompletionCall } from "../completions/completions.types.ts";
import type { Instant } from "../platform/db.ts";
import type { AgentConfig } from "./agent-config.ts";

/**
 * What an agent's next model call may cost by its own caps, in billed tokens. What is left of the run is known here:
 * its calls go one after the other. What is left of the month, which other runs of the agent spend from at the same
 * time, the ledger works out when it holds. The month is the calendar month in UTC.
 */
export function budgetOf(
  { max_cost_tokens_per_run: per_run, max_cost_tokens_per_month: per_month }: AgentConfig["limits"],
  { spent_tokens, now }: { spent_tokens: number; now: Instant },
): Pick<CompletionCall, "max_cost_tokens" | "agent_budget"> {
  return {
    max_cost_tokens: per_run === null ? null : Math.max(0, per_run - spent_tokens),
    agent_budget: per_month === null ? null : { from_day: `${now.slice(0, 7)}-01`, cap_tokens: per_month },
  };
}
