import type { FailedCall } from "../../api/http/failed-calls.ts";
import { FAILED_REQUESTS } from "../../kernel/constants.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import type { Reads } from "../../platform/db/standby.ts";
import { addDays, type Clock } from "../../platform/lib/clock.ts";
import { newId } from "../../platform/lib/ids.ts";
import { createTokenBuckets } from "../../platform/lib/token-bucket.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import {
  deleteFailedOf,
  deleteOldFailed,
  type FailedRow,
  insertFailed,
  listRequests,
  type RequestFilter,
  type RequestRow,
} from "./requests.store.ts";

/** Requests are written together, after at most this time. */
const WRITE_MS = 500;
/** Requests that wait to be written. Further ones are lost: the database is away, and they have no money in them. */
const MAX_WAITING = 2_000;
/** Rows per query of an export. */
const EXPORT_ROWS = 1_000;

/** The request log: settled calls of the ledger, and failed requests, which it records itself. */
export function createRequests({ db, clock, log, reads }: { db: Db; clock: Clock; log: Log; reads: Reads }) {
  // A flood of one kind hides no failure of the other: most floods are 429.
  const { per_minute } = FAILED_REQUESTS;
  const recorded = createTokenBuckets({ size: per_minute, refill_s: 60 });
  let waiting: FailedRow[] = [];
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> = Promise.resolve();

  const write = (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    const rows = waiting;
    waiting = [];
    if (rows.length > 0) {
      writing = writing
        .then(() => insertFailed(db, rows))
        .catch((error: Error) =>
          log.warn({ error, requests: rows.length }, "failed requests are not in the request log"),
        );
    }
    return writing;
  };

  return {
    /** Records a failed request within a second, unless its user has recorded too many of its kind in this minute. */
    record({ hold_id, ...call }: FailedCall): void {
      const kind = call.http_status === 429 ? "limited" : "other";
      if (waiting.length >= MAX_WAITING || recorded.take(`${kind} ${call.user_id}`).retry_after_s !== null) return;
      waiting.push({ ...call, id: hold_id ?? newId(), created_at: clock.now() });
      timer ??= setTimeout(() => void write(), WRITE_MS).unref();
    },
    /** Newest first. `before_id`: the last one of the page before. */
    list: (filter: RequestFilter, page: { limit: number; before_id: string | null }): Promise<RequestRow[]> =>
      listRequests(db, filter, page),
    /** All that match, newest first, in pages. */
    async *all(filter: RequestFilter): AsyncGenerator<RequestRow[]> {
      const reader = await reads();
      for (let before_id: string | null = null; ; ) {
        const rows: RequestRow[] = await listRequests(reader, filter, { limit: EXPORT_ROWS, before_id });
        if (rows.length > 0) yield rows;
        if (rows.length < EXPORT_ROWS) return;
        before_id = rows.at(-1)?.id ?? null;
      }
    },
    /** Deletes old failed requests; called periodically. */
    sweep: () => deleteOldFailed(db, addDays(clock.now(), -FAILED_REQUESTS.kept_days), FAILED_REQUESTS.kept),
    async forgetUser(tx: Tx, user_id: string): Promise<void> {
      waiting = waiting.filter((row) => row.user_id !== user_id);
      await deleteFailedOf(tx, user_id);
    },
    /** Writes what waits. */
    close: write,
  };
}

export type Requests = ReturnType<typeof createRequests>;
