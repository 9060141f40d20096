import type { Context } from "hono";
import { type Billing, profileOf } from "../account/billing/billing.service.ts";
import { csvLine, csvLines } from "../account/ledger/csv.ts";
import type { Ledger } from "../account/ledger/ledger.types.ts";
import { type Accounts, type User, withSpend } from "../account/users/accounts.service.ts";
import type { Trials } from "../account/users/trials.service.ts";
import * as contract from "../api/contract/admin.ts";
import type { HttpEnv } from "../api/contract/caller.ts";
import { decodeCursor, pageOf, UUID_KEY } from "../api/contract/common.ts";
import { createRouter, csvAnswer, type HttpRouter } from "../api/contract/router.ts";
import { exportUserData } from "../api/contract/user-export.ts";
import { errors } from "../kernel/errors.ts";
import type { Db, InSameTx, Tx } from "../platform/db/db.ts";
import { addDays, type Clock } from "../platform/lib/clock.ts";
import type { Instant } from "../platform/lib/instant.ts";
import type { Act, Acts } from "./acts.service.ts";
import { actorOf } from "./operator-keys.routes.ts";

export interface OperatorOptions {
  db: Db;
  clock: Clock;
  accounts: Accounts;
  ledger: Ledger;
  billing: Billing;
  trial(): { days: number; tokens: number };
  /** Reads PURSER_CONFIG and the catalogue again. Throws a 400 with the reason, and then nothing has changed. */
  reload(): { changed: string[]; apply(): { price_version: string | null; models: number; plans: number } };
  trials: Pick<Trials, "take">;
  /** Erases a user in every module. */
  eraseUser(user_id: string, also: InSameTx<void>): Promise<void>;
  /** Ends sessions and mailed links of a user whose address was changed. */
  addressChanged(tx: Tx, user_id: string): Promise<void>;
  userSuspended(tx: Tx, user_id: string): void;
  acts: Acts;
  /** Runs the other modules' work after a user is suspended. */
  suspendAlso(user_id: string): Promise<void>;
  /** The user's data as a ZIP. */
  exportOf(user_id: string): Response;
  /** A backup of the database. Throws 409 while another one is written. */
  backUp(): Response;
  /** Advances the test clock; null with the real clock. */
  advanceClock: ((target: Instant) => Promise<void>) | null;
}

/** The operator's API: contract 8. The caller has already checked the key. Every act writes the log of acts. */
export function operatorRoutes(options: OperatorOptions) {
  const router = createRouter();
  userRoutes(router, options);
  moneyRoutes(router, options);
  serviceRoutes(router, options);
  return router;
}

function userRoutes(router: HttpRouter, options: OperatorOptions): void {
  const { db, clock, accounts, acts, ledger, billing } = options;

  const userRecord = async (user: User) => {
    const [account, subscription] = await Promise.all([ledger.accountStatus(user.id), billing.subscription(user.id)]);
    const { suspended_at, limits } = user;
    return { ...profileOf(user, account, subscription), suspended_at, limits };
  };

  router.openapi(contract.createUser, async (c) => {
    const { email, trial, reason } = c.req.valid("json");
    const created = await db.transaction(async (tx) => {
      const made = await accounts.createUser(tx, { email, key_name: "first key" });
      // The operator may grant a second trial. The grant counts against a later sign-up.
      if (trial) await options.trials.take(tx, email);
      const { days, tokens } = options.trial();
      const granted = { ends_at: addDays(clock.now(), days), tokens };
      await ledger.openAccount(tx, { user_id: made.user.id, trial: trial ? granted : null });
      const { id: user_id } = made.user;
      const after = { email: made.user.email, trial, api_key_id: made.api_key.id };
      await acts.record(tx, actorOf(c), { what: "user.create", ...aboutUser(user_id), after, reason });
      return made;
    });
    c.set("created_user_id", created.user.id);
    const api_key = withSpend(created.api_key, undefined, clock.now());
    return c.json({ user: await userRecord(created.user), api_key }, 201);
  });
  router.openapi(contract.listUsers, async (c) => {
    const { limit, cursor, search = "", email = "" } = c.req.valid("query");
    const before_id = decodeCursor(cursor, UUID_KEY);
    const users = await accounts.users({ search, email, limit: limit + 1, before_id });
    const { page, next_cursor } = pageOf(users, limit, (user) => user.id);
    return c.json({ users: await Promise.all(page.map(userRecord)), next_cursor }, 200);
  });
  router.openapi(contract.getUser, async (c) =>
    c.json(await userRecord(await accounts.user(c.req.valid("param").id)), 200),
  );
  router.openapi(contract.updateUser, async (c) => {
    const { email: address, limits: wanted, reason } = c.req.valid("json");
    // A new address gets the user's reset mails, so it opens the account.
    const { role } = c.get("operator");
    if (address !== undefined && role !== "admin") throw errors.insufficientRole(role, "admin");
    const user = await db.transaction(async (tx) => {
      const known = await accounts.lockUser(tx, c.req.valid("param").id);
      const before: Record<string, unknown> = {};
      const after: Record<string, unknown> = {};
      const email = address?.toLowerCase() ?? known.email;
      if (email !== null && email !== known.email) {
        await accounts.setEmail(tx, known.id, email);
        await options.addressChanged(tx, known.id);
        Object.assign(before, { email: known.email });
        Object.assign(after, { email });
      }
      const limits = wanted === undefined ? known.limits : await accounts.setLimits(tx, known, wanted);
      if (wanted !== undefined) {
        Object.assign(before, { limits: known.limits });
        Object.assign(after, { limits });
      }
      if (Object.keys(after).length === 0) return known;
      await acts.record(tx, actorOf(c), { what: "user.update", ...aboutUser(known.id), before, after, reason });
      return { ...known, email, limits };
    });
    return c.json(await userRecord(user), 200);
  });
  router.openapi(exportUserData, async (c) => {
    const user = await accounts.user(c.req.valid("param").id);
    const { reason } = reasonIn(c.req.valid("json"));
    return sendRecorded(c, options, options.exportOf(user.id), { what: "user.export", ...aboutUser(user.id), reason });
  });
  router.openapi(contract.deleteUser, async (c) => {
    const { id } = c.req.valid("param");
    const { reason } = c.req.valid("query");
    await options.eraseUser(id, (tx) => acts.record(tx, actorOf(c), { what: "user.erase", ...aboutUser(id), reason }));
    return c.body(null, 204);
  });
  const suspend = (c: Context<HttpEnv>, wanted: { id: string; reason: string | undefined; suspended: boolean }) =>
    db.transaction(async (tx) => {
      const { id, reason, suspended } = wanted;
      const before = await accounts.lockUser(tx, id);
      const after = await accounts.setSuspended(tx, before.id, suspended);
      options.userSuspended(tx, before.id);
      const change = { before: { suspended_at: before.suspended_at }, after: { suspended_at: after.suspended_at } };
      const what = suspended ? "user.suspend" : "user.resume";
      await acts.record(tx, actorOf(c), { what, ...aboutUser(before.id), ...change, reason });
      return after;
    });
  router.openapi(contract.suspendUser, async (c) => {
    const user = await suspend(c, { ...c.req.valid("param"), ...reasonIn(c.req.valid("json")), suspended: true });
    await options.suspendAlso(user.id);
    return c.json(await userRecord(user), 200);
  });
  router.openapi(contract.resumeUser, async (c) => {
    const user = await suspend(c, { ...c.req.valid("param"), ...reasonIn(c.req.valid("json")), suspended: false });
    return c.json(await userRecord(user), 200);
  });
}

function moneyRoutes(router: HttpRouter, { accounts, acts, billing }: OperatorOptions): void {
  router.openapi(contract.grantTokens, async (c) => {
    const user = await accounts.user(c.req.valid("param").id);
    const { reason, ...wanted } = c.req.valid("json");
    const bucket = await billing.grant(user.id, wanted, (tx, { id, original_amount, source, expires_at }) =>
      acts.record(tx, actorOf(c), {
        what: "tokens.grant",
        target: { type: "bucket", id },
        user_id: user.id,
        after: { amount_tokens: original_amount, source, expires_at },
        reason: reason ?? wanted.note,
      }),
    );
    return c.json(bucket, 201);
  });
  router.openapi(contract.listPlansOnOffer, (c) => c.json({ plans: [...billing.plans()] }, 200));
  router.openapi(contract.subscribeUser, async (c) => {
    const user = await accounts.user(c.req.valid("param").id);
    const { plan_id, reason } = c.req.valid("json");
    const { subscription, created } = await billing.subscribeWithoutPayment(user.id, plan_id, (tx, before) =>
      acts.record(tx, actorOf(c), {
        what: "subscription.set",
        target: { type: "subscription", id: user.id },
        user_id: user.id,
        before: { plan_id: before.plan_id, status: before.status },
        after: { plan_id },
        reason,
      }),
    );
    return c.json(subscription, created ? 201 : 200);
  });
  router.openapi(contract.listAllInvoices, async (c) => {
    const { limit, cursor, format, ...filter } = c.req.valid("query");
    const before_id = decodeCursor(cursor, UUID_KEY);
    if (format === "csv") {
      const parts = allPages((page) => billing.invoices.list(filter, page));
      return csvAnswer("invoices", csvLine(INVOICE_COLUMNS), parts, (part) => csvLines(INVOICE_COLUMNS, part)) as never;
    }
    const rows = await billing.invoices.list(filter, { limit: limit + 1, before_id });
    const { page, next_cursor } = pageOf(rows, limit, (row) => row.id);
    return c.json({ invoices: page, next_cursor }, 200);
  });
  router.openapi(contract.listAllPurchases, async (c) => {
    const { limit, cursor, format, ...filter } = c.req.valid("query");
    const before_id = decodeCursor(cursor, UUID_KEY);
    if (format === "csv") {
      const parts = allPages((page) => billing.purchases.listAll(filter, page));
      const linesOf = (part: Awaited<ReturnType<typeof billing.purchases.listAll>>) =>
        csvLines(
          PURCHASE_COLUMNS,
          part.map(({ billed, automatic, ...purchase }) => ({
            ...purchase,
            automatic: `${automatic ?? false}`,
            billed_amount_cents: billed?.amount_cents ?? null,
            billed_currency: billed?.currency ?? null,
          })),
        );
      return csvAnswer("purchases", csvLine(PURCHASE_COLUMNS), parts, linesOf) as never;
    }
    const rows = await billing.purchases.listAll(filter, { limit: limit + 1, before_id });
    const { page, next_cursor } = pageOf(rows, limit, (row) => row.id);
    return c.json({ purchases: page, next_cursor }, 200);
  });
  router.openapi(contract.settleInvoice, async (c) => {
    const { status, reason } = c.req.valid("json");
    const invoice = await billing.invoices.settle(c.req.valid("param").id, status, (tx, before) =>
      acts.record(tx, actorOf(c), {
        what: "invoice.settle",
        target: { type: "invoice", id: before.id },
        user_id: before.user_id,
        before: { status: before.status },
        after: { status },
        reason,
      }),
    );
    return c.json(invoice, 200);
  });
}

function serviceRoutes(router: HttpRouter, options: OperatorOptions): void {
  const { db, clock, acts, ledger } = options;
  router.openapi(contract.getAudit, async (c) => c.json(await ledger.audit(), 200));
  router.openapi(contract.reload, async (c) => {
    const { reason } = reasonIn(c.req.valid("json"));
    const { changed, apply } = options.reload();
    const reloaded = await db.transaction(async (tx) => {
      // Written first: without its act, nothing is reloaded.
      await acts.record(tx, actorOf(c), { what: "configuration.reload", target: SERVICE, after: { changed }, reason });
      return apply();
    });
    return c.json(reloaded, 200);
  });
  router.openapi(contract.createBackup, (c) => {
    const { reason } = reasonIn(c.req.valid("json"));
    return sendRecorded(c, options, options.backUp(), { what: "backup.create", target: SERVICE, reason });
  });
  router.openapi(contract.getClock, (c) => {
    if (options.advanceClock === null) throw errors.noTestClock();
    return c.json({ now: clock.now() }, 200);
  });
  router.openapi(contract.putClock, async (c) => {
    if (options.advanceClock === null) throw errors.noTestClock();
    const { now, reason } = c.req.valid("json");
    const change = { before: { now: clock.now() }, after: { now } };
    await options.advanceClock(now);
    await db.transaction((tx) =>
      acts.record(tx, actorOf(c), { what: "clock.set", target: SERVICE, ...change, reason }),
    );
    return c.json({ now: clock.now() }, 200);
  });
}

/** Answers with a file of data. Without its act nothing is sent. */
async function sendRecorded(
  c: Context<HttpEnv>,
  { db, acts }: Pick<OperatorOptions, "db" | "acts">,
  file: Response,
  act: Act,
): Promise<never> {
  await db
    .transaction((tx) => acts.record(tx, actorOf(c), act))
    .catch(async (error: unknown) => {
      await file.body?.cancel();
      throw error;
    });
  return file as never;
}

const INVOICE_COLUMNS = [
  "id",
  "user_id",
  "status",
  "amount_cents",
  "refunded_cents",
  "currency",
  "tokens",
  "collected_by",
  "created_at",
] as const;

const PURCHASE_COLUMNS = [
  "id",
  "user_id",
  "purpose",
  "status",
  "provider",
  "reference",
  "amount_cents",
  "refunded_cents",
  "currency",
  "tokens",
  "bucket_id",
  "automatic",
  "billed_amount_cents",
  "billed_currency",
  "created_at",
] as const;

/** Rows per query of a CSV file. */
const EXPORT_ROWS = 1_000;

/** All rows of a list, oldest first, in pages. */
async function* allPages<Row extends { id: string }>(
  read: (page: { limit: number; after_id: string | null }) => Promise<Row[]>,
): AsyncGenerator<Row[]> {
  for (let after_id: string | null = null; ; ) {
    const rows: Row[] = await read({ limit: EXPORT_ROWS, after_id });
    if (rows.length > 0) yield rows;
    if (rows.length < EXPORT_ROWS) return;
    after_id = rows.at(-1)?.id ?? after_id;
  }
}

const SERVICE = { type: "service", id: null };
const aboutUser = (id: string) => ({ target: { type: "user", id }, user_id: id });
/** A body that is absent has no reason. */
const reasonIn = (body: { reason?: string | undefined } | undefined) => ({ reason: body?.reason });
