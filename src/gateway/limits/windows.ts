import { errors } from "../../kernel/errors.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import type { Answer, Ask } from "./limits.store.ts";

/** A node asks ahead for the requests that it expects in this time. */
const AHEAD_MS = 500;
/** Requests that were taken ahead and not used for this time are returned. */
const UNUSED_MS = 1_000;
/** A full window is read again after this time at most, because other nodes return requests. */
const LOOK_AGAIN_MS = 1_000;
/** A window of tokens is read again after this time. */
const STALE_MS = 1_000;
/** Longer than any call: its tokens still find their window. */
const KEPT_MS = 900_000;
/** Requests of one subject that wait for one answer of the database. */
const MAX_WAITING = 10_000;
const TICK_MS = 500;

/** The state of a limit at one request. */
export interface Taken {
  limit: number;
  left: number;
  /** Until the window has something free, or more of it. */
  frees_in_s: number;
  granted: boolean;
}

/** A limited subject as this node knows it. */
interface Window {
  subject: string;
  limit: number;
  /** Requests that this node may still grant, and the slot that they were taken from. */
  left: number;
  slot: number | null;
  /** Used in the window by all nodes, at the last exchange; tokens of this node that are not in it. */
  used: number;
  spent: number;
  asked: number;
  asked_since_ms: number;
  used_at_ms: number;
  read_at_ms: number | null;
  frees_at_ms: number;
  full_until_ms: number;
  returned: number;
  waiting: PromiseWithResolvers<Taken>[];
}

/**
 * Counts the requests and tokens of limited subjects over all nodes. The database has one window per subject; a node
 * takes requests from it ahead of time, so a request seldom waits for it. README.md has the rules.
 */
export function createWindows({ exchange }: { exchange(asks: readonly Ask[]): Promise<Answer[]> }) {
  const windows = new Map<string, Window>();
  const due = new Set<Window>();
  let exchanging: Promise<void> | null = null;

  function getWindow(subject: string, limit: number): Window {
    const known = windows.get(subject);
    const now = monotonicMs();
    if (known === undefined) {
      const made: Window = {
        subject,
        limit,
        left: 0,
        slot: null,
        used: 0,
        spent: 0,
        asked: 0,
        asked_since_ms: now,
        used_at_ms: now,
        read_at_ms: null,
        frees_at_ms: now,
        full_until_ms: 0,
        returned: 0,
        waiting: [],
      };
      windows.set(subject, made);
      return made;
    }
    if (known.limit !== limit) Object.assign(known, { limit, full_until_ms: 0 });
    known.used_at_ms = now;
    return known;
  }

  function ask(window: Window): void {
    due.add(window);
    exchanging ??= run();
  }

  /** One exchange at a time: the subjects that come meanwhile share the next one. */
  async function run(): Promise<void> {
    await Promise.resolve();
    while (due.size > 0) {
      const batch = [...due];
      due.clear();
      const asks = batch.map(toAsk);
      try {
        const answers = await exchange(asks);
        for (const answer of answers) {
          const window = batch[answer.place] as Window;
          // Until now they counted as spent here, because calls may begin meanwhile.
          window.spent -= asks[answer.place]?.spent ?? 0;
          apply(window, answer);
          // They came while the database was asked.
          if (window.waiting.length > 0) due.add(window);
        }
      } catch (error) {
        for (const { waiting } of batch) for (const { reject } of waiting.splice(0)) reject(errors.databaseAway(error));
      }
    }
    // At once: a caller that continues after its answer may ask for another subject before a later microtask.
    exchanging = null;
  }

  return {
    /** Takes one request. A promise only if this node has none left. */
    take(subject: string, limit: number): Taken | Promise<Taken> {
      const window = getWindow(subject, limit);
      window.asked += 1;
      if (window.left > 0) {
        window.left -= 1;
        if (window.left <= estimateAsked(window) / 2 && monotonicMs() >= window.full_until_ms) ask(window);
        return toTaken(window, true);
      }
      if (monotonicMs() < window.full_until_ms || window.waiting.length >= MAX_WAITING) return toTaken(window, false);
      const waiter = Promise.withResolvers<Taken>();
      window.waiting.push(waiter);
      ask(window);
      return waiter.promise;
    },
    /** Whether a call that uses tokens may begin. A promise only if this node does not know the window. */
    mayBegin(subject: string, limit: number): Taken | Promise<Taken> {
      const window = getWindow(subject, limit);
      const is_full = window.used + window.spent >= limit;
      if (window.read_at_ms === null || (is_full && monotonicMs() >= window.full_until_ms)) {
        const waiter = Promise.withResolvers<Taken>();
        window.waiting.push(waiter);
        ask(window);
        return waiter.promise.then(() => toTaken(window, window.used + window.spent < limit));
      }
      if (monotonicMs() - window.read_at_ms > STALE_MS) ask(window);
      return toTaken(window, !is_full);
    },
    /** Records the tokens of a call, if its subject is limited here. */
    spend(subject: string, tokens: number): void {
      const window = windows.get(subject);
      if (window === undefined || tokens === 0) return;
      window.spent += tokens;
      ask(window);
    },
    /** Returns unused requests, and forgets idle windows. Call it every TICK_MS. */
    tick(): void {
      const now = monotonicMs();
      for (const window of windows.values()) {
        const idle_ms = now - window.used_at_ms;
        if (window.left > 0 && idle_ms >= UNUSED_MS) giveBack(window);
        if (idle_ms >= KEPT_MS && !due.has(window)) windows.delete(window.subject);
      }
    },
    async close(): Promise<void> {
      for (const window of windows.values()) if (window.left > 0) giveBack(window);
      await exchanging;
    },
    tick_ms: TICK_MS,
  };

  function giveBack(window: Window): void {
    window.returned += window.left;
    window.left = 0;
    ask(window);
  }
}

const isOfTokens = ({ subject }: Window) => subject.startsWith("tokens:");

function toAsk(window: Window, place: number): Ask {
  const { subject, limit, spent, returned, slot } = window;
  const needed = isOfTokens(window) ? 0 : Math.max(0, window.waiting.length - window.left);
  const wanted = isOfTokens(window) || returned > 0 ? 0 : estimateAsked(window);
  window.returned = 0;
  return { place, subject, most: limit, needed, wanted, spent, returned, slot };
}

/** The requests of the next AHEAD_MS, if they come as often as lately. */
function estimateAsked(window: Window): number {
  const elapsed_ms = Math.max(AHEAD_MS, monotonicMs() - window.asked_since_ms);
  return Math.ceil((window.asked * AHEAD_MS) / elapsed_ms) - 1;
}

function apply(window: Window, { granted, used, slot, frees_in_ms }: Answer): void {
  const now = monotonicMs();
  window.left += granted;
  if (granted > 0) window.slot = slot;
  window.used = used;
  window.read_at_ms = now;
  window.frees_at_ms = now + frees_in_ms;
  if (now - window.asked_since_ms > 2 * AHEAD_MS) Object.assign(window, { asked: 0, asked_since_ms: now });
  const is_full = used >= window.limit;
  window.full_until_ms = is_full ? now + Math.min(frees_in_ms, LOOK_AGAIN_MS) : 0;
  const answered = isOfTokens(window) || is_full ? window.waiting.length : window.left;
  for (const waiter of window.waiting.splice(0, answered)) {
    const is_granted = isOfTokens(window) || window.left > 0;
    if (!isOfTokens(window) && is_granted) window.left -= 1;
    waiter.resolve(toTaken(window, is_granted));
  }
}

function toTaken({ limit, left, used, spent, frees_at_ms }: Window, granted: boolean): Taken {
  const frees_in_s = Math.max(0, (frees_at_ms - monotonicMs()) / 1_000);
  return { limit, left: Math.max(0, limit - used - spent + left), frees_in_s, granted };
}
