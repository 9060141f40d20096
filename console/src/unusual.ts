import { TOKENS_PER_CENT } from "../../src/kernel/constants.ts";
import type { Run, UsageSummary } from "./api/queries.ts";
import { REPLAY_OF } from "./run-words.ts";

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

type CostOfRun = Pick<Run, "agent_version" | "trigger" | "metadata" | "queued_at"> & {
  usage: Pick<Run["usage"], "cost_tokens">;
};
const sumOf = (runs: readonly CostOfRun[]) => runs.reduce((sum, { usage }) => sum + usage.cost_tokens, 0);

/**
 * The version since which runs cost more: no run of it or of a later one is older than the day `since`, they made most of
 * the cost since then, and on average each cost at least twice as much as any run of the versions before. null: the figures
 * blame none, for example because there are only more runs.
 */
export function dearerVersion(runs: readonly CostOfRun[], since: string): number | null {
  // A test runs a draft, which is no version, and a replay another model than the version's.
  const charged = runs.filter(
    ({ trigger, metadata, usage }) =>
      trigger !== "test" && metadata?.[REPLAY_OF] === undefined && usage.cost_tokens > 0,
  );
  const recent_cost = sumOf(charged.filter(({ queued_at }) => queued_at >= since));
  const versions = [...new Set(charged.map(({ agent_version }) => agent_version))].toSorted(
    (one, other) => one - other,
  );
  const isToBlame = (version: number) => {
    const own = charged.filter(({ agent_version }) => agent_version >= version);
    const before = charged.filter(({ agent_version }) => agent_version < version).map(({ usage }) => usage.cost_tokens);
    return (
      before.length > 0 &&
      own.every(({ queued_at }) => queued_at >= since) &&
      sumOf(own) > recent_cost / 2 &&
      sumOf(own) / own.length >= DEARER_TIMES * Math.max(...before)
    );
  };
  return versions.findLast(isToBlame) ?? null;
}
