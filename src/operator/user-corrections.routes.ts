import type { Billing } from "../account/billing/billing.service.ts";
import type { Ledger } from "../account/ledger/ledger.types.ts";
import { type Accounts, withSpend } from "../account/users/accounts.service.ts";
import { refundPurchase } from "../api/contract/admin.ts";
import * as contract from "../api/contract/admin-users.ts";
import { type Caller, SCOPES } from "../api/contract/caller.ts";
import { createRouter, type HttpRouter } from "../api/contract/router.ts";
import { TOP_UP_MONTHS } from "../kernel/constants.ts";
import { errors } from "../kernel/errors.ts";
import type { Db } from "../platform/db/db.ts";
import { addMonths, type Clock } from "../platform/lib/clock.ts";
import { isUuid } from "../platform/lib/ids.ts";
import type { Acts } from "./acts.service.ts";
import { actorOf } from "./operator-keys.routes.ts";

interface CorrectionsDeps {
  db: Db;
  clock: Clock;
  accounts: Accounts;
  acts: Acts;
  ledger: Ledger;
  billing: Billing;
}

/** The operator's corrections of one user: keys, subscription, balance, money. Each writes the log of acts. */
export function userCorrectionsRoutes(deps: CorrectionsDeps): HttpRouter {
  const router = createRouter();
  keyRoutes(router, deps);
  balanceRoutes(router, deps);
  moneyRoutes(router, deps);
  return router;
}

/** The user as a caller with all scopes and no key of their own. */
const asUser = (user_id: string): Caller => ({ user_id, api_key_id: null, key_budget_tokens: null, scopes: SCOPES });

function keyRoutes(router: HttpRouter, { accounts, acts, clock }: CorrectionsDeps): void {
  router.openapi(contract.createApiKeyOfUser, async (c) => {
    const { id: user_id } = await accounts.user(c.req.valid("param").id);
    const { reason, ...wanted } = c.req.valid("json");
    const created = await accounts.createApiKey(asUser(user_id), wanted, (tx, { id, name, scopes, budget_tokens }) =>
      acts.record(tx, actorOf(c), {
        what: "api_key.create",
        target: { type: "api_key", id },
        user_id,
        after: { name, scopes, budget_tokens },
        reason,
      }),
    );
    return c.json(withSpend(created, undefined, clock.now()), 201);
  });
  router.openapi(contract.deleteApiKeyOfUser, async (c) => {
    const { id: user_id } = await accounts.user(c.req.valid("param").id);
    const { reason } = c.req.valid("query");
    await accounts.revokeApiKey(user_id, c.req.valid("param").key_id, (tx, { id, name, revoked_at }) =>
      acts.record(tx, actorOf(c), {
        what: "api_key.revoke",
        target: { type: "api_key", id },
        user_id,
        before: { name, revoked_at },
        reason,
      }),
    );
    return c.body(null, 204);
  });
}

function balanceRoutes(router: HttpRouter, { db, clock, accounts, acts, ledger }: CorrectionsDeps): void {
  router.openapi(contract.adjustBalance, async (c) => {
    const { id: user_id } = await accounts.user(c.req.valid("param").id);
    const { amount_tokens, reason } = c.req.valid("json");
    const created_at = clock.now();
    const { posted: before } = await ledger.accountStatus(user_id);
    if (before + amount_tokens > Number.MAX_SAFE_INTEGER) throw errors.balanceTooLarge();
    const { bucket_id } = await db.transaction(async (tx) => {
      const expires_at = addMonths(created_at, TOP_UP_MONTHS);
      const adjusted = await ledger.adjust(tx, { user_id, amount_tokens, reason, expires_at });
      const target = { type: "bucket", id: adjusted.bucket_id };
      await acts.record(tx, actorOf(c), { what: "tokens.adjust", target, user_id, after: { amount_tokens }, reason });
      return adjusted;
    });
    if (bucket_id !== null) await ledger.notifyGrant(user_id);
    const { posted, held, available, debt } = await ledger.accountStatus(user_id);
    return c.json({ amount_tokens, reason, bucket_id, balance: { posted, held, available, debt }, created_at }, 201);
  });
  router.openapi(contract.closeBucket, async (c) => {
    const { id: user_id } = await accounts.user(c.req.valid("param").id);
    const { bucket_id } = c.req.valid("param");
    const { reason } = c.req.valid("json");
    const before = isUuid(bucket_id) ? await ledger.bucket(user_id, bucket_id) : undefined;
    if (before === undefined) throw errors.notFound("This bucket");
    const taken = await db.transaction(async (tx) => {
      const taken_tokens = await ledger.closeBucket(tx, { user_id, bucket_id, reason });
      if (taken_tokens === null) return 0;
      const change = { before: { remaining: before.remaining, held: before.held }, after: { taken_tokens } };
      const target = { type: "bucket", id: before.id };
      await acts.record(tx, actorOf(c), { what: "bucket.close", target, user_id, ...change, reason });
      return taken_tokens;
    });
    const after = (await ledger.bucket(user_id, bucket_id)) ?? before;
    return c.json({ ...after, taken_tokens: taken }, 200);
  });
}

function moneyRoutes(router: HttpRouter, { accounts, acts, billing }: CorrectionsDeps): void {
  router.openapi(contract.cancelSubscriptionOfUser, async (c) => {
    const { id: user_id } = await accounts.user(c.req.valid("param").id);
    const { reason } = c.req.valid("query");
    const cancelled = await billing.cancelSubscription(user_id, (tx, before) =>
      acts.record(tx, actorOf(c), {
        what: "subscription.cancel",
        target: { type: "subscription", id: user_id },
        user_id,
        reason,
        before: { plan_id: before.plan_id, status: before.status, cancel_at_period_end: before.cancel_at_period_end },
      }),
    );
    return c.json(cancelled, 200);
  });
  router.openapi(refundPurchase, async (c) => {
    const { reason } = c.req.valid("json");
    const refunded = await billing.purchases.refund(c.req.valid("param").id, (tx, { id, user_id, ...before }, state) =>
      acts.record(tx, actorOf(c), {
        what: "purchase.refund",
        target: { type: "purchase", id },
        user_id,
        reason,
        before: { status: before.status, amount_cents: before.amount_cents, refunded_cents: before.refunded_cents },
        after: { state },
      }),
    );
    return c.json(refunded, 200);
  });
}
