import type { RunDetail } from "../../src/api/contract/runs.ts";
import type { Loss } from "./nodes.ts";
import type { Told } from "./read.ts";
import { answerOf, type ModelCall } from "./scripted-model.ts";
import type { Delivery } from "./site.ts";

/** The longest pause of a run after a kill. */
const MAX_RECOVERY_MS = 90_000;

/** Times from a kill to the next activity of the dead node's runs, ascending; and runs that took too long. */
export interface Recoveries {
  ms: number[];
  problems: string[];
}

/**
 * Activities are model calls and webhooks. A kill between a run's claim and its first call shows none; the run's
 * `attempt` counts it, and it is allowed its own recovery.
 */
export function recoveries(evidence: {
  calls: readonly ModelCall[];
  deliveries: readonly Delivery[];
  losses: readonly Loss[];
  told: readonly Told[];
}): Recoveries {
  const found: Recoveries = { ms: [], problems: [] };
  const by_label = Map.groupBy(evidence.calls, ({ label }) => label);
  for (const { agent, runs } of evidence.told) {
    const calls = by_label.get(agent.label) ?? [];
    for (const run of runs) {
      const mine = callsOf(run, calls);
      const hooks = evidence.deliveries.filter(({ headers }) => headers["webhook-id"]?.startsWith(`msg_${run.id}_`));
      const took = interruptions(mine, hooks, evidence.losses);
      found.ms.push(...took);
      const unseen = Math.max(0, run.attempt - 1 - took.length);
      for (const ms of took) {
        if (ms > MAX_RECOVERY_MS * (1 + unseen)) {
          found.problems.push(`run ${run.id} of ${agent.label} stood still for ${ms} ms after a kill`);
        }
      }
    }
  }
  found.ms.sort((a, b) => a - b);
  return found;
}

/** The calls of one run among its agent's, ordered by time: from the previous run's last recorded answer to its own. */
function callsOf(run: RunDetail, calls: readonly ModelCall[]): ModelCall[] {
  const answers = new Set(run.steps.map(({ result, type }) => (type === "model" ? answerOf(result as object) : null)));
  const last = calls.findLastIndex(({ answer }) => answers.has(answer));
  const first = calls.findIndex(({ answer }) => answers.has(answer));
  // Unrecorded tries before the run's first answer follow its queueing. Earlier ones belong to a run that was given up.
  const created_ms = Date.parse(run.queued_at) - performance.timeOrigin;
  const isTry = (call: ModelCall | undefined) => call?.previous === null && call.arrived_ms >= created_ms;
  let begin = first;
  while (begin > 0 && isTry(calls[begin - 1]) && isTry(calls[begin])) begin -= 1;
  return calls.slice(Math.max(0, begin), last + 1);
}

function interruptions(calls: readonly ModelCall[], hooks: readonly Delivery[], losses: readonly Loss[]): number[] {
  return calls.slice(1).flatMap((next, nth) => {
    const call = calls[nth] as ModelCall;
    const loss = losses.find(({ process, at_ms }) => process === call.process && at_ms < next.arrived_ms);
    if (loss === undefined) return [];
    const signs = [next.arrived_ms, ...hooks.map(({ at_ms }) => at_ms)].filter((at_ms) => at_ms > loss.at_ms);
    return [Math.min(...signs) - loss.at_ms];
  });
}
