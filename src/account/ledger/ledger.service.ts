import { errors } from "../../kernel/errors.ts";
import { isRefusal } from "../../kernel/sql-state.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import type { Reads } from "../../platform/db/standby.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import { newId } from "../../platform/lib/ids.ts";
import { backoff } from "../../platform/lib/retry.ts";
import { toAccountStatus } from "./account-status.ts";
import { closeBucket, findAdjusted, forgetReasons, insertAdjustment, takeTokens } from "./adjustment.store.ts";
import { findArchivedBefore } from "./archive.store.ts";
import { runAudit } from "./audit.store.ts";
import { listCharges, listHolds } from "./charge.store.ts";
import { createEndUsersStore } from "./end-users.store.ts";
import { findLastSeq, listEntries, listEntryGroups, readEntries } from "./entry.store.ts";
import { ledgerErrors } from "./errors.ts";
import { createGroupCommit } from "./group-commit.ts";
import {
  applyOperations,
  countHolds,
  findAccount,
  findBucket,
  findNextDue,
  insertAccount,
  insertClawBack,
  insertGrant,
  insertReinstatement,
  listBuckets,
  listKeySpend,
  listRefills,
  markEstimated,
  noteProgress,
  type Operation,
  type Outcome,
  type Superseded,
} from "./ledger.store.ts";
import {
  type HoldOutcome,
  HoldSupersededError,
  type Invariant,
  type Ledger,
  type SettleOutcome,
} from "./ledger.types.ts";
import { closePeriod, findOverage, listAccountsBelow, listAccountsWithOverage, updateCap } from "./overage.store.ts";
import { type OnCrossing, sweepLedger } from "./sweep.ts";
import { findChargedAgents, listUsageGroups, readUsage, readUsageLines } from "./usage.store.ts";
import { listMetadataNames, readUsageBreakdown } from "./usage-breakdown.store.ts";

/** Most operations of one batch. A larger batch would lock the accounts for too long. */
const BATCH_LIMIT = 256;
/**
 * Pauses while the database is unavailable: a restart or a failover takes seconds. The first retry is immediate.
 * Settles start over after the last.
 */
const RETRY_MS = [0, ...backoff({ first: 100, max: 5_000, retries: 4 })];
/** Rows per query of an export. */
const EXPORT_ROWS = 1_000;

export interface LedgerDeps {
  db: Db;
  clock: Clock;
  /** Where exports and audits read. Default: `db`. */
  reads?: Reads;
  /** Invariants of other modules that the audit checks too. */
  invariants?: readonly Invariant[];
  /** The statement for batches with hooks: see applyOperations. */
  with_hooks?: string | null;
  /**
   * Called once for each crossed threshold: 50, 80 and 100 % of the balance after the last grant, of the overage cap in
   * a period, or of an API key's budget. The same transaction of the sweep deletes the crossing; without `notify` it
   * stays.
   */
  notify?: OnCrossing;
}

/** The ledger over a migrated database. */
export function createLedger(deps: LedgerDeps): Ledger {
  const { db, clock, invariants = [], with_hooks = null, reads = async () => db } = deps;
  const keySpends: Ledger["keySpends"] = async (keys, sql = db) =>
    new Map((await listKeySpend(sql, keys, clock.now())).map(({ api_key_id, ...spend }) => [api_key_id, spend]));
  const { commit, beginStop } = createGroupCommit<Operation, Outcome>({
    async apply(operations) {
      await markEstimated(db, operations);
      return applyOperations(db, operations, clock.now(), with_hooks);
    },
    size_limit: BATCH_LIMIT,
    retry_ms: RETRY_MS,
    // The call was made, and its cost is recorded nowhere else.
    isLasting: ({ kind }) => kind === "settle",
  });
  const grant_listeners: ((user_id: string) => Promise<void>)[] = [];
  const notifyGrant = async (user_id: string) => {
    for (const listener of grant_listeners) await listener(user_id);
  };

  const within = <T>(tx: Tx | undefined, work: (tx: Tx) => Promise<T>) =>
    tx === undefined ? db.transaction(work) : work(tx);

  return {
    async openAccount(tx, { user_id, trial }) {
      const now = clock.now();
      await insertAccount(tx, { user_id, trial_ends_at: trial?.ends_at ?? null, opened_at: now });
      if (trial === null || trial.tokens === 0) return;
      await insertGrant(
        tx,
        newId(),
        {
          user_id,
          amount_tokens: trial.tokens,
          source: "bonus" as const,
          grant_key: "trial",
          granted_at: now,
          expires_at: trial.ends_at,
          note: "Free trial",
        },
        now,
      );
    },
    async hold(request) {
      const held = commit({ kind: "hold", ...request }).catch((error: unknown) => {
        throw isRefusal(error) ? error : errors.databaseAway(error);
      });
      const outcome = (await held) as HoldOutcome | Superseded;
      if (outcome.status === "superseded") throw new HoldSupersededError(outcome.hook);
      return outcome;
    },
    settle: (request) => commit({ kind: "settle", ...request }) as Promise<SettleOutcome>,
    async release({ user_id, hold_id }) {
      await commit({ kind: "release", user_id, hold_id });
    },
    async progress(calls) {
      if (calls.length > 0) await noteProgress(db, calls);
    },
    async grant(request, tx) {
      if (tx !== undefined) return insertGrant(tx, newId(), request, clock.now());
      const bucket = await db.transaction((own) => insertGrant(own, newId(), request, clock.now()));
      await notifyGrant(request.user_id);
      return bucket;
    },
    clawBack: (request, tx) => within(tx, (own) => insertClawBack(own, request, clock.now())),
    reinstate: (request, tx) => within(tx, (own) => insertReinstatement(own, request, clock.now())),
    async adjust(tx, adjustment) {
      const { amount_tokens } = adjustment;
      if (amount_tokens > 0) return { bucket_id: await insertAdjustment(tx, newId(), adjustment, clock.now()) };
      const free = await takeTokens(tx, adjustment, clock.now());
      if (free < -amount_tokens) throw ledgerErrors.adjustmentTooLarge(free);
      return { bucket_id: null };
    },
    chargedAgents: (agents) => findChargedAgents(db, agents),
    forgetUser: forgetReasons,
    closeBucket: (tx, close) => closeBucket(tx, close, clock.now()),
    adjustedTokens: findAdjusted,
    bucket: (user_id, bucket_id) => findBucket(db, user_id, bucket_id, clock.now()),
    setOverage: ({ user_id, cap_tokens }, tx) => updateCap(tx ?? db, user_id, cap_tokens),
    overage: (user_id, tx) => findOverage(tx ?? db, user_id, tx === undefined ? "unlocked" : "locked"),
    closeOveragePeriod: ({ user_id, carried_tokens }, tx) =>
      within(tx, (own) => closePeriod(own, user_id, carried_tokens)),
    accountsWithOverage: (used_tokens, uncapped_tokens = used_tokens) =>
      listAccountsWithOverage(db, used_tokens, uncapped_tokens),
    onGrant: (listener) => void grant_listeners.push(listener),
    notifyGrant,
    accountsBelow: (thresholds, tx) => listAccountsBelow(tx ?? db, thresholds),
    async accountStatus(user_id) {
      const now = clock.now();
      const account = await findAccount(db, user_id, now);
      if (account === undefined) throw new Error(`the user ${user_id} has no account`);
      return toAccountStatus(account, now);
    },
    async buckets(user_id, page) {
      const now = clock.now();
      const [buckets, account] = await Promise.all([
        listBuckets(db, user_id, page, now),
        findAccount(db, user_id, now),
      ]);
      return { buckets, total_remaining: account?.posted ?? 0 };
    },
    entries: (user_id, filter, page) => listEntries(db, user_id, filter, page),
    lastSeq: (user_id) => findLastSeq(db, user_id),
    entryGroups: (user_id, filter, page) => listEntryGroups(db, user_id, filter, page),
    userHolds: (user_id, page) => listHolds(db, user_id, page),
    async *allEntries(user_id, filter) {
      yield* readEntries(await reads(), user_id, filter, EXPORT_ROWS);
    },
    async *usageLines(user_id, days) {
      yield* readUsageLines(await reads(), user_id, { days, now: clock.now(), limit: EXPORT_ROWS });
    },
    end_users: createEndUsersStore(db),
    usageGroups: (user_id, by) => listUsageGroups(db, user_id, by, clock.now()),
    charges: (user_id, request_id, limit) => listCharges(db, user_id, request_id, limit),
    archivedBefore: (user_id) => findArchivedBefore(db, user_id),
    usageBreakdown: async (user_id, request) =>
      readUsageBreakdown(db, user_id, request, await findArchivedBefore(db, user_id)),
    metadataNames: (user_id, window) => listMetadataNames(db, user_id, window),
    usage: (user_id, days) => readUsage(db, user_id, days, clock.now()),
    keySpends,
    async refills(user_ids, sql = db) {
      return new Map((await listRefills(sql, user_ids)).map(({ user_id, refills }) => [user_id, refills]));
    },
    sweep: () => sweepLedger({ db, clock, commit, notify: deps.notify }),
    beginStop,
    openHolds: () => countHolds(db),
    nextDueAt: (until) => findNextDue(db, clock.now(), until),
    audit: async () => runAudit(await reads(), invariants),
  };
}
