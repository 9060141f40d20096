import type { Run } from "../api/queries.ts";
import { dollars, duration, instant } from "../format.ts";
import type { VirtualColumn } from "../ui/virtual-table.tsx";

/** The columns that a person's and the operator's list of runs have alike. */

type Times = Pick<Run, "started_at" | "finished_at">;
/** How long a run took. */
export const timeTaken = ({ started_at, finished_at }: Times): string =>
  started_at === null || finished_at === null ? "—" : duration(started_at, finished_at);

export const MODEL_COLUMN: VirtualColumn<Pick<Run, "model_id">> = {
  id: "model",
  title: "Model",
  width: "9rem",
  cell: ({ model_id }) => <span className="block truncate text-muted">{model_id}</span>,
};
export const DURATION_COLUMN: VirtualColumn<Times> = {
  id: "duration",
  title: "Duration",
  width: "5.5rem",
  numeric: true,
  cell: timeTaken,
};
export const COST_COLUMN: VirtualColumn<{ usage: Pick<Run["usage"], "cost_tokens"> }> = {
  id: "cost",
  title: "Cost",
  width: "6rem",
  numeric: true,
  cell: ({ usage }) => dollars(usage.cost_tokens),
};
export const QUEUED_COLUMN: VirtualColumn<Pick<Run, "queued_at">> = {
  id: "when",
  title: "Queued",
  width: "9.5rem",
  numeric: true,
  cell: ({ queued_at }) => <span className="whitespace-nowrap text-muted">{instant(queued_at)}</span>,
};
