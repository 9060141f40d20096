import type { Ledger } from "../../account/ledger/ledger.types.ts";
import type { DueSource } from "../../platform/db/sweeper.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import { newId } from "../../platform/lib/ids.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import { type BudgetCaps, findRelief, monthlyBudget } from "../runs/budget-need.ts";
import type { ActionKey } from "../runs/decisions.service.ts";
import { runErrors } from "../runs/errors.ts";
import type { Runs } from "../runs/runs.service.ts";
import type { BudgetWait, RunActionKey } from "../runs/runs.types.ts";
import type { AgentsStore } from "./agents.store.ts";

/** Waiting runs that one turn of the sweep compares. More of them take several turns. */
const SWEEP_LIMIT = 1_000;

/**
 * Resumes runs that wait for tokens once their account got some, their owner raised the limit, or a new month began. Whether
 * this has happened is decided from rows alone, so a crash between the two loses nothing: the sweep finds it.
 */
export function createWaitingBudgets(deps: {
  runs: Pick<Runs, "budgetNeed" | "budgetWaits" | "relieveBudgets" | "nextBudgetRenewal">;
  ledger: Pick<Ledger, "refills" | "hold" | "release">;
  store: Pick<AgentsStore, "caps">;
  clock: Clock;
  log: Log;
}) {
  const { runs, ledger, store, clock, log } = deps;
  let swept_to: RunActionKey | null = null;

  const relieve = async (waits: readonly BudgetWait[]): Promise<void> => {
    if (waits.length === 0) return;
    const [refills, caps] = await Promise.all([
      ledger.refills([...new Set(waits.map(({ user_id }) => user_id))]),
      store.caps(waits),
    ]);
    const now = clock.now();
    const reliefs = waits.flatMap((wait) => {
      const present = caps.get(wait.agent_id);
      if (present === undefined) return []; // it was deleted, and its runs are being cancelled
      const relief = findRelief(wait.budget, { caps: present, refills: refills.get(wait.user_id) ?? 0, now });
      return relief === null ? [] : [{ ...wait, relief, caps: raisedCaps(wait, present) }];
    });
    for (const { run_id } of await runs.relieveBudgets(reliefs))
      log.info({ run_id }, "a run that waited for tokens goes on");
  };

  return {
    /** Throws 409 for the approval of an action whose run needs tokens that are still missing: it would ask again. */
    async refuseUnfunded(action: ActionKey): Promise<void> {
      const need = await runs.budgetNeed(action);
      if (need === null || need.limit === "run") return;
      const { user_id, agent_id, run_id } = action;
      const hold_id = newId();
      const tried = await ledger.hold({
        hold_id,
        request_id: run_id,
        user_id,
        agent_id,
        run_id,
        api_key_id: null,
        key_budget_tokens: null,
        agent_budget: need.limit === "month" ? monthlyBudget(need.cap_tokens, clock.now()) : null,
        amount_tokens: need.needed_tokens,
        minimum_tokens: need.needed_tokens,
      });
      if (tried.status === "held") await ledger.release({ user_id, hold_id });
      else if (tried.code !== "in_flight_exhausted") throw runErrors.tokensMissing(need);
    },
    /** After a grant to the user or a change of an agent's limits. If it fails, the sweep resumes the runs. */
    async relieveUser(user_id: string): Promise<void> {
      try {
        await relieve(await runs.budgetWaits({ user_id, after: null, limit: SWEEP_LIMIT }));
      } catch (error) {
        log.warn({ user_id, error }, "runs that waited for tokens go on at the next sweep");
      }
    },
    /** For each node, every second or so: runs that missed what came, and a new month. */
    sweep: {
      name: "runs that wait for tokens",
      nextDueAt: runs.nextBudgetRenewal,
      async carryOut() {
        const waits = await runs.budgetWaits({ user_id: null, after: swept_to, limit: SWEEP_LIMIT });
        swept_to = waits.length < SWEEP_LIMIT ? null : (waits.at(-1) ?? null);
        await relieve(waits);
      },
    } satisfies DueSource,
  };
}

/** The cap that the run goes on with: its agent's present one. */
function raisedCaps({ budget: { limit } }: BudgetWait, present: BudgetCaps): Partial<BudgetCaps> {
  switch (limit) {
    case "run":
      return { max_cost_tokens_per_run: present.max_cost_tokens_per_run };
    case "month":
      return { max_cost_tokens_per_month: present.max_cost_tokens_per_month };
    case "balance":
      return {};
  }
}
