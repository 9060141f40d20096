import { csvLine, csvLines } from "../../account/ledger/csv.ts";
import type { FoundRun } from "../../api/contract/runs.ts";

/** The list of all runs as CSV. */

const COLUMNS = [
  "id",
  "agent_id",
  "agent_name",
  "trigger",
  "schedule_id",
  "status",
  "user",
  "api_key_id",
  "queued_at",
  "started_at",
  "finished_at",
  "duration_ms",
  "model_id",
  "input_tokens",
  "output_tokens",
  "cost_tokens",
  "cost_usd",
  "error_code",
  "first_line",
  "metadata",
] as const;

export const RUN_CSV_HEAD = csvLine(COLUMNS);

/** A line for each run; texts from outside are defused. */
export function runLines(runs: readonly FoundRun[]): string {
  const rows = runs.map(({ agent, usage, error, metadata, ...run }) => ({
    ...run,
    ...usage,
    agent_name: agent.name,
    error_code: error?.code ?? null,
    metadata: metadata === null ? null : JSON.stringify(metadata),
  }));
  return csvLines(COLUMNS, rows);
}
