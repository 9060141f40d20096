import type { DecidedAction, RequiredAction } from "../../api/contract/run-actions.ts";
import { type FoundRun, type RunDetail, type RunRecord, type StepRecord, toUsd } from "../../api/contract/runs.ts";
import type { ActionJson } from "./actions.store.ts";
import type { BudgetNeed } from "./budget-need.ts";
import type { BegunRow } from "./history.store.ts";
import type { ClaimedRow, DetailRow, RunRow } from "./run.store.ts";
import type { BegunRun, ClaimedRun } from "./runs.types.ts";
import type { FoundRow } from "./search.store.ts";

/** contract 6: the run as callers see it. `row` may have more fields. */
export function toRunRecord(row: RunRow): RunRecord {
  const { scheduled_for, started_at, input_tokens, output_tokens, cost_tokens } = row;
  const is_late = scheduled_for !== null && started_at !== null;
  return {
    id: row.id,
    agent_id: row.agent_id,
    agent_version: row.agent_version,
    trigger: row.trigger,
    status: row.status,
    schedule_id: row.schedule_id,
    trigger_id: row.trigger_id,
    trigger_name: row.trigger_name,
    scheduled_for,
    queued_at: row.queued_at,
    started_at,
    finished_at: row.finished_at,
    lateness_ms: is_late ? Date.parse(started_at) - Date.parse(scheduled_for) : null,
    attempt: row.attempt,
    model_id: row.model_id,
    routing: row.routing,
    usage: { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens, cost_tokens },
    steps_count: row.steps_count,
    failed_steps: row.failed_steps,
    has_errors: row.status === "failed" || row.failed_calls > 0,
    error: row.error,
    metadata: row.metadata,
    required_actions: row.required_actions.map(toAction),
  };
}

/** An action as callers see it. */
export function toAction(row: ActionJson): RequiredAction {
  const { id, type, step, tool, destination, budget, reason, untrusted_sources } = row;
  const { spent_tokens, requested_at, expires_at } = row;
  return {
    id,
    type,
    step,
    tool,
    arguments: row.arguments,
    destination,
    budget: budget === null ? null : toShownBudget(budget),
    reason,
    untrusted_sources,
    spent: { tokens: spent_tokens, usd: toUsd(spent_tokens) },
    requested_at,
    expires_at,
  };
}

function toShownBudget({ limit, needed_tokens, cap_tokens, added_tokens }: BudgetNeed): RequiredAction["budget"] {
  return { limit, needed_tokens, cap_tokens, added_tokens };
}

/** The decided actions of a run. */
export function toDecisions(rows: readonly ActionJson[]): DecidedAction[] {
  return rows.flatMap((row) => {
    const { decision, reason_given, arguments_sent, decided_at, decided_by } = row;
    if (decision === null || decided_at === null) return [];
    return [{ ...toAction(row), decision, reason_given, arguments_sent, decided_at, decided_by }];
  });
}

const FIRST_LINE_CHARS = 200;

/** A run in the list of all runs, but for the name of its agent. */
export function toFoundRun(row: FoundRow): Omit<FoundRun, "agent"> {
  const run = toRunRecord(row);
  const { started_at, finished_at } = run;
  const is_timed = started_at !== null && finished_at !== null;
  return {
    ...run,
    user: row.end_user,
    api_key_id: row.api_key_id,
    duration_ms: is_timed ? Date.parse(finished_at) - Date.parse(started_at) : null,
    has_injection: row.has_injection,
    first_line: firstLine(run.error?.message ?? row.text),
    cost_usd: toUsd(row.cost_tokens),
  };
}

function firstLine(text: string | null): string | null {
  const line = text?.split("\n").find((each) => each.trim() !== "");
  return line?.trim().slice(0, FIRST_LINE_CHARS).toWellFormed() ?? null;
}

/** The run as callers see it, with its input, output, deliveries and steps. */
export function toRunDetail({ run, steps }: { run: DetailRow; steps: StepRecord[] }): RunDetail {
  return {
    ...toRunRecord(run),
    input: run.input,
    run_prompt: run.run_prompt,
    input_safety: run.input_safety,
    output: run.output,
    output_json: run.output_json,
    deliveries: run.deliveries,
    decisions: toDecisions(run.decisions),
    steps,
  };
}

/** A run with what it began with. */
export function toBegunRun(row: BegunRow): BegunRun {
  return { run: toRunRecord(row), input: row.input, run_prompt: row.run_prompt, engine_input: row.engine_input };
}

/** A claimed run as its worker receives it. */
export function toClaimedRun(row: ClaimedRow): ClaimedRun {
  const { user_id, id, agent_id, trigger, epoch, started_at } = row;
  if (started_at === null) throw new Error(`run ${id} was claimed without having started`);
  return {
    lease: { user_id, run_id: id, agent_id, trigger, epoch },
    agent_id,
    agent_version: row.agent_version,
    trigger,
    scheduled_for: row.scheduled_for,
    queued_at: row.queued_at,
    started_at,
    attempt: row.attempt,
    model_id: row.model_id,
    routing: row.routing,
    cost_tokens: row.cost_tokens,
    elapsed_ms: row.worked_ms,
    input: row.input,
    run_prompt: row.run_prompt,
    engine_input: row.engine_input,
    has_caller: row.has_caller,
    begun_step: null,
  };
}
