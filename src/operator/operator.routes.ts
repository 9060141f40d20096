import { type Accounts, type User, withSpend } from "../accounts/accounts.service.ts";
import type { Trials } from "../accounts/trials.service.ts";
import type { Billing } from "../billing/billing.service.ts";
import { profileOf } from "../billing/billing.service.ts";
import * as contract from "../contract/admin.ts";
import { decodeCursor, pageOf, UUID_KEY } from "../contract/common.ts";
import { createRouter } from "../contract/router.ts";
import { errors } from "../errors.ts";
import type { Ledger } from "../ledger/ledger.types.ts";
import { addDays, type Clock } from "../platform/clock.ts";
import type { Db, Instant } from "../platform/db.ts";

export interface OperatorOptions {
  db: Db;
  clock: Clock;
  accounts: Accounts;
  ledger: Ledger;
  billing: Billing;
  trial(): { days: number; tokens: number };
  /** Reads PURSER_CONFIG and the catalogue again. Throws a 400 with the reason, and then nothing has changed. */
  reload(): { price_version: string | null; models: number; plans: number };
  trials: Pick<Trials, "take">;
  /** Erases a user in every module. */
  eraseUser(user_id: string): Promise<void>;
  /** Runs the other modules' work after a user is suspended. */
  suspendAlso(user_id: string): Promise<void>;
  /** Advances the test clock; null with the real clock. */
  advanceClock: ((target: Instant) => Promise<void>) | null;
}

/** The operator's API: contract 8. The caller has already checked the bearer key. */
export function operatorRoutes(options: OperatorOptions) {
  const { db, clock, accounts, ledger, billing } = options;
  const router = createRouter();

  const userRecord = async (user: User) => {
    const [account, subscription] = await Promise.all([ledger.accountStatus(user.id), billing.subscription(user.id)]);
    return { ...profileOf(user, account, subscription), suspended_at: user.suspended_at };
  };

  router.openapi(contract.createUser, async (c) => {
    const { email, trial } = c.req.valid("json");
    const created = await db.transaction(async (tx) => {
      const made = await accounts.createUser(tx, { email, key_name: "first key" });
      // The operator may grant a second trial. The grant counts against a later sign-up.
      if (trial) await options.trials.take(tx, email);
      const { days, tokens } = options.trial();
      const granted = { ends_at: addDays(clock.now(), days), tokens };
      await ledger.openAccount(tx, { user_id: made.user.id, trial: trial ? granted : null });
      return made;
    });
    const api_key = withSpend(created.api_key, undefined, clock.now());
    return c.json({ user: await userRecord(created.user), api_key }, 201);
  });
  router.openapi(contract.listUsers, async (c) => {
    const { limit, cursor, search = "" } = c.req.valid("query");
    const users = await accounts.users({ search, limit: limit + 1, before_id: decodeCursor(cursor, UUID_KEY) });
    const { page, next_cursor } = pageOf(users, limit, (user) => user.id);
    return c.json({ users: await Promise.all(page.map(userRecord)), next_cursor }, 200);
  });
  router.openapi(contract.getUser, async (c) =>
    c.json(await userRecord(await accounts.user(c.req.valid("param").id)), 200),
  );
  router.openapi(contract.deleteUser, async (c) => {
    await options.eraseUser(c.req.valid("param").id);
    return c.body(null, 204);
  });
  router.openapi(contract.suspendUser, async (c) => {
    const user = await accounts.setSuspended(c.req.valid("param").id, true);
    await options.suspendAlso(user.id);
    return c.json(await userRecord(user), 200);
  });
  router.openapi(contract.resumeUser, async (c) => {
    return c.json(await userRecord(await accounts.setSuspended(c.req.valid("param").id, false)), 200);
  });
  router.openapi(contract.grantTokens, async (c) => {
    const user = await accounts.user(c.req.valid("param").id);
    return c.json(await billing.grant(user.id, c.req.valid("json")), 201);
  });
  router.openapi(contract.listPlansOnOffer, (c) => c.json({ plans: [...billing.plans()] }, 200));
  router.openapi(contract.subscribeUser, async (c) => {
    const user = await accounts.user(c.req.valid("param").id);
    const { subscription, created } = await billing.subscribeWithoutPayment(user.id, c.req.valid("json").plan_id);
    return c.json(subscription, created ? 201 : 200);
  });
  router.openapi(contract.listAllInvoices, async (c) => {
    const { limit, cursor, status } = c.req.valid("query");
    const before_id = decodeCursor(cursor, UUID_KEY);
    const rows = await billing.invoices.list({ status }, { limit: limit + 1, before_id });
    const { page, next_cursor } = pageOf(rows, limit, (row) => row.id);
    return c.json({ invoices: page, next_cursor }, 200);
  });
  router.openapi(contract.listAllPurchases, async (c) => {
    const { limit, cursor, status } = c.req.valid("query");
    const before_id = decodeCursor(cursor, UUID_KEY);
    const rows = await billing.purchases.listAll({ status }, { limit: limit + 1, before_id });
    const { page, next_cursor } = pageOf(rows, limit, (row) => row.id);
    return c.json({ purchases: page, next_cursor }, 200);
  });
  router.openapi(contract.settleInvoice, async (c) =>
    c.json(await billing.invoices.settle(c.req.valid("param").id, c.req.valid("json").status), 200),
  );
  router.openapi(contract.getAudit, async (c) => c.json(await ledger.audit(), 200));
  router.openapi(contract.reload, (c) => c.json(options.reload(), 200));
  router.openapi(contract.getClock, (c) => {
    if (options.advanceClock === null) throw errors.noTestClock();
    return c.json({ now: clock.now() }, 200);
  });
  router.openapi(contract.putClock, async (c) => {
    if (options.advanceClock === null) throw errors.noTestClock();
    await options.advanceClock(c.req.valid("json").now);
    return c.json({ now: clock.now() }, 200);
  });
  return router;
}
