import type { StepRecord } from "../../api/contract/runs.ts";
import type { RunSnapshot } from "./runs.types.ts";

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
    if (!cursor.step_open) emit("step.started", startOf(run_id, step));
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

function startOf(run_id: string, { index, type, name, arguments: given, started_at }: StepRecord) {
  return { run_id, index, type, name, arguments: given, started_at };
}

/** As server-sent events. */
export function eventText({ id, event, data }: RunEvent): string {
  return `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** Generated text as a preview without an id. `from_start`: it begins the answer, and replaces what was sent before. */
export function previewText(text: string, from_start: boolean): string {
  return `event: text\ndata: ${JSON.stringify(from_start ? { text, from_start } : { text })}\n\n`;
}
