import type { StepRecord } from "../../api/contract/runs.ts";
import { errors } from "../../kernel/errors.ts";
import type { EventFeed } from "../../platform/net/event-stream.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { Runs } from "./runs.service.ts";
import type { RunSnapshot } from "./runs.types.ts";

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
        if (after > run.texts.length && !isDeleted(run)) throw invalidEventIdError();
      } catch (error) {
        leave();
        throw error;
      }
      if (run.over && after >= run.texts.length) {
        leave();
        return null;
      }
      const take = createUnsentReader(run, after, () => answers.get(run_id));
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
    noteChange(run_id: string): void {
      answers.delete(run_id);
      if (followed.get(run_id) !== undefined) void followed.refresh(run_id);
    },
    /** The run's model has generated this text. */
    addText(run_id: string, text: string): void {
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
function createUnsentReader(run: FollowedRun, after: number, answerNow: () => Answer | undefined): () => string {
  let sent = after;
  let sent_waiting: string | null = null;
  let answer: Answer | undefined;
  let sent_pieces = 0;
  return () => {
    const texts = run.texts.slice(sent);
    sent += texts.length;
    if (run.waiting !== sent_waiting) {
      sent_waiting = run.waiting;
      if (run.waiting !== null) texts.push(run.waiting);
    }
    // Without an open step, the answer's step has finished, or its start has not been read.
    const current = run.cursor.step_open && run.reading === null ? answerNow() : undefined;
    if (current === undefined) return texts.join("");
    if (current !== answer) sent_pieces = 0;
    answer = current;
    const text = current.pieces.slice(sent_pieces).join("");
    if (text === "") return texts.join("");
    const from_start = sent_pieces === 0;
    sent_pieces = current.pieces.length;
    return texts.join("") + formatPreview(text, from_start);
  };
}

/** The run was erased with its user, so no events follow. */
function isDeleted({ over, cursor }: FollowedRun): boolean {
  return over && !cursor.finished;
}

function invalidEventIdError(): Error {
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
export function readLastEventId(header: string | undefined): number {
  if (header === undefined || header === "") return 0;
  if (/^\d{1,9}$/.test(header)) return Number(header);
  throw invalidEventIdError();
}

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
  /** The event that says what the run waits for, as text to send; null: it does not wait. It is no part of the sequence. */
  waiting: string | null;
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
    waiting: null,
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
  run.texts.push(...events.map(formatEvent));
  run.waiting = formatWaiting(found.run);
  run.over = cursor.finished;
}

/** Makes each follower look for unsent events. */
export function wakeAll({ followers }: FollowedRun): void {
  for (const follower of followers) follower.wake();
}

/**
 * The events of a run, computed only from its rows, so that all nodes send the same events under the same ids. Pure.
 */

/** `id` is the position of the event in the run's sequence, from 1 on. */
export interface RunEvent {
  id: number;
  event: string;
  data: unknown;
}

/** Cursor in a run's events. */
export interface EventCursor {
  /** The number of events sent. */
  events: number;
  /** All events of the steps before this one have been sent. */
  steps: number;
  /** Whether the event for the start of the next step has been sent. */
  step_open: boolean;
  queued: boolean;
  started: boolean;
  cancelling: boolean;
  finished: boolean;
}

export const START: EventCursor = {
  events: 0,
  steps: 0,
  step_open: false,
  queued: false,
  started: false,
  cancelling: false,
  finished: false,
};

/**
 * The events after the cursor `before`. `followed.steps` begins with step `before.steps`.
 *
 * A sequence only grows at its end, because steps are sequential and no step begins after a cancel request.
 * `run.cancelling` therefore comes after the step that was running at the request.
 */
export function newEvents(
  { run, cancel_requested_at, steps }: RunSnapshot,
  before: EventCursor,
): { events: RunEvent[]; cursor: EventCursor } {
  const events: RunEvent[] = [];
  const cursor = { ...before };
  const emit = (event: string, data: unknown) => {
    cursor.events += 1;
    events.push({ id: cursor.events, event, data });
  };
  const once = (what: "queued" | "started" | "cancelling" | "finished", data: unknown) => {
    if (!cursor[what]) emit(`run.${what}`, data);
    cursor[what] = true;
  };
  const { id: run_id, agent_id, trigger, scheduled_for, queued_at, started_at, finished_at } = run;

  once("queued", { run_id, agent_id, trigger, scheduled_for, queued_at });
  if (started_at !== null) once("started", { run_id, started_at });
  for (const step of steps) {
    if (!cursor.step_open) emit("step.started", toStepStart(run_id, step));
    cursor.step_open = step.status === "running";
    if (cursor.step_open) break;
    emit("step.finished", { run_id, ...step });
    cursor.steps = step.index + 1;
  }
  const is_between_steps = !cursor.step_open || finished_at !== null;
  if (cancel_requested_at !== null && started_at !== null && is_between_steps) {
    once("cancelling", { run_id, cancel_requested_at });
  }
  if (finished_at !== null) once("finished", { run_id, ...run });
  return { events, cursor };
}

function toStepStart(run_id: string, { index, type, name, arguments: given, started_at }: StepRecord) {
  return { run_id, index, type, name, arguments: given, started_at };
}

/** As server-sent events. */
export function formatEvent({ id, event, data }: RunEvent): string {
  return `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** What the run waits for, without an id; null: it does not wait. */
export function formatWaiting({ id: run_id, status, required_actions }: RunSnapshot["run"]): string | null {
  if (status !== "requires_action") return null;
  return `event: run.requires_action\ndata: ${JSON.stringify({ run_id, required_actions })}\n\n`;
}

/** Generated text as a preview without an id. `from_start`: it begins the answer, and replaces what was sent before. */
export function formatPreview(text: string, from_start: boolean): string {
  return `event: text\ndata: ${JSON.stringify(from_start ? { text, from_start } : { text })}\n\n`;
}
