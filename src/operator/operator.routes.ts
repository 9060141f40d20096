import { type Billing, profileOf } from "../account/billing/billing.service.ts";
import { csvLine, csvLines } from "../account/ledger/csv.ts";
import type { Ledger } from "../account/ledger/ledger.types.ts";
import { type Accounts, type User, withSpend } from "../account/users/accounts.service.ts";
import type { Trials } from "../account/users/trials.service.ts";
import * as contract from "../api/contract/admin.ts";
import { reload } from "../api/contract/admin-service.ts";
import type { Operator } from "../api/contract/caller.ts";
import { readPage } from "../api/contract/common.ts";
import {
  createRouter,
  csvFile,
  json,
  noContent,
  type RequestContext,
  type Router,
  webAnswer,
} from "../api/contract/endpoint.ts";
import { changesIn } from "../api/contract/read-only.ts";
import { exportUserData } from "../api/contract/user-export.ts";
import { httpErrors } from "../api/http/errors.ts";
import { missing } from "../kernel/purser-error.ts";
import type { Db, InSameTx, Tx } from "../platform/db/db.ts";
import { addDays, type Clock } from "../platform/lib/clock.ts";
import type { Instant } from "../platform/lib/instant.ts";
import { stableJson } from "../platform/lib/json.ts";
import type { Act, Acts } from "./acts.service.ts";
import { getActor } from "./operator-keys.routes.ts";
import { auditProblem, type Upkeep } from "./upkeep.store.ts";
import { readEmails } from "./usage.store.ts";

export const operatorErrors = {
  noTestClock: () =>
    missing("This service runs on real time. Start it with PURSER_TEST_CLOCK, an ISO instant, to have a clock to set."),
};

interface PreparedReload {
  changed: string[];
  apply(): { price_version: string | null; models: number; plans: number; changed: string[] };
}

export interface OperatorOptions {
  db: Db;
  clock: Clock;
  accounts: Accounts;
  ledger: Ledger;
  billing: Billing;
  trial(): { days: number; tokens: number };
  /** Reads PURSER_CONFIG and the catalogue again. Throws a 400 with the reason, and then nothing has changed. */
  reload(): PreparedReload;
  trials: Pick<Trials, "take">;
  /** Erases a user in every module. */
  eraseUser(user_id: string, also: InSameTx<void>): Promise<void>;
  /** Ends sessions and mailed links of a user whose address was changed. */
  addressChanged(tx: Tx, user_id: string): Promise<void>;
  /** Reads a user's sessions again after the commit: the user was suspended or has another operator role. */
  accessChanged(tx: Tx, user_id: string): void;
  acts: Acts;
  upkeep: Upkeep;
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

function userRoutes(router: Router, options: OperatorOptions): void {
  const { db, clock, accounts, acts, ledger, billing } = options;

  const userRecord = async (user: User) => {
    const [account, subscription] = await Promise.all([ledger.accountStatus(user.id), billing.subscription(user.id)]);
    const { suspended_at, limits } = user;
    return { ...profileOf(user, account, subscription), suspended_at, limits };
  };

  /** Returns and locks the user in the path. Only the role admin changes an operator's account: others could lock it out. */
  const lockUser = async (tx: Tx, { operator, params }: { operator: Operator; params: { id: string } }) => {
    const user = await accounts.lockUser(tx, params.id);
    if (user.operator_role !== null) requireAdmin(operator);
    return user;
  };

  router.on(contract.createUser, async (request) => {
    const { email, trial, reason } = request.body;
    const created = await db.transaction(async (tx) => {
      const made = await accounts.createUser(tx, { email, key_name: "first key" });
      // The operator may grant a second trial. The grant counts against a later sign-up.
      if (trial) await options.trials.take(tx, email);
      const { days, tokens } = options.trial();
      const granted = { ends_at: addDays(clock.now(), days), tokens };
      await ledger.openAccount(tx, { user_id: made.user.id, trial: trial ? granted : null });
      const { id: user_id } = made.user;
      const after = { email: made.user.email, trial, api_key_id: made.api_key.id };
      await acts.record(tx, getActor(request), { what: "user.create", ...aboutUser(user_id), after, reason });
      return made;
    });
    request.keeping.created_user_id = created.user.id;
    const api_key = withSpend(created.api_key, undefined, clock.now());
    return json({ user: await userRecord(created.user), api_key }, 201);
  });
  router.on(contract.listUsers, async (request) => {
    const { search = "", email = "" } = request.query;
    const { page, next_cursor } = await readPage(request.query, (page_of) =>
      accounts.users({ search, email, ...page_of }),
    );
    return json({ users: await Promise.all(page.map(userRecord)), next_cursor });
  });
  router.on(contract.getUser, async (request) => json(await userRecord(await accounts.user(request.params.id))));
  router.on(contract.updateUser, async (request) => {
    const record = async () => userRecord(await accounts.user(request.params.id));
    const changes = await changesIn(request.body, contract.USER_READ_ONLY, record);
    const { email: address, limits: wanted, operator_role: wanted_role, reason } = changes;
    // A new address gets the user's reset mails, so it opens the account.
    if (address !== undefined || wanted_role !== undefined) requireAdmin(request.operator);
    const user = await db.transaction(async (tx) => {
      const known = await lockUser(tx, request);
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
      if (stableJson(limits) !== stableJson(known.limits)) {
        Object.assign(before, { limits: known.limits });
        Object.assign(after, { limits });
      }
      const operator_role = wanted_role === undefined ? known.operator_role : wanted_role;
      if (operator_role !== known.operator_role) {
        await accounts.setOperatorRole(tx, known.id, operator_role);
        options.accessChanged(tx, known.id);
        Object.assign(before, { operator_role: known.operator_role });
        Object.assign(after, { operator_role });
      }
      if (Object.keys(after).length === 0) return known;
      await acts.record(tx, getActor(request), { what: "user.update", ...aboutUser(known.id), before, after, reason });
      return { ...known, email, limits, operator_role };
    });
    return json(await userRecord(user));
  });
  router.on(exportUserData, async (request) => {
    const user = await accounts.user(request.params.id);
    const { reason } = reasonIn(request.body);
    return sendRecorded(request, options, options.exportOf(user.id), {
      what: "user.export",
      ...aboutUser(user.id),
      reason,
    });
  });
  router.on(contract.deleteUser, async (request) => {
    const { id } = request.params;
    const { reason } = request.query;
    await options.eraseUser(id, (tx) =>
      acts.record(tx, getActor(request), { what: "user.erase", ...aboutUser(id), reason }),
    );
    return noContent();
  });
  const suspend = (
    request: RequestContext & { params: { id: string } },
    { reason, suspended }: { reason: string | undefined; suspended: boolean },
  ) =>
    db.transaction(async (tx) => {
      const before = await lockUser(tx, request);
      if ((before.suspended_at !== null) === suspended) return before;
      const after = await accounts.setSuspended(tx, before.id, suspended);
      options.accessChanged(tx, before.id);
      const change = { before: { suspended_at: before.suspended_at }, after: { suspended_at: after.suspended_at } };
      const what = suspended ? "user.suspend" : "user.resume";
      await acts.record(tx, getActor(request), { what, ...aboutUser(before.id), ...change, reason });
      return after;
    });
  router.on(contract.suspendUser, async (request) => {
    const user = await suspend(request, { ...reasonIn(request.body), suspended: true });
    await options.suspendAlso(user.id);
    return json(await userRecord(user));
  });
  router.on(contract.resumeUser, async (request) => {
    const user = await suspend(request, { ...reasonIn(request.body), suspended: false });
    return json(await userRecord(user));
  });
}

function moneyRoutes(router: Router, { db, accounts, acts, billing }: OperatorOptions): void {
  router.on(contract.grantTokens, async (request) => {
    const user = await accounts.user(request.params.id);
    const { reason, ...wanted } = request.body;
    const bucket = await billing.grant(user.id, wanted, (tx, { id, original_amount, source, expires_at }) =>
      acts.record(tx, getActor(request), {
        what: "tokens.grant",
        target: { type: "bucket", id },
        user_id: user.id,
        after: { amount_tokens: original_amount, source, expires_at },
        reason: reason ?? wanted.note,
      }),
    );
    return json(bucket, 201);
  });
  router.on(contract.listPlansOnOffer, (_request) => json({ plans: [...billing.plans()] }));
  router.on(contract.subscribeUser, async (request) => {
    const user = await accounts.user(request.params.id);
    const { plan_id, reason } = request.body;
    const { subscription, created } = await billing.subscribeWithoutPayment(user.id, plan_id, (tx, before) =>
      acts.record(tx, getActor(request), {
        what: "subscription.set",
        target: { type: "subscription", id: user.id },
        user_id: user.id,
        before: { plan_id: before.plan_id, status: before.status },
        after: { plan_id },
        reason,
      }),
    );
    return json(subscription, created ? 201 : 200);
  });
  router.on(contract.listAllInvoices, async (request) => {
    const { limit, cursor, format, ...filter } = request.query;
    if (format === "csv") {
      const parts = allPages((page) => billing.invoices.list(filter, page));
      const file = { name: "invoices", head: csvLine(INVOICE_COLUMNS) };
      return csvFile(file, parts, (part) => csvLines(INVOICE_COLUMNS, part));
    }
    const { page, next_cursor } = await readPage({ limit, cursor }, (page_of) =>
      billing.invoices.list(filter, page_of),
    );
    return json({ invoices: await withEmails(db, page), next_cursor });
  });
  router.on(contract.listAllPurchases, async (request) => {
    const { limit, cursor, format, ...filter } = request.query;
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
      return csvFile({ name: "purchases", head: csvLine(PURCHASE_COLUMNS) }, parts, linesOf);
    }
    const { page, next_cursor } = await readPage({ limit, cursor }, (page_of) =>
      billing.purchases.listAll(filter, page_of),
    );
    return json({ purchases: await withEmails(db, page), next_cursor });
  });
  router.on(contract.settleInvoice, async (request) => {
    const { status, reason } = request.body;
    const invoice = await billing.invoices.settle(request.params.id, status, (tx, before) =>
      acts.record(tx, getActor(request), {
        what: "invoice.settle",
        target: { type: "invoice", id: before.id },
        user_id: before.user_id,
        before: { status: before.status },
        after: { status },
        reason,
      }),
    );
    return json(invoice);
  });
}

function serviceRoutes(router: Router, options: OperatorOptions): void {
  const { db, clock, acts, ledger, upkeep } = options;
  router.on(contract.getAudit, async () => {
    const report = await ledger.audit();
    await upkeep.ended("audit", auditProblem(report));
    return json(report);
  });
  router.on(reload, async (request) => {
    const { reason } = reasonIn(request.body);
    const { changed, apply } = options.reload();
    const reloaded = await db.transaction(async (tx) => {
      // Written first: without its act, nothing is reloaded.
      const act = { what: "configuration.reload", target: SERVICE, after: { changed }, reason } as const;
      await acts.record(tx, getActor(request), act);
      return apply();
    });
    return json(reloaded);
  });
  router.on(contract.createBackup, (request) => {
    const { reason } = reasonIn(request.body);
    return sendRecorded(request, options, options.backUp(), { what: "backup.create", target: SERVICE, reason });
  });
  router.on(contract.getClock, (_request) => {
    if (options.advanceClock === null) throw operatorErrors.noTestClock();
    return json({ now: clock.now() });
  });
  router.on(contract.putClock, async (request) => {
    if (options.advanceClock === null) throw operatorErrors.noTestClock();
    const { now, reason } = request.body;
    const change = { before: { now: clock.now() }, after: { now } };
    await options.advanceClock(now);
    await db.transaction((tx) =>
      acts.record(tx, getActor(request), { what: "clock.set", target: SERVICE, ...change, reason }),
    );
    return json({ now: clock.now() });
  });
}

/** Answers with a file of data. Without its act nothing is sent. */
async function sendRecorded(
  request: RequestContext,
  { db, acts }: Pick<OperatorOptions, "db" | "acts">,
  file: Response,
  act: Act,
): Promise<FileAnswer> {
  await db
    .transaction((tx) => acts.record(tx, getActor(request), act))
    .catch(async (error: unknown) => {
      await file.body?.cancel();
      throw error;
    });
  return webAnswer(file);
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

/** The rows with the addresses of their users. */
async function withEmails<Row extends { user_id: string }>(db: Db, rows: readonly Row[]) {
  const emails = await readEmails(db, [...new Set(rows.map(({ user_id }) => user_id))]);
  return rows.map((row) => ({ ...row, user_email: emails.get(row.user_id) ?? null }));
}

function requireAdmin({ role }: Operator): void {
  if (role !== "admin") throw httpErrors.insufficientRole(role, "admin");
}

type FileAnswer = ReturnType<typeof webAnswer>;
const SERVICE = { type: "service", id: null };
const aboutUser = (id: string) => ({ target: { type: "user", id }, user_id: id });
/** A body that is absent has no reason. */
const reasonIn = (body: { reason?: string | undefined } | undefined) => ({ reason: body?.reason });
