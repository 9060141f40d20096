import type { AgentBudget } from "../../account/ledger/ledger.types.ts";
import type { RunError } from "../../api/contract/runs.ts";
import { MONTHLY_CAP } from "../../gateway/completions/reservation.ts";
import { PurserError } from "../../kernel/errors.ts";
import { addMonths, startOfMonth } from "../../platform/lib/clock.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { modelCallError } from "./model-call.ts";
import type { RunConfig } from "./transcript.ts";

/** Which limit of tokens a run has reached. Pure, like all of this file. */
export type ReachedLimit = "run" | "month" | "balance";

/** What a run that has reached a limit of tokens needs to go on. Its budget action stores it. */
export interface BudgetNeed {
  limit: ReachedLimit;
  /** The least cost of the next model call, in billed tokens. */
  needed_tokens: number;
  /** The cap that the run has reached; null: the balance. */
  cap_tokens: number | null;
  /** What an approval adds to the run's cap; null: an approval tries the call again. */
  added_tokens: number | null;
  /** The account's number of refills before the call was tried; null: tokens do not help. */
  refills: number | null;
  /** When the agent's next month begins; null: time does not help. */
  renews_at: Instant | null;
  /** The run's error if nobody approves. */
  error: RunError;
}

/** The caps in force for a run: its version's, or a later one that a decision or its owner allowed. */
export type BudgetCaps = Pick<RunConfig["limits"], "max_cost_tokens_per_run" | "max_cost_tokens_per_month">;

/** A monthly cap (UTC) as the ledger counts it; null: none. */
export function monthlyBudget(cap_tokens: number | null, now: Instant): AgentBudget | null {
  return cap_tokens === null ? null : { from_day: startOfMonth(now).slice(0, 10), cap_tokens };
}

/** The limit that rejected a model call; null: another error. The budgets of keys and end users are their callers'. */
export function findReachedLimit(thrown: unknown): ReachedLimit | null {
  if (!(thrown instanceof PurserError)) return null;
  const { code, param } = modelCallError(thrown);
  if (code === "insufficient_tokens") return "balance";
  if (code !== "budget_exceeded") return null;
  if (param === undefined) return "run";
  return param === MONTHLY_CAP ? "month" : null;
}

/** What the run needs to go on. `own`: the caps of its version; `refills`: read before the call was tried. */
export function describeNeed(
  thrown: PurserError,
  limit: ReachedLimit,
  { own, caps, refills, now }: { own: BudgetCaps; caps: BudgetCaps; refills: number; now: Instant },
): BudgetNeed {
  const cap_tokens = {
    run: caps.max_cost_tokens_per_run,
    month: caps.max_cost_tokens_per_month,
    balance: null,
  };
  return {
    limit,
    needed_tokens: thrown.shape.needed_tokens ?? 0,
    cap_tokens: cap_tokens[limit],
    added_tokens: limit === "run" ? own.max_cost_tokens_per_run : null,
    refills: limit === "balance" ? refills : null,
    renews_at: limit === "month" ? addMonths(startOfMonth(now), 1) : null,
    error: modelCallError(thrown),
  };
}

/** Why the run asks, and what an approval does, for the person who decides. */
export function explainNeed(
  { limit, needed_tokens, cap_tokens, added_tokens }: BudgetNeed,
  spent_tokens: number,
): string {
  const next = `its next model call needs ${count(needed_tokens)}`;
  switch (limit) {
    case "run":
      return `The run has spent ${count(spent_tokens)} of its limit of ${count(cap_tokens ?? 0)}, and ${next}. An approval gives this run ${count(added_tokens ?? 0)} more.`;
    case "month":
      return `The agent's limit of ${count(cap_tokens ?? 0)} a month is reached: ${next}. Raise max_cost_tokens_per_month, or the run goes on when the next month begins.`;
    case "balance":
      return `The balance does not cover the run: ${next}. Top up, and the run goes on.`;
  }
}

const count = (tokens: number): string => `${tokens.toLocaleString("en-US")} tokens`;

/** What has come to the rescue of a waiting run; null: nothing has, and it still waits. */
export function findRelief(
  { limit, cap_tokens, refills, renews_at }: BudgetNeed,
  present: { caps: BudgetCaps; refills: number; now: Instant },
): string | null {
  const { max_cost_tokens_per_run: per_run, max_cost_tokens_per_month: per_month } = present.caps;
  const isAbove = (cap: number | null) => cap === null || (cap_tokens !== null && cap > cap_tokens);
  switch (limit) {
    case "run":
      return isAbove(per_run) ? "max_cost_tokens_per_run was raised." : null;
    case "month":
      if (isAbove(per_month)) return "max_cost_tokens_per_month was raised.";
      return renews_at !== null && renews_at <= present.now ? "A new month began." : null;
    case "balance":
      return present.refills > (refills ?? 0) ? "The account got tokens." : null;
  }
}
