import { decodeCursor, pageOf } from "../../api/contract/common.ts";
import * as contract from "../../api/contract/end-users.ts";
import { createRouter, json, noContent, type Router } from "../../api/contract/endpoint.ts";
import { budgetResetsAt } from "../../api/contract/key-terms.ts";
import { changesIn } from "../../api/contract/read-only.ts";
import { errors } from "../../kernel/errors.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import type { Ledger } from "../ledger/ledger.types.ts";
import type { EndUserBudget } from "../ledger/usage.types.ts";

/** Budgets of the end users of an account. The ledger enforces them. */
export function endUserRoutes({ ledger, clock }: { ledger: Pick<Ledger, "end_users">; clock: Clock }): Router {
  const { end_users } = ledger;
  const router = createRouter();
  const shown = (budget: EndUserBudget) => ({
    ...budget,
    budget_resets_at: budgetResetsAt(budget.budget_interval, clock.now()),
  });
  const found = async (user_id: string, end_user: string) => {
    const budget = await end_users.find(user_id, end_user, clock.now());
    if (budget === undefined) throw errors.notFound("A budget of this end user");
    return shown(budget);
  };

  router.on(contract.listEndUserBudgets, async (request) => {
    const { limit, cursor } = request.query;
    const after = decodeCursor(cursor, /^user:[^\0]{1,256}$/su)?.slice("user:".length) ?? null;
    const rows = await end_users.list(request.caller.user_id, clock.now(), { limit: limit + 1, after });
    const { page, next_cursor } = pageOf(rows, limit, ({ user }) => `user:${user}`);
    return json({ end_user_budgets: page.map(shown), next_cursor });
  });
  router.on(contract.getEndUserBudget, async (request) =>
    json(await found(request.caller.user_id, request.params.user)),
  );
  router.on(contract.putEndUserBudget, async (request) => {
    const { user_id } = request.caller;
    const { user } = request.params;
    // A budget that does not exist yet has no fields that could be sent back.
    const record = async () => (await end_users.find(user_id, user, clock.now())) ?? {};
    const changes = await changesIn(request.body, contract.BUDGET_READ_ONLY, record);
    await end_users.put(user_id, user, changes);
    return json(await found(user_id, user));
  });
  router.on(contract.deleteEndUserBudget, async (request) => {
    const is_removed = await end_users.remove(request.caller.user_id, request.params.user);
    if (!is_removed) throw errors.notFound("A budget of this end user");
    return noContent();
  });
  return router;
}
