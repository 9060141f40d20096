import { errors } from "../errors.ts";
import type { EventFeed } from "../platform/event-stream.ts";
import type { Log } from "../platform/log.ts";
import { createFollowedRuns, type FollowedRun, type Follower, wakeAll } from "./followed-runs.ts";
import { previewText } from "./run-events.ts";
import type { Runs } from "./runs.service.ts";

/** Sends a keep-alive after this time, because proxies close silent connections. */
const KEEP_ALIVE_MS = 15_000;
/** Previews beyond this size are dropped for a follower that does not read. */
const MAX_PREVIEW_CHARACTERS = 65_536;
const DONE = { done: true, value: undefined } as const;

/**
 * Streams the events of runs from the first one on, whichever node executes them. Changes on this node are sent at
 * once. Changes on other nodes are polled only while there are followers.
 */
export function createRunFollowers(deps: { runs: Runs; log: Log }) {
  const followed = createFollowedRuns(deps);
  let ended = false;

  return {
    /**
     * The events after number `after` of an existing run; null when the run has ended and all were sent. 400 when event
     * `after` does not exist, because its follower would never receive anything.
     */
    async follow(user_id: string, run_id: string, after: number): Promise<EventFeed | null> {
      let changed = Promise.withResolvers<void>();
      const follower: Follower = { preview: "", wake: () => changed.resolve() };
      const run = followed.join(user_id, run_id, follower);
      let left = false;
      const leave = () => {
        left = true;
        followed.leave(run, follower);
      };
      try {
        await followed.readUpTo(run, Math.max(1, after));
        if (after > run.texts.length && !isDeleted(run)) throw invalidEventId();
      } catch (error) {
        leave();
        throw error;
      }
      if (run.over && after >= run.texts.length) {
        leave();
        return null;
      }
      const take = unsentTexts(run, follower, after);
      const next = async (): Promise<IteratorResult<string, undefined>> => {
        for (;;) {
          changed = Promise.withResolvers();
          const value = take();
          if (value !== "") return { done: false, value };
          if (run.over || left || ended) {
            leave();
            return DONE;
          }
          if (await isSilent(changed.promise)) return { done: false, value: ": keep-alive\n\n" };
        }
      };
      return { next, leave };
    },
    /** Call it when a run has changed on this node. It costs nothing when the run has no followers. */
    happened(run_id: string): void {
      if (followed.get(run_id) !== undefined) void followed.refresh(run_id);
    },
    /** The run's model has generated this text. */
    generated(run_id: string, text: string): void {
      const run = followed.get(run_id);
      if (run === undefined) return;
      for (const follower of run.followers) {
        if (follower.preview.length + text.length <= MAX_PREVIEW_CHARACTERS) follower.preview += text;
      }
      wakeAll(run);
    },
    /** Ends all streams at shutdown. Another node continues them from the last id. */
    end(): void {
      ended = true;
      followed.end();
    },
  };
}

export type RunFollowers = ReturnType<typeof createRunFollowers>;

/** Each call returns the events since the last one and the preview; empty when there are none. */
function unsentTexts(run: FollowedRun, follower: Follower, after: number): () => string {
  let sent = after;
  return () => {
    const texts = run.texts.slice(sent);
    sent += texts.length;
    // During a read, the start event of the preview's step may not have been sent yet.
    if (follower.preview === "" || run.reading !== null) return texts.join("");
    const preview = previewText(follower.preview);
    follower.preview = "";
    return texts.join("") + preview;
  };
}

/** The run was erased with its user, so no events follow. */
function isDeleted({ over, cursor }: FollowedRun): boolean {
  return over && !cursor.finished;
}

function invalidEventId(): Error {
  return errors.invalidValue(
    "Last-Event-ID",
    "Last-Event-ID is not an id of this stream's events. Leave it out to start from the first event.",
  );
}

/** Whether KEEP_ALIVE_MS pass without a change. */
async function isSilent(change: Promise<void>): Promise<boolean> {
  const silence = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => silence.resolve(true), KEEP_ALIVE_MS).unref();
  const is_silent = await Promise.race([silence.promise, change.then(() => false)]);
  clearTimeout(timer);
  return is_silent;
}

/** The number in a Last-Event-ID header; 0 without the header. 400 when it is invalid. */
export function lastEventId(header: string | undefined): number {
  if (header === undefined || header === "") return 0;
  if (/^\d{1,9}$/.test(header)) return Number(header);
  throw invalidEventId();
}
