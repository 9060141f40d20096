import { createSweepFailures, type DueSource } from "../../platform/db/sweeper.ts";
import { addDays, addSeconds, monotonicMs } from "../../platform/lib/clock.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { BillingContext } from "./context.ts";
import { createMissedEventsStore, type ReadingProgress, type ReadingRow } from "./missed-events.store.ts";
import type { EventList, EventOutcome, EventPage, ListedEvent, PaymentEvent } from "./payments.types.ts";

/** Events per page. A turn of the sweep reads one page. */
const PAGE = 50;
/** A turn ends after this time, also in the middle of a page, so that a slow provider does not delay a shutdown. */
const TURN_MS = 30_000;
/** The time that the webhook has to deliver an event before it is read. */
const DELAY_SECONDS = 300;
/** Windows overlap, because an event may appear in the list late. */
const OVERLAP_SECONDS = 300;
const INTERVAL_SECONDS = 300;
/** Longer than a turn with its last requests. */
const LEASE_SECONDS = 300;
/** A window begins again after this number of failures, and after each multiple of it. */
const RESTART_FAILURES = 3;
const BACKOFF_SECONDS = { first: 60, most: 3_600 } as const;

/** A page was read, or not. `missed` is the number of events that no webhook delivered and that had an effect. */
export type OnEventsRead = (read: { failed: boolean; missed: number }) => void;

/**
 * Reads the provider's list of events and applies those that its webhook did not deliver, as the webhook would. The list is
 * read in windows of time, the newest event first. The position is in the database, so any node continues.
 */
export function createMissedEvents(
  context: BillingContext,
  deps: { apply(event: PaymentEvent): Promise<EventOutcome>; onRead: OnEventsRead },
): DueSource {
  const { db, orders, payments, log } = context;
  const store = createMissedEventsStore(db);
  let begun = false;

  const claim = async ({ kept_days }: EventList): Promise<ReadingRow | undefined> => {
    if (payments.provider === "none") return undefined;
    if (!begun) await store.begin(payments.provider, kept_days);
    begun = true;
    const row = await store.claim(payments.provider, { delay_seconds: DELAY_SECONDS, lease_seconds: LEASE_SECONDS });
    const is_too_old = row?.after_event === null && row.read_from < addDays(row.read_to, -kept_days - 1);
    if (is_too_old)
      log.warn({ since: row.read_from, kept_days }, "payment events are older than the provider keeps them");
    return row;
  };

  /** Applies one event. Resolves to 1 if it was missed, otherwise to 0. */
  const applyListed = async ({ event_id, paymentEvents }: ListedEvent): Promise<number> => {
    const reported = await paymentEvents();
    if (reported === null) log.warn({ event_id }, "the object of a payment event does not exist any more");
    let missed = 0;
    for (const event of reported ?? []) if ((await deps.apply(event)) === "applied") missed = 1;
    return missed;
  };

  /** Applies the events of a page that are not stored yet. A failed one does not stop the others. */
  const applyPage = async ({ provider }: ReadingRow, { events, has_more }: EventPage) => {
    const { attempt, throwAny } = createSweepFailures("payment events");
    const ids = events.map(({ event_id }) => event_id);
    const known = await orders.knownEvents(provider, ids);
    const end_ms = monotonicMs() + TURN_MS;
    const unfinished = new Set<ListedEvent>();
    let missed = 0;
    let last: ListedEvent | undefined;
    for (const event of events) {
      if (last !== undefined && monotonicMs() > end_ms) break;
      last = event;
      if (known.has(event.event_id)) continue;
      unfinished.add(event);
      await attempt(
        applyListed(event).then(
          (count) => {
            unfinished.delete(event);
            missed += count;
          },
          (error: unknown) => {
            log.warn(
              { event_id: event.event_id, error: explainReason(error) },
              "a payment event failed; it is read again",
            );
            throw error;
          },
        ),
      );
    }
    // the newest comes first, so the last one that failed is the oldest
    const failed_at = [...unfinished].at(-1)?.created_at ?? null;
    const continues_after = has_more || last !== events.at(-1) ? (last?.event_id ?? null) : null;
    return { failed_at, continues_after, missed, throwAny };
  };

  const readPage = async (list: EventList, row: ReadingRow): Promise<void> => {
    const from = addSeconds(row.read_from, -OVERLAP_SECONDS);
    const page = await list.page({ from, to: row.read_to, after: row.after_event, limit: PAGE });
    const { throwAny, missed, ...result } = await applyPage(row, page);
    await store.advance(row, progressAfter({ ...row, read_to: readTo(row, page) }, result));
    if (missed > 0)
      log.warn({ missed }, "the payment provider's webhook did not deliver events; they were read from its list");
    deps.onRead({ failed: result.failed_at !== null, missed });
    throwAny();
  };

  return {
    name: "missed payment events",
    nextDueAt: async () => null,
    async carryOut() {
      const list = payments.event_list;
      if (list === undefined) return;
      const row = await claim(list);
      if (row === undefined) return;
      try {
        await readPage(list, row);
      } catch (error) {
        // changes nothing if the page was read and only some of its events failed
        const is_stored = await store.advance(row, progressAfterFailure(row));
        if (is_stored) {
          log.warn({ error: explainReason(error) }, "the payment provider's list of events was not read");
          deps.onRead({ failed: true, missed: 0 });
        }
        throw error;
      }
    },
  };
}

/** The end of the window. The provider's clock counts: if the database's is ahead, the events between them are still to come. */
function readTo({ read_to }: ReadingRow, { listed_at }: EventPage): Instant {
  const listed_to = listed_at === null ? read_to : addSeconds(listed_at, -DELAY_SECONDS);
  return listed_to < read_to ? listed_to : read_to;
}

/** The position after a page. `failed_at`: the oldest event that failed; `continues_after`: null at the end of the window. */
function progressAfter(
  row: ReadingRow,
  { failed_at, continues_after }: { failed_at: Instant | null; continues_after: string | null },
): ReadingProgress {
  // pages go back in time, so a failure of this page is older than those before
  const retry_from = failed_at ?? row.retry_from;
  const failures = failed_at === null ? row.failures : row.failures + 1;
  if (continues_after !== null) {
    const next_seconds = failed_at === null ? 0 : backoff(failures);
    return { ...row, after_event: continues_after, retry_from, failures, next_seconds };
  }
  const window = { read_to: null, after_event: null, retry_from: null };
  if (retry_from === null) return { ...window, read_from: row.read_to, failures: 0, next_seconds: INTERVAL_SECONDS };
  return { ...window, read_from: retry_from, failures, next_seconds: backoff(failures) };
}

/**
 * The page was not read. After some failures the window begins again, because the provider may not keep the event at its
 * position any more. Not at once: a long window would never end.
 */
function progressAfterFailure(row: ReadingRow): ReadingProgress {
  const failures = row.failures + 1;
  const after_event = failures % RESTART_FAILURES === 0 ? null : row.after_event;
  return { ...row, after_event, failures, next_seconds: backoff(failures) };
}

/** The provider's own reason, such as a right that the key lacks: the error around it has a text for users. */
function explainReason(error: unknown): unknown {
  return (error instanceof Error ? error.cause : undefined) ?? error;
}

function backoff(failures: number): number {
  return Math.min(BACKOFF_SECONDS.first * 2 ** Math.min(failures - 1, 10), BACKOFF_SECONDS.most);
}
