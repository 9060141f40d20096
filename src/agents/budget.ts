import type { Ledger } from "../ledger/ledger.types.ts";
import type { Instant } from "../platform/db.ts";
import type { AgentConfig } from "./agent-config.ts";

/**
 * Billed tokens that an agent's next model call may cost at most; null: no limit of its own. The month is the calendar
 * month in UTC, read from the ledger's daily sums.
 */
export async function budgetLeft(
  ledger: Pick<Ledger, "usage">,
  run: { user_id: string; agent_id: string; limits: AgentConfig["limits"]; spent_tokens: number; now: Instant },
): Promise<number | null> {
  const { max_cost_tokens_per_run: per_run, max_cost_tokens_per_month: per_month } = run.limits;
  const left: number[] = [];
  if (per_run !== null) left.push(per_run - run.spent_tokens);
  if (per_month !== null) left.push(per_month - (await monthSpend(ledger, run)));
  return left.length === 0 ? null : Math.max(0, Math.min(...left));
}

async function monthSpend(
  ledger: Pick<Ledger, "usage">,
  { user_id, agent_id, now }: { user_id: string; agent_id: string; now: Instant },
): Promise<number> {
  const day_of_month = Number(now.slice(8, 10));
  const { agent_breakdown } = await ledger.usage(user_id, day_of_month);
  return agent_breakdown.find((row) => row.agent_id === agent_id)?.cost_tokens ?? 0;
}
