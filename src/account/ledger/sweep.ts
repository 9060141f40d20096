import type { Db, Tx } from "../../platform/db/db.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import {
  type CrossingKey,
  listCrossings,
  listDeadHolds,
  type Operation,
  sweepExpired,
  takeCrossing,
} from "./ledger.store.ts";
import type { Crossing } from "./ledger.types.ts";

/** Accounts, holds or crossings per step. It limits what a sweep locks or reads at once. */
const STEP = 200;
/** Most failures in the error of one sweep. The next sweep reports failures that persist. */
const MAX_REPORTED = 5;

/** Handles a crossing, in the transaction that deletes it. */
export type OnCrossing = (crossing: Crossing, tx: Tx) => Promise<void>;

interface Sweep {
  db: Db;
  clock: Clock;
  commit(operation: Operation): Promise<unknown>;
  notify: OnCrossing | undefined;
  /** Records a failure; the sweep continues. */
  failed(what: string, error: unknown): void;
}

/**
 * Ends holds with an expired lease, closes expired buckets and notifies crossings. A failure does not stop the sweep:
 * it is left to the next sweep and reported by an error at the end.
 */
export async function sweepLedger(options: Omit<Sweep, "failed">): Promise<void> {
  const failures: Error[] = [];
  const failed: Sweep["failed"] = (what, cause) =>
    failures.push(new Error(`${what}: ${(cause as Error).message}`, { cause }));
  const sweep = { ...options, failed };
  await endDeadHolds(sweep).catch((error: unknown) => failed("dead holds", error));
  await closeExpired(sweep).catch((error: unknown) => failed("expired buckets", error));
  await notifyCrossings(sweep).catch((error: unknown) => failed("crossings", error));
  if (failures.length > 0) {
    const reported = failures.slice(0, MAX_REPORTED).map(({ message }) => message);
    throw new AggregateError(failures, `${failures.length} failed, the rest is done: ${reported.join("; ")}`);
  }
}

/** Ends holds with an expired lease. Skips a hold that was settled meanwhile. */
async function endDeadHolds({ db, commit, failed }: Sweep): Promise<void> {
  const except: string[] = [];
  for (;;) {
    const dead = await listDeadHolds(db, { except, limit: STEP });
    const end = (hold: (typeof dead)[number]) =>
      commit(hold).catch((error: unknown) => {
        except.push(hold.hold_id);
        failed(`hold ${hold.hold_id} of ${hold.user_id}`, error);
      });
    await Promise.all(dead.map(end));
    if (dead.length < STEP) return;
  }
}

async function closeExpired({ db, clock, failed }: Sweep): Promise<void> {
  for (let after: string | null = null; ; ) {
    const swept = await sweepExpired(db, clock.now(), { after, limit: STEP });
    for (const { user_id, failure } of swept) {
      if (failure !== null) failed(`account ${user_id}`, new Error(failure));
    }
    after = swept.at(-1)?.user_id ?? after;
    if (swept.length < STEP) return;
  }
}

/** Notifies each crossing in its own transaction. Without `notify`, the crossings stay. */
async function notifyCrossings({ db, notify, failed }: Sweep): Promise<void> {
  if (notify === undefined) return;
  for (let after: CrossingKey | null = null; ; ) {
    const pending: CrossingKey[] = await listCrossings(db, after, STEP);
    for (const key of pending) {
      await notifyOne(db, key, notify).catch((error: unknown) =>
        failed(`crossing ${key.seq} of ${key.user_id}`, error),
      );
    }
    after = pending.at(-1) ?? after;
    if (pending.length < STEP) return;
  }
}

async function notifyOne(db: Db, key: CrossingKey, notify: OnCrossing): Promise<void> {
  await db.transaction(async (tx) => {
    const crossing = await takeCrossing(tx, key);
    if (crossing === undefined) return;
    await notify(crossing, tx);
  });
}
