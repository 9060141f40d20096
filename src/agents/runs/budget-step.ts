import { isUnwatched } from "../../api/contract/runs.ts";
import type { PurserError } from "../../kernel/errors.ts";
import { addSeconds } from "../../platform/lib/clock.ts";
import { insertActions } from "./actions.store.ts";
import { type BudgetCaps, describeNeed, explainNeed, findReachedLimit } from "./budget-need.ts";
import { type EngineDeps, suspend, type Work } from "./run-work.ts";
import type { Suspension } from "./runs.types.ts";

/** The caps in force for a run. A decision or its owner may have raised those of its version. */
export function capsOf({ config, input }: Pick<Work, "config" | "input">): BudgetCaps {
  const { max_cost_tokens_per_run, max_cost_tokens_per_month } = config.limits;
  return { max_cost_tokens_per_run, max_cost_tokens_per_month, ...input.raised_caps };
}

/**
 * Asks for more tokens where a model call was rejected for a lack of them and the agent asks; null: the run fails. Whoever
 * watches a chat or a test reads the error and decides.
 *
 * `try_again`: a run that waits for the balance goes on after a refill that came later than `work.refills`, so the call is tried
 * once more after this number has been read.
 */
export async function askForTokens(
  work: Work,
  thrown: unknown,
  { clock, ledger }: Pick<EngineDeps, "clock" | "ledger">,
): Promise<Suspension | "try_again" | null> {
  const { run, config, spent_tokens } = work;
  const limit = findReachedLimit(thrown);
  if (limit === null || config.on_budget !== "ask" || !isUnwatched(run.trigger)) return null;
  if (limit === "balance" && work.refills === null) {
    const { user_id } = run.lease;
    work.refills = (await ledger.refills([user_id])).get(user_id) ?? 0;
    return "try_again";
  }
  const now = clock.now();
  const need = describeNeed(thrown as PurserError, limit, {
    own: config.limits,
    caps: capsOf(work),
    refills: work.refills ?? 0,
    now,
  });
  const action = {
    type: "budget" as const,
    reason: explainNeed(need, spent_tokens),
    budget: need,
    spent_tokens,
    requested_at: now,
    expires_at: addSeconds(now, config.approval_hours * 3600),
  };
  return suspend("requires_action", (tx) => insertActions(tx, run.lease, [action]));
}
