import { errors } from "../errors.ts";
import type { EventFeed } from "../platform/event-stream.ts";
import type { Log } from "../platform/log.ts";
import { eventText, NOTHING_TOLD, newsOf, previewText, type Told } from "./run-events.ts";
import type { Runs } from "./runs.service.ts";

/** Polling interval for changes on other nodes: one query for all runs that are followed here. */
const POLL_MS = 400;
/** Sends a keep-alive after this time, because proxies close silent connections. */
const KEEP_ALIVE_MS = 15_000;
/** Previews beyond this size are dropped for a follower that does not read. */
const MAX_PREVIEW_CHARACTERS = 65_536;
const DONE = { done: true, value: undefined } as const;

/** A run with followers on this node. They share its state. */
interface Followed {
  user_id: string;
  run_id: string;
  told: Told;
  /** All events so far, as text to send; event n is at index n − 1. */
  texts: string[];
  followers: Set<Follower>;
  /** The fingerprint of the last poll; null before the first. */
  mark: string | null;
  over: boolean;
  reading: Promise<void> | null;
  read_again: boolean;
}

interface Follower {
  preview: string;
  wake(): void;
}

/**
 * Streams the events of runs from the first one on, whichever node executes them. Changes on this node are sent at
 * once. Changes on other nodes are polled only while there are followers.
 */
export function createRunFollowers({ runs, log }: { runs: Runs; log: Log }) {
  const followed = new Map<string, Followed>();
  let timer: NodeJS.Timeout | undefined;
  let polling = false;
  let ended = false;

  /** Reads new events and sends them to all followers. A call during a read makes it read again. */
  function read(run: Followed): Promise<void> {
    run.read_again = run.reading !== null;
    run.reading ??= readNews(run).finally(() => {
      run.reading = null;
      wake(run);
      if (run.read_again) void refresh(run.run_id);
    });
    return run.reading;
  }

  async function readNews(run: Followed): Promise<void> {
    const found = await runs.follow({ ...run, from_step: run.told.steps });
    if (found === undefined) {
      run.over = true;
    } else {
      const { news, told } = newsOf(found, run.told);
      run.told = told;
      run.texts.push(...news.map(eventText));
      run.over = told.finished;
      // The step now has the text of the preview.
      if (news.some(({ event }) => event === "step.finished")) for (const each of run.followers) each.preview = "";
    }
  }

  /**
   * Reads until event number `event` is known, if it exists. Another node may have sent events that this node has not
   * read.
   */
  async function readUpTo(run: Followed, event: number): Promise<void> {
    // The first read may have started before this call.
    for (let look = 0; look < 2 && run.texts.length < event && !run.over; look++) await read(run);
  }

  async function refresh(run_id: string): Promise<void> {
    const run = followed.get(run_id);
    if (run === undefined || run.over) return;
    await read(run).catch((error: Error) => log.warn({ run_id, error: error.message }, "a run's events were not read"));
  }

  async function poll(): Promise<void> {
    if (polling) return;
    polling = true;
    try {
      const open = [...followed.values()].filter(({ over }) => !over);
      const marks = await runs.marks(open.map(({ user_id, run_id }) => ({ user_id, run_id })));
      for (const run of open) {
        const mark = marks.get(run.run_id) ?? "gone";
        if (run.mark !== mark) await refresh(run.run_id);
        run.mark = mark;
      }
    } catch (error) {
      log.warn({ error: (error as Error).message }, "followed runs were not looked at");
    } finally {
      polling = false;
    }
  }

  function open(user_id: string, run_id: string): Followed {
    const fresh: Followed = {
      user_id,
      run_id,
      told: NOTHING_TOLD,
      texts: [],
      followers: new Set(),
      mark: null,
      over: false,
      reading: null,
      read_again: false,
    };
    const run = followed.get(run_id) ?? fresh;
    followed.set(run_id, run);
    timer ??= setInterval(() => void poll(), POLL_MS).unref();
    return run;
  }

  function close(run: Followed, follower: Follower): void {
    run.followers.delete(follower);
    follower.wake();
    if (run.followers.size > 0) return;
    if (followed.get(run.run_id) === run) followed.delete(run.run_id);
    if (followed.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  }

  return {
    /**
     * The events after number `after` of an existing run; null when the run has ended and all were sent. 400 when event
     * `after` does not exist, because its follower would never receive anything.
     */
    async follow(user_id: string, run_id: string, after: number): Promise<EventFeed | null> {
      const run = open(user_id, run_id);
      let news = Promise.withResolvers<void>();
      const follower: Follower = { preview: "", wake: () => news.resolve() };
      run.followers.add(follower);
      let sent = after;
      let left = false;
      const leave = () => {
        left = true;
        close(run, follower);
      };
      try {
        await readUpTo(run, Math.max(1, after));
        if (after > run.texts.length && !isGone(run)) throw notAnId();
      } catch (error) {
        leave();
        throw error;
      }
      if (run.over && sent >= run.texts.length) {
        leave();
        return null;
      }
      /** The unsent events and the preview; empty when there are none. */
      const take = (): string => {
        const texts = run.texts.slice(sent);
        sent += texts.length;
        // During a read, the start event of the preview's step may not have been sent yet.
        if (follower.preview === "" || run.reading !== null) return texts.join("");
        const preview = previewText(follower.preview);
        follower.preview = "";
        return texts.join("") + preview;
      };
      const next = async (): Promise<IteratorResult<string, undefined>> => {
        for (;;) {
          news = Promise.withResolvers();
          const value = take();
          if (value !== "") return { done: false, value };
          if (run.over || left || ended) {
            leave();
            return DONE;
          }
          if (await isSilent(news.promise)) return { done: false, value: ": keep-alive\n\n" };
        }
      };
      return { next, leave };
    },
    /** Call it when a run has changed on this node. It costs nothing when the run has no followers. */
    happened(run_id: string): void {
      if (followed.has(run_id)) void refresh(run_id);
    },
    /** The run's model has generated this text. */
    generated(run_id: string, text: string): void {
      const run = followed.get(run_id);
      if (run === undefined) return;
      for (const follower of run.followers) {
        if (follower.preview.length + text.length <= MAX_PREVIEW_CHARACTERS) follower.preview += text;
      }
      wake(run);
    },
    /** Ends all streams at shutdown. Another node continues them from the last id. */
    end(): void {
      ended = true;
      clearInterval(timer);
      for (const run of followed.values()) wake(run);
    },
  };
}

export type RunFollowers = ReturnType<typeof createRunFollowers>;

/** The run was erased with its user, so no events follow. */
function isGone({ over, told }: Followed): boolean {
  return over && !told.finished;
}

function notAnId(): Error {
  return errors.invalidValue(
    "Last-Event-ID",
    "Last-Event-ID is not an id of this stream's events. Leave it out to begin anew.",
  );
}

function wake({ followers }: Followed): void {
  for (const follower of followers) follower.wake();
}

/** Whether KEEP_ALIVE_MS pass without new events. */
async function isSilent(news: Promise<void>): Promise<boolean> {
  const silence = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => silence.resolve(true), KEEP_ALIVE_MS).unref();
  const is_silent = await Promise.race([silence.promise, news.then(() => false)]);
  clearTimeout(timer);
  return is_silent;
}

/** The number in a Last-Event-ID header; 0 without the header. 400 when it is invalid. */
export function lastEventId(header: string | undefined): number {
  if (header === undefined || header === "") return 0;
  if (/^\d{1,9}$/.test(header)) return Number(header);
  throw notAnId();
}
