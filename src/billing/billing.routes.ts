import type { Accounts } from "../accounts/accounts.service.ts";
import * as contract from "../contract/billing.ts";
import { decodeCursor, pageOf, UUID_KEY } from "../contract/common.ts";
import { createRouter } from "../contract/router.ts";
import type { Ledger } from "../ledger/ledger.types.ts";
import type { Billing } from "./billing.service.ts";
import { profileOf } from "./profile.ts";

export function billingRoutes(deps: { accounts: Accounts; ledger: Ledger; billing: Billing }) {
  const { accounts, ledger, billing } = deps;
  const router = createRouter();

  router.openapi(contract.getProfile, async (c) => {
    const { user_id } = c.get("caller");
    const [user, standing, subscription] = await Promise.all([
      accounts.user(user_id),
      ledger.standing(user_id),
      billing.subscription(user_id),
    ]);
    return c.json(profileOf(user, standing, subscription), 200);
  });
  router.openapi(contract.listBuckets, async (c) => {
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
