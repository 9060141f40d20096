import type { Log } from "../../platform/telemetry/log.ts";
import { type EventCursor, eventText, newEvents, START } from "./run-events.ts";
import type { Runs } from "./runs.service.ts";

/** Polling interval for changes on other nodes: one query for all runs that are followed here. */
const POLL_MS = 400;

/** A run with followers on this node. They share its state. */
export interface FollowedRun {
  readonly user_id: string;
  readonly run_id: string;
  cursor: EventCursor;
  /** All events so far, as text to send; event n is at index n − 1. */
  texts: string[];
  followers: Set<Follower>;
  /** The fingerprint of the last poll; null before the first. */
  fingerprint: string | null;
  /** No more events follow. */
  over: boolean;
  reading: Promise<void> | null;
  read_again: boolean;
}

export interface Follower {
  wake(): void;
}

/** The runs that are followed on this node. Their events are read at a change here, and polled for changes elsewhere. */
export function createFollowedRuns({ runs, log }: { runs: Pick<Runs, "follow" | "fingerprints">; log: Log }) {
  const followed = new Map<string, FollowedRun>();
  let timer: NodeJS.Timeout | undefined;
  let polling = false;

  /** Reads new events and sends them to all followers. A call during a read makes it read again. */
  function read(run: FollowedRun): Promise<void> {
    run.read_again = run.reading !== null;
    run.reading ??= readOnce(runs, run).finally(() => {
      run.reading = null;
      wakeAll(run);
      if (run.read_again) void refresh(run.run_id);
    });
    return run.reading;
  }

  async function refresh(run_id: string): Promise<void> {
    const run = followed.get(run_id);
    if (run === undefined || run.over) return;
    await read(run).catch((error: Error) => log.warn({ run_id, error }, "a run's events were not read"));
  }

  async function poll(): Promise<void> {
    if (polling) return;
    polling = true;
    try {
      const open = [...followed.values()].filter(({ over }) => !over);
      const fingerprints = await runs.fingerprints(open.map(({ user_id, run_id }) => ({ user_id, run_id })));
      for (const run of open) {
        const fingerprint = fingerprints.get(run.run_id) ?? "deleted";
        if (run.fingerprint !== fingerprint) await refresh(run.run_id);
        run.fingerprint = fingerprint;
      }
    } catch (error) {
      log.warn({ error }, "changes of followed runs were not read");
    } finally {
      polling = false;
    }
  }

  return {
    /** The run's shared state, with one more follower. */
    join(user_id: string, run_id: string, follower: Follower): FollowedRun {
      const run = followed.get(run_id) ?? newFollowedRun(user_id, run_id);
      followed.set(run_id, run);
      run.followers.add(follower);
      timer ??= setInterval(() => void poll(), POLL_MS).unref();
      return run;
    },
    leave(run: FollowedRun, follower: Follower): void {
      run.followers.delete(follower);
      follower.wake();
      if (run.followers.size > 0) return;
      if (followed.get(run.run_id) === run) followed.delete(run.run_id);
      if (followed.size > 0) return;
      clearInterval(timer);
      timer = undefined;
    },
    /**
     * Reads until event number `event` is known, if it exists. Another node may have sent events that this node has not
     * read.
     */
    async readUpTo(run: FollowedRun, event: number): Promise<void> {
      // The first read may have started before this call.
      for (let tries = 0; tries < 2 && run.texts.length < event && !run.over; tries++) await read(run);
    },
    refresh,
    get: (run_id: string): FollowedRun | undefined => followed.get(run_id),
    end(): void {
      clearInterval(timer);
      for (const run of followed.values()) wakeAll(run);
    },
  };
}

function newFollowedRun(user_id: string, run_id: string): FollowedRun {
  return {
    user_id,
    run_id,
    cursor: START,
    texts: [],
    followers: new Set(),
    fingerprint: null,
    over: false,
    reading: null,
    read_again: false,
  };
}

/** Adds the events since the run's cursor to its texts. */
async function readOnce(runs: Pick<Runs, "follow">, run: FollowedRun): Promise<void> {
  const found = await runs.follow({ ...run, from_step: run.cursor.steps });
  if (found === undefined) {
    run.over = true;
    return;
  }
  const { events, cursor } = newEvents(found, run.cursor);
  run.cursor = cursor;
  run.texts.push(...events.map(eventText));
  run.over = cursor.finished;
}

/** Makes each follower look for unsent events. */
export function wakeAll({ followers }: FollowedRun): void {
  for (const follower of followers) follower.wake();
}
