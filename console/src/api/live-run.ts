import { useEffect, useState } from "react";
import { addressOf, send } from "./client.ts";
import { eventsOf, type ServerEvent } from "./events.ts";
import { queryClient, type RunDetail, runQuery, type Step, stale } from "./queries.ts";

/** After a stream that broke off, the next attempt is made this much later. */
const RECONNECT_MS = 1000;

interface LiveRun {
  /** What the model is saying at the moment: it stands in no record. */
  preview: string;
  /** The service cannot be heard; it is tried again. */
  cut_off: boolean;
}

/** Follows a run through its events, which change the run as the pages have read it, until it has ended. */
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
      if (event.event === "text") return setPreview((text) => text + String(data.text));
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

/** Reads the run's events to its end, over as many connections as it takes. */
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
    } catch {
      // the record tells what was missed, and the next connection what comes
      if (!signal.aborted) onCutOff(true);
    }
    if (signal.aborted) return;
    await queryClient.invalidateQueries({ queryKey: ["runs", id, run_id] });
    if (!finished) await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
  }
}

/** The run after one of its events. */
function after(run: RunDetail, event: string, data: Record<string, unknown>): RunDetail {
  if (event === "run.started") return { ...run, status: "running", started_at: String(data.started_at) };
  if (event === "run.cancelling") return { ...run, status: "cancelling" };
  if (event === "run.finished") return { ...run, ...(data as Partial<RunDetail>), steps: run.steps };
  if (event !== "step.started" && event !== "step.finished") return run;
  // told again after a reconnection: what is known of the step is newer
  if (event === "step.started" && run.steps.some((step) => step.index === data.index)) return run;
  const fresh = { ...STARTED, ...data } as Step;
  const status = run.status === "queued" ? "running" : run.status;
  return {
    ...run,
    status,
    steps: [...run.steps.filter((step) => step.index !== fresh.index), fresh].sort(
      (one, other) => one.index - other.index,
    ),
  };
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
