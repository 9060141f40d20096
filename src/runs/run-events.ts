import type { StepRecord } from "../contract/runs.ts";
import type { FollowedRun } from "./runs.types.ts";

/** The events of a run, made of its rows alone, so that every node tells the same ones under the same ids. Pure. */

/** `id` is the event's place in the run's one sequence, from 1 on. */
export interface RunEvent {
  id: number;
  event: string;
  data: unknown;
}

/** The position in a run's events. */
export interface Told {
  /** How many events. */
  events: number;
  /** Of the steps before this one all has been told. */
  steps: number;
  /** Whether the beginning of the step after these has been told. */
  step_open: boolean;
  queued: boolean;
  started: boolean;
  cancelling: boolean;
  finished: boolean;
}

export const NOTHING_TOLD: Told = {
  events: 0,
  steps: 0,
  step_open: false,
  queued: false,
  started: false,
  cancelling: false,
  finished: false,
};

/**
 * What there is to tell of a run after what has been told. `followed.steps` begins with step `before.steps`. A sequence
 * only ever grows at its end: steps come one after the other, and once cancelling was asked for none begins any more,
 * so that `run.cancelling` has its place after the step that was at work then.
 */
export function newsOf(
  { run, cancel_requested_at, steps }: FollowedRun,
  before: Told,
): { news: RunEvent[]; told: Told } {
  const news: RunEvent[] = [];
  const told = { ...before };
  const tell = (event: string, data: unknown) => {
    told.events += 1;
    news.push({ id: told.events, event, data });
  };
  const once = (what: "queued" | "started" | "cancelling" | "finished", data: unknown) => {
    if (!told[what]) tell(`run.${what}`, data);
    told[what] = true;
  };
  const { id: run_id, agent_id, trigger, scheduled_for, queued_at, started_at, finished_at } = run;

  once("queued", { run_id, agent_id, trigger, scheduled_for, queued_at });
  if (started_at !== null) once("started", { run_id, started_at });
  for (const step of steps) {
    if (!told.step_open) tell("step.started", startOf(run_id, step));
    told.step_open = step.status === "running";
    if (told.step_open) break;
    tell("step.finished", { run_id, ...step });
    told.steps = step.index + 1;
  }
  const is_between_steps = !told.step_open || finished_at !== null;
  if (cancel_requested_at !== null && started_at !== null && is_between_steps) {
    once("cancelling", { run_id, cancel_requested_at });
  }
  if (finished_at !== null) once("finished", { run_id, ...run });
  return { news, told };
}

function startOf(run_id: string, { index, type, name, arguments: given, started_at }: StepRecord) {
  return { run_id, index, type, name, arguments: given, started_at };
}

/** As server-sent events. */
export function eventText({ id, event, data }: RunEvent): string {
  return `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** Text as it is generated: a preview without id, told to whoever listens at that moment. */
export function previewText(text: string): string {
  return `event: text\ndata: ${JSON.stringify({ text })}\n\n`;
}
