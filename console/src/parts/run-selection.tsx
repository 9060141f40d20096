import type { RowSelectionState } from "@tanstack/react-table";
import { useState } from "react";
import { RUN_CSV_HEAD, runLines } from "../../../src/agents/definitions/run-csv.ts";
import { call, saveFile } from "../api/client.ts";
import { type FoundRun, stale } from "../api/queries.ts";
import { count } from "../format.ts";
import { hasEnded } from "../run-words.ts";
import { Button } from "../ui/basics.tsx";
import { Confirm } from "../ui/dialog.tsx";
import { cancelRun, isRepeatable, runAgain } from "./run-actions.tsx";

interface Props {
  runs: readonly FoundRun[];
  onSelected: (selected: RowSelectionState) => void;
}

/** The bar with what can be done with the selected runs. */
export function RunSelection({ runs, onSelected }: Props) {
  const [open, setOpen] = useState<"again" | "cancel" | null>(null);
  if (runs.length === 0) return null;
  const present = runs.filter(({ agent }) => !agent.deleted);
  const repeatable = present.filter((run) => isRepeatable(run) && hasEnded(run.status));
  const unfinished = present.filter(({ status }) => !hasEnded(status));
  /** Each run in turn. A finished one is no longer selected, so that a second attempt begins where the first one failed. */
  const each = async (list: readonly FoundRun[], act: (run: FoundRun) => Promise<unknown>) => {
    const left = new Set(runs.map(({ id }) => id));
    try {
      for (const run of list) {
        await act(run);
        left.delete(run.id);
      }
    } finally {
      onSelected(Object.fromEntries([...left].map((id) => [id, true])));
      await stale("runs", "agents");
    }
  };
  const repeat = async ({ id }: FoundRun) =>
    runAgain(await call("GET /api/v1/runs/{run_id}", { params: { run_id: id } }));
  return (
    <section
      aria-label="Selected runs"
      className="sticky bottom-0 z-[5] flex flex-wrap items-center gap-2 rounded-b-xl border-t border-line bg-panel px-4 py-2.5"
    >
      <strong className="mr-auto font-semibold">{count(runs.length, "run")} selected</strong>
      {repeatable.length > 0 && (
        <Button icon="play" onClick={() => setOpen("again")}>
          Run {count(repeatable.length, "run")} again
        </Button>
      )}
      {unfinished.length > 0 && (
        <Button icon="stop" kind="danger" onClick={() => setOpen("cancel")}>
          Cancel {count(unfinished.length, "run")}
        </Button>
      )}
      <Button
        icon="download"
        onClick={() => saveFile(new Blob([RUN_CSV_HEAD + runLines(runs)], { type: "text/csv" }), "purser-runs.csv")}
      >
        Download selected as CSV
      </Button>
      <Button kind="quiet" onClick={() => onSelected({})}>
        Clear selection
      </Button>
      {open === "again" && (
        <Confirm
          title={`Run ${count(repeatable.length, "run")} again?`}
          action="Run again"
          kind="primary"
          saved={`${count(repeatable.length, "run")} queued`}
          onConfirm={() => each(repeatable, repeat)}
          onClose={() => setOpen(null)}
        >
          Each has the task, input and metadata that it had, counts for its schedule, and is billed. Runs of chats,
          triggers, tests and deleted agents and unfinished runs are left out.
        </Confirm>
      )}
      {open === "cancel" && (
        <Confirm
          title={`Cancel ${count(unfinished.length, "run")}?`}
          action="Cancel runs"
          keep="Keep running"
          saved={`${count(unfinished.length, "run")} cancelled`}
          onConfirm={() => each(unfinished, cancelRun)}
          onClose={() => setOpen(null)}
        >
          The runs stop immediately. Their usage so far is billed, and their steps stay visible.
        </Confirm>
      )}
    </section>
  );
}
