import { TOKENS_PER_CENT } from "../../src/kernel/constants.ts";
import type { Run, UsageSummary } from "./api/queries.ts";

/** Agents that cost more than usual, and the version that made them. */

/** The spend of the last days is compared with that of the days before. */
export const RECENT_DAYS = 2;
export const LONGER_DAYS = 9;
const UNUSUAL_TIMES = 3;
/** How much more than each run before a run of the version to blame costs. */
const DEARER_TIMES = 2;

export interface UnusualAgent {
  id: string;
  name: string;
  times: number;
}

/** Agents that spend several times as much each day as in the week before. */
export function unusualAgents(recent: UsageSummary, longer: UsageSummary): UnusualAgent[] {
  const whole = new Map(longer.agent_breakdown.map(({ agent_id, cost_tokens }) => [agent_id, cost_tokens]));
  return recent.agent_breakdown.flatMap(({ agent_id, agent_name, cost_tokens }) => {
    const usual = ((whole.get(agent_id) ?? 0) - cost_tokens) / (LONGER_DAYS - RECENT_DAYS);
    const times = usual === 0 ? 0 : cost_tokens / RECENT_DAYS / usual;
    if (agent_id === null || times < UNUSUAL_TIMES || cost_tokens < TOKENS_PER_CENT) return [];
    return [{ id: agent_id, name: agent_name ?? "An agent", times }];
  });
}

type CostOfRun = Pick<Run, "agent_version" | "trigger" | "queued_at"> & { usage: Pick<Run["usage"], "cost_tokens"> };

/**
 * The version since which runs cost more: its first run was on the day `since` or later, and on average its runs cost at
 * least twice as much as any run of the versions before. null: the figures blame none, because runs of an older version
 * cost as much or there are only more runs.
 */
export function dearerVersion(runs: readonly CostOfRun[], since: string): number | null {
  // A test runs a draft, which is no version.
  const charged = runs.filter(({ trigger, usage }) => trigger !== "test" && usage.cost_tokens > 0);
  const versions = [...new Set(charged.map(({ agent_version }) => agent_version))].toSorted(
    (one, other) => one - other,
  );
  const isToBlame = (version: number) => {
    const own = charged.filter(({ agent_version }) => agent_version === version);
    const before = charged.filter(({ agent_version }) => agent_version < version).map(({ usage }) => usage.cost_tokens);
    const average = own.reduce((sum, { usage }) => sum + usage.cost_tokens, 0) / own.length;
    return (
      before.length > 0 &&
      own.every(({ queued_at }) => queued_at >= since) &&
      average >= DEARER_TIMES * Math.max(...before)
    );
  };
  return versions.find(isToBlame) ?? null;
}
