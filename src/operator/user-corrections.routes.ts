import type { Billing } from "../account/billing/billing.service.ts";
import { billingErrors } from "../account/billing/errors.ts";
import type { Ledger } from "../account/ledger/ledger.types.ts";
import { type Accounts, withSpend } from "../account/users/accounts.service.ts";
import { refundPurchase } from "../api/contract/admin.ts";
import * as contract from "../api/contract/admin-users.ts";
import { type Caller, SCOPES } from "../api/contract/caller.ts";
import { createRouter, json, noContent, type Router } from "../api/contract/endpoint.ts";
import { TOP_UP_MONTHS } from "../kernel/constants.ts";
import { errors } from "../kernel/errors.ts";
import type { Db } from "../platform/db/db.ts";
import { addMonths, type Clock } from "../platform/lib/clock.ts";
import { isUuid } from "../platform/lib/ids.ts";
import type { Acts } from "./acts.service.ts";
import { getActor } from "./operator-keys.routes.ts";

interface CorrectionsDeps {
  db: Db;
  clock: Clock;
  accounts: Accounts;
  acts: Acts;
  ledger: Ledger;
  billing: Billing;
}

/** The operator's corrections of one user: keys, subscription, balance, money. Each writes the log of acts. */
export function userCorrectionsRoutes(deps: CorrectionsDeps): Router {
  const router = createRouter();
  keyRoutes(router, deps);
  balanceRoutes(router, deps);
  moneyRoutes(router, deps);
  return router;
}

/** The user as a caller with all scopes and no key of their own. */
const asUser = (user_id: string): Caller => ({ user_id, api_key_id: null, key_budget_tokens: null, scopes: SCOPES });

function keyRoutes(router: Router, { accounts, acts, clock }: CorrectionsDeps): void {
  router.on(contract.createApiKeyOfUser, async (request) => {
    const { id: user_id } = await accounts.user(request.params.id);
    const { reason, ...wanted } = request.body;
    const created = await accounts.createApiKey(asUser(user_id), wanted, (tx, { id, name, scopes, budget_tokens }) =>
      acts.record(tx, getActor(request), {
        what: "api_key.create",
        target: { type: "api_key", id },
        user_id,
        after: { name, scopes, budget_tokens },
        reason,
      }),
    );
    return json(withSpend(created, undefined, clock.now()), 201);
  });
  router.on(contract.deleteApiKeyOfUser, async (request) => {
    const { id: user_id } = await accounts.user(request.params.id);
    const { reason } = request.query;
    await accounts.revokeApiKey(user_id, request.params.key_id, (tx, { id, name, revoked_at }) =>
      acts.record(tx, getActor(request), {
        what: "api_key.revoke",
        target: { type: "api_key", id },
        user_id,
        before: { name, revoked_at },
        reason,
      }),
    );
    return noContent();
  });
}

function balanceRoutes(router: Router, { db, clock, accounts, acts, ledger }: CorrectionsDeps): void {
  router.on(contract.adjustBalance, async (request) => {
    const { id: user_id } = await accounts.user(request.params.id);
    const { amount_tokens, reason } = request.body;
    const created_at = clock.now();
    const { posted: before } = await ledger.accountStatus(user_id);
    if (before + amount_tokens > Number.MAX_SAFE_INTEGER) throw billingErrors.balanceTooLarge();
    const { bucket_id } = await db.transaction(async (tx) => {
      const expires_at = addMonths(created_at, TOP_UP_MONTHS);
      const adjusted = await ledger.adjust(tx, { user_id, amount_tokens, reason, expires_at });
      const target = { type: "bucket", id: adjusted.bucket_id };
      await acts.record(tx, getActor(request), {
        what: "tokens.adjust",
        target,
        user_id,
        after: { amount_tokens },
        reason,
      });
      return adjusted;
    });
    if (bucket_id !== null) await ledger.notifyGrant(user_id);
    const { posted, held, available, debt } = await ledger.accountStatus(user_id);
    return json({ amount_tokens, reason, bucket_id, balance: { posted, held, available, debt }, created_at }, 201);
  });
  router.on(contract.closeBucket, async (request) => {
    const { id: user_id } = await accounts.user(request.params.id);
    const { bucket_id } = request.params;
    const { reason } = request.body;
    const before = isUuid(bucket_id) ? await ledger.bucket(user_id, bucket_id) : undefined;
    if (before === undefined) throw errors.notFound("This bucket");
    const taken = await db.transaction(async (tx) => {
      const taken_tokens = await ledger.closeBucket(tx, { user_id, bucket_id, reason });
      if (taken_tokens === null) return 0;
      const change = { before: { remaining: before.remaining, held: before.held }, after: { taken_tokens } };
      const target = { type: "bucket", id: before.id };
      await acts.record(tx, getActor(request), { what: "bucket.close", target, user_id, ...change, reason });
      return taken_tokens;
    });
    const after = (await ledger.bucket(user_id, bucket_id)) ?? before;
    return json({ ...after, taken_tokens: taken });
  });
}

function moneyRoutes(router: Router, { accounts, acts, billing }: CorrectionsDeps): void {
  router.on(contract.cancelSubscriptionOfUser, async (request) => {
    const { id: user_id } = await accounts.user(request.params.id);
    const { reason } = request.query;
    const cancelled = await billing.cancelSubscription(user_id, (tx, before) =>
      acts.record(tx, getActor(request), {
        what: "subscription.cancel",
        target: { type: "subscription", id: user_id },
        user_id,
        reason,
        before: { plan_id: before.plan_id, status: before.status, cancel_at_period_end: before.cancel_at_period_end },
      }),
    );
    return json(cancelled);
  });
  router.on(refundPurchase, async (request) => {
    const { reason } = request.body;
    const refunded = await billing.purchases.refund(request.params.id, (tx, { id, user_id, ...before }, state) =>
      acts.record(tx, getActor(request), {
        what: "purchase.refund",
        target: { type: "purchase", id },
        user_id,
        reason,
        before: { status: before.status, amount_cents: before.amount_cents, refunded_cents: before.refunded_cents },
        after: { state },
      }),
    );
    return json(refunded);
  });
}
