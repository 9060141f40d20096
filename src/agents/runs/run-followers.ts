import { errors } from "../../kernel/errors.ts";
import type { EventFeed } from "../../platform/net/event-stream.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import { createFollowedRuns, type FollowedRun, type Follower, wakeAll } from "./followed-runs.ts";
import { previewText } from "./run-events.ts";
import type { Runs } from "./runs.service.ts";

/** Sends a keep-alive after this time, because proxies close silent connections. */
const KEEP_ALIVE_MS = 15_000;
/** A preview has at most this much of an answer. The finished step has all of it. */
const MAX_PREVIEW_CHARACTERS = 1_000_000;
const DONE = { done: true, value: undefined } as const;

/** The text of a run's current model call so far. A new call has a new one. */
interface Answer {
  readonly pieces: string[];
  characters: number;
}

/**
 * Streams the events of runs from the first one on, whichever node executes them. Changes on this node are sent at
 * once. Changes on other nodes are polled only while there are followers.
 */
export function createRunFollowers(deps: { runs: Runs; log: Log }) {
  const followed = createFollowedRuns(deps);
  /** By run, of this node's worker. It is kept without followers too: one may join in the middle of an answer. */
  const answers = new Map<string, Answer>();
  let ended = false;

  return {
    /**
     * The events after number `after` of an existing run; null when the run has ended and all were sent. 400 when event
     * `after` does not exist, because its follower would never receive anything.
     */
    async follow(user_id: string, run_id: string, after: number): Promise<EventFeed | null> {
      let changed = Promise.withResolvers<void>();
      const follower: Follower = { wake: () => changed.resolve() };
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
      const take = unsentTexts(run, after, () => answers.get(run_id));
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
    /** Call it when a step or the run began or ended on this node. It reads nothing when the run has no followers. */
    happened(run_id: string): void {
      answers.delete(run_id);
      if (followed.get(run_id) !== undefined) void followed.refresh(run_id);
    },
    /** The run's model has generated this text. */
    generated(run_id: string, text: string): void {
      const answer = answers.get(run_id) ?? { pieces: [], characters: 0 };
      answers.set(run_id, answer);
      const piece = text.slice(0, MAX_PREVIEW_CHARACTERS - answer.characters);
      if (piece === "") return;
      answer.pieces.push(piece);
      answer.characters += piece.length;
      const run = followed.get(run_id);
      if (run !== undefined) wakeAll(run);
    },
    /** Ends all streams at shutdown. Another node continues them from the last id. */
    end(): void {
      ended = true;
      followed.end();
    },
  };
}

export type RunFollowers = ReturnType<typeof createRunFollowers>;

/** Each call returns the events since the last one and the new text of the answer; empty when there are none. */
function unsentTexts(run: FollowedRun, after: number, answerNow: () => Answer | undefined): () => string {
  let sent = after;
  let answer: Answer | undefined;
  let sent_pieces = 0;
  return () => {
    const texts = run.texts.slice(sent);
    sent += texts.length;
    // Without an open step, the answer's step has finished, or its start has not been read.
    const current = run.cursor.step_open && run.reading === null ? answerNow() : undefined;
    if (current === undefined) return texts.join("");
    if (current !== answer) sent_pieces = 0;
    answer = current;
    const text = current.pieces.slice(sent_pieces).join("");
    if (text === "") return texts.join("");
    const from_start = sent_pieces === 0;
    sent_pieces = current.pieces.length;
    return texts.join("") + previewText(text, from_start);
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
