import { bucketsOfUser } from "../../api/contract/admin-users.ts";
import * as contract from "../../api/contract/billing.ts";
import { decodeCursor, pageOf, UUID_KEY } from "../../api/contract/common.ts";
import { createRouter, json, serveBoth } from "../../api/contract/endpoint.ts";
import type { Ledger } from "../ledger/ledger.types.ts";
import type { Accounts } from "../users/accounts.service.ts";
import { type Billing, profileOf } from "./billing.service.ts";

export function billingRoutes(deps: { accounts: Accounts; ledger: Ledger; billing: Billing }) {
  const { accounts, ledger, billing } = deps;
  const router = createRouter();

  router.on(contract.getProfile, async (request) => {
    const { user_id } = request.caller;
    const [user, account, subscription] = await Promise.all([
      accounts.user(user_id),
      ledger.accountStatus(user_id),
      billing.subscription(user_id),
    ]);
    return json(profileOf(user, account, subscription));
  });
  serveBoth(router, { own: contract.listBuckets, operators: bucketsOfUser }, async (request) => {
    const { limit, cursor, include } = request.query;
    const after = decodeCursor(cursor, UUID_KEY);
    const { buckets, total_remaining } = await ledger.buckets(request.caller.user_id, {
      include_closed: include === "closed",
      limit: limit + 1,
      after,
    });
    const { page, next_cursor } = pageOf(buckets, limit, (bucket) => bucket.id);
    return json({ buckets: page, total_remaining, next_cursor });
  });
  router.on(contract.listPlans, (_request) => json({ plans: [...billing.plans()], payments: billing.payments }));
  return router;
}
