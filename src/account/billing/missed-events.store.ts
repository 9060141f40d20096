import type { Db } from "../../platform/db/db.ts";
import { firstRow } from "../../platform/db/statements.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { ProviderName } from "./payments.types.ts";

/** How far the list of events of a provider was read, while a window is being read. */
export interface ReadingRow {
  provider: ProviderName;
  read_from: Instant;
  read_to: Instant;
  after_event: string | null;
  retry_from: Instant | null;
  failures: number;
}

/** The position after a page. `read_to`: null at the end of the window. The next page is read after `next_seconds`. */
export type ReadingProgress = Omit<ReadingRow, "provider" | "read_to"> & {
  read_to: Instant | null;
  next_seconds: number;
};

/** All times are the database's real time. */
export function createMissedEventsStore(db: Db) {
  return {
    /** Begins now, or with the events of the last `kept_days` if the provider has customers already. */
    begin: (provider: ProviderName, kept_days: number) =>
      db.query({
        text: `insert into payment_event_reading (provider, read_from, next_read_at)
          select $1, now() - make_interval(days => case when exists (
            select from billing_account where customer_provider = $1) then $2 else 0 end), now()
          on conflict do nothing`,
        values: [provider, kept_days],
      }),
    /** Claims the reading if it is due, for `lease_seconds`. A new window ends `delay_seconds` ago. */
    claim: (
      provider: ProviderName,
      { delay_seconds, lease_seconds }: { delay_seconds: number; lease_seconds: number },
    ) =>
      firstRow<ReadingRow>(db, {
        name: "payment_event_reading_claim",
        text: `update payment_event_reading
          set next_read_at = now() + make_interval(secs => $3),
            read_to = coalesce(read_to, greatest(read_from, now() - make_interval(secs => $2)))
          where provider = $1 and next_read_at <= now()
          returning provider, read_from, read_to, after_event, retry_from, failures`,
        values: [provider, delay_seconds, lease_seconds],
      }),
    /** Stores the position, unless it has changed since `from`. Resolves to whether it was stored. */
    async advance(from: ReadingRow, to: ReadingProgress): Promise<boolean> {
      const { read_from, read_to, after_event, retry_from, failures, next_seconds } = to;
      const stored = await db.query({
        text: `update payment_event_reading set read_from = $5, read_to = $6, after_event = $7, retry_from = $8,
            failures = $9, next_read_at = now() + make_interval(secs => $10)
          where provider = $1 and read_to = $2 and after_event is not distinct from $3 and failures = $4
          returning provider`,
        values: [
          from.provider,
          from.read_to,
          from.after_event,
          from.failures,
          read_from,
          read_to,
          after_event,
          retry_from,
          failures,
          next_seconds,
        ],
      });
      return stored.length > 0;
    },
  };
}
