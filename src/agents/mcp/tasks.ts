import type { CallToolResult, ElicitResult, InputRequests } from "@modelcontextprotocol/server";
import type { RunDetail } from "../../api/contract/runs.ts";
import { z } from "../../api/contract/zod.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { describeAction, describeWaiting, toWaiting } from "../runs/waiting-words.ts";

/** A run as the protocol's clients see it: as a task, as a question to their user, and as a result. Pure. */

/** The protocol's extension for tasks. Its library has no types for it yet. */
export const TASKS_EXTENSION = "io.modelcontextprotocol/tasks";
const POLL_MS = { working: 1_000, waiting: 5_000 };

export const taskParams = z.looseObject({ taskId: z.string() });
const elicitResult = z.looseObject({ action: z.enum(["accept", "decline", "cancel"]) });

/** A task is a run under the run's id. */
interface Task {
  taskId: string;
  status: "working" | "input_required" | "completed" | "cancelled";
  statusMessage?: string;
  createdAt: Instant;
  lastUpdatedAt: Instant;
  /** Runs have no end of life that begins with them. */
  ttlMs: null;
  pollIntervalMs: number;
}

/** The answer to a call that goes on as a task. */
export function toCreatedTask(run: RunDetail, origin: string) {
  return { resultType: "task", ...toTask(run, origin) };
}

/** The task with what its status brings. `may_decide`: the client may ask its user. */
export function toTaskState(run: RunDetail, { origin, may_decide }: { origin: string; may_decide: boolean }) {
  const task = toTask(run, origin);
  if (task.status === "completed") {
    return { ...task, result: { resultType: "complete", ...runResult(run, run.output_json !== null) } };
  }
  if (task.status !== "input_required") return task;
  return { ...task, inputRequests: may_decide ? toQuestions(run) : {} };
}

function toTask(run: RunDetail, origin: string): Task {
  const waits = run.status === "requires_action";
  return {
    taskId: run.id,
    status: toTaskStatus(run),
    ...(waits && { statusMessage: describeWaiting(run.id, toWaiting(run, origin)) }),
    createdAt: run.queued_at,
    lastUpdatedAt: lastChange(run),
    ttlMs: null,
    pollIntervalMs: waits ? POLL_MS.waiting : POLL_MS.working,
  };
}

/** A failed run has a result, which says so: the protocol's `failed` is for errors of the protocol. */
function toTaskStatus({ status, finished_at }: RunDetail): Task["status"] {
  if (status === "requires_action") return "input_required";
  if (finished_at === null) return "working";
  return status === "cancelled" ? "cancelled" : "completed";
}

function lastChange({ queued_at, started_at, finished_at, steps, required_actions, decisions }: RunDetail): Instant {
  const instants = [
    queued_at,
    started_at,
    finished_at,
    ...steps.slice(-1).flatMap((step) => [step.started_at, step.finished_at]),
    ...required_actions.map(({ requested_at }) => requested_at),
    ...decisions.map(({ decided_at }) => decided_at),
  ];
  return instants
    .filter((instant) => instant !== null)
    .sort()
    .at(-1) as Instant;
}

/** A question about each call that must be approved, by the action's id. A budget is raised elsewhere. */
export function toQuestions({ required_actions }: RunDetail): InputRequests {
  return Object.fromEntries(
    required_actions.flatMap((action) => {
      if (action.type !== "tool_approval") return [];
      const message = `${describeAction(action)}\n\nAccept to make this call with exactly these arguments. Decline to reject it.`;
      const requestedSchema = { type: "object" as const, properties: {} };
      return [[action.id, { method: "elicitation/create", params: { mode: "form", message, requestedSchema } }]];
    }),
  );
}

/** What the client's user answered. `cancel`: nothing, so that the action stays open. */
export function readAnswers(responses: Readonly<Record<string, unknown>>) {
  return Object.entries(responses).flatMap(
    ([action_id, response]): { action_id: string; action: ElicitResult["action"] }[] => {
      const { success, data } = elicitResult.safeParse(response);
      return success ? [{ action_id, action: data.action }] : [];
    },
  );
}

/** With a schema the structured content is the output itself, as the tool's outputSchema says, and `_meta` has the run. */
export function runResult(run: RunDetail, has_schema: boolean): CallToolResult {
  const { id, agent_id, status, output, output_json, usage, error } = run;
  const text = status === "succeeded" ? (output ?? "") : `The run ${status}. ${error?.message ?? ""}`.trim();
  const content = [{ type: "text" as const, text }];
  const record = { run_id: id, agent_id, status, output, usage, error };
  if (!has_schema || status !== "succeeded")
    return { content, structuredContent: record, isError: status !== "succeeded" };
  const structuredContent = output_json as Record<string, unknown>;
  return { content, structuredContent, isError: false, _meta: { run_id: id, agent_id, usage } };
}

/** The result of a call whose run waits, for a client that cannot ask its user or may not decide. */
export function waitingResult(run: RunDetail, origin: string, has_schema: boolean): CallToolResult {
  const { id, agent_id, status, output, usage, error } = run;
  const waiting = toWaiting(run, origin);
  const text = `${describeWaiting(id, waiting)}\n\nDo not call this tool again for it: get_run reads its output later.`;
  const structuredContent = { run_id: id, agent_id, status, output, usage, error, ...waiting };
  // A result that is no error would have to conform to the schema.
  return { content: [{ type: "text", text }], structuredContent, isError: has_schema };
}
