import { bucketsOfUser } from "../../api/contract/admin-users.ts";
import * as contract from "../../api/contract/billing.ts";
import { decodeCursor, pageOf, UUID_KEY } from "../../api/contract/common.ts";
import { createRouter, serveBoth } from "../../api/contract/router.ts";
import type { Ledger } from "../ledger/ledger.types.ts";
import type { Accounts } from "../users/accounts.service.ts";
import { type Billing, profileOf } from "./billing.service.ts";

export function billingRoutes(deps: { accounts: Accounts; ledger: Ledger; billing: Billing }) {
  const { accounts, ledger, billing } = deps;
  const router = createRouter();

  router.openapi(contract.getProfile, async (c) => {
    const { user_id } = c.get("caller");
    const [user, account, subscription] = await Promise.all([
      accounts.user(user_id),
      ledger.accountStatus(user_id),
      billing.subscription(user_id),
    ]);
    return c.json(profileOf(user, account, subscription), 200);
  });
  serveBoth(router, { own: contract.listBuckets, operators: bucketsOfUser }, async (c) => {
    const { limit, cursor, include } = c.req.valid("query");
    const after = decodeCursor(cursor, UUID_KEY);
    const { buckets, total_remaining } = await ledger.buckets(c.get("caller").user_id, {
      include_closed: include === "closed",
      limit: limit + 1,
      after,
    });
    const { page, next_cursor } = pageOf(buckets, limit, (bucket) => bucket.id);
    return c.json({ buckets: page, total_remaining, next_cursor }, 200);
  });
  router.openapi(contract.listPlans, (c) => c.json({ plans: [...billing.plans()], payments: billing.payments }, 200));
  return router;
}
