import { useEffect, useState } from "react";
import { RUN_STATUSES } from "../run-words.ts";
import { addressOf, send } from "./client.ts";
import { eventsOf, type ServerEvent } from "./events.ts";
import { asProblem } from "./problem.ts";
import { queryClient, type RunDetail, runQuery, type Step, stale } from "./queries.ts";

/** Delay before the next attempt after a lost connection. */
const RECONNECT_MS = 1000;

interface LiveRun {
  /** Text of the current model call. The run record does not have it yet. */
  preview: string;
  /** The connection is lost; the next attempt follows. */
  cut_off: boolean;
}

/** Follows a run by its events until it ends, and updates the cached run. */
export function useLiveRun(id: string, run_id: string, ended: boolean): LiveRun {
  const [preview, setPreview] = useState("");
  const [cut_off, setCutOff] = useState(false);
  useEffect(() => {
    if (ended) return;
    const left = new AbortController();
    const change = (to: (run: RunDetail) => RunDetail) =>
      queryClient.setQueryData(runQuery(id, run_id).queryKey, (run) => (run === undefined ? run : to(run)));
    const onEvent = (event: ServerEvent) => {
      const data = JSON.parse(event.data) as Record<string, unknown>;
      if (event.event === "text") {
        return setPreview((before) => (data.from_start === true ? "" : before) + String(data.text));
      }
      if (event.event === "step.finished") setPreview("");
      if (event.event === "run.finished") void stale("agents", "profile", "usage", "transactions");
      change((run) => after(run, event.event, data));
    };
    void follow({ id, run_id, signal: left.signal, onEvent, onCutOff: setCutOff });
    return () => left.abort();
  }, [id, run_id, ended]);
  return { preview, cut_off: cut_off && !ended };
}

interface Following {
  id: string;
  run_id: string;
  signal: AbortSignal;
  onEvent: (event: ServerEvent) => void;
  onCutOff: (cut_off: boolean) => void;
}

/** Reads the run's events to the end, and reconnects after each lost connection. */
async function follow({ id, run_id, signal, onEvent, onCutOff }: Following) {
  let last_id: string | null = null;
  let finished = false;
  while (!finished && !signal.aborted) {
    try {
      const headers: Record<string, string> = last_id === null ? {} : { "Last-Event-ID": last_id };
      const response = await send(addressOf("/api/v1/agents/{id}/runs/{run_id}/events", { id, run_id }), {
        headers,
        signal,
      });
      finished = response.status === 204;
      onCutOff(false);
      for await (const event of eventsOf(response)) {
        last_id = event.id ?? last_id;
        onEvent(event);
        finished ||= event.event === "run.finished";
      }
    } catch (error) {
      if (asProblem(error).status === 404) {
        // The agent was deleted, and its runs with it: the page says so.
        if (!signal.aborted) await queryClient.resetQueries({ queryKey: ["runs", id, run_id] });
        return;
      }
      // The record has the missed steps; the next connection brings new events.
      if (!signal.aborted) onCutOff(true);
    }
    if (signal.aborted) return;
    await queryClient.invalidateQueries({ queryKey: ["runs", id, run_id] });
    if (!finished) await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
  }
}

/** The run with one event applied. */
function after(run: RunDetail, event: string, data: Record<string, unknown>): RunDetail {
  if (event === "run.started") return { ...run, status: "running", started_at: String(data.started_at) };
  if (event === "run.cancelling") return { ...run, status: "cancelling" };
  if (event === "run.finished") return { ...run, ...(data as Partial<RunDetail>), steps: run.steps };
  if (event !== "step.started" && event !== "step.finished") return run;
  // A repeated event after a reconnection: the cached step is newer.
  if (event === "step.started" && run.steps.some((step) => step.index === data.index)) return run;
  const fresh = { ...STARTED, ...data } as Step;
  const { phase } = RUN_STATUSES[run.status];
  const status = phase === "queued" || phase === "waiting" ? "running" : run.status;
  const steps = [...run.steps.filter((step) => step.index !== fresh.index), fresh].sort(
    (one, other) => one.index - other.index,
  );
  return { ...run, status, steps, usage: sumOf(steps) };
}

/** The usage of a run so far. Its record comes with the event of its end. */
function sumOf(steps: readonly Step[]): RunDetail["usage"] {
  const sum = { input_tokens: 0, output_tokens: 0, total_tokens: 0, cost_tokens: 0 };
  for (const { usage } of steps) {
    if (usage === null) continue;
    sum.input_tokens += usage.input_tokens;
    sum.output_tokens += usage.output_tokens;
    sum.total_tokens += usage.total_tokens;
    sum.cost_tokens += usage.cost_tokens;
  }
  return sum;
}

const STARTED = {
  status: "running",
  arguments: null,
  result: null,
  error: null,
  safety: null,
  usage: null,
  finished_at: null,
};
