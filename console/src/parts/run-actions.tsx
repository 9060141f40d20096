import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { call } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import { type Run, type RunDetail, stale } from "../api/queries.ts";
import { hasEnded, REPLAY_OF } from "../run-words.ts";
import { Button, buttonClass } from "../ui/basics.tsx";
import { Confirm, Dialog, useKeptOpen } from "../ui/dialog.tsx";
import { ModelChoices } from "../ui/picker.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { remedyOf } from "./run-remedy.tsx";

/**
 * Whether a person can start the run again with its input. A trigger's delivery is sent again instead, because as a person's
 * own input it would not count as outside content. A test is repeated in the editor, which has the draft.
 */
export const isRepeatable = ({ trigger }: Pick<Run, "trigger">): boolean =>
  trigger === "manual" || trigger === "schedule";

/** Starts a run with the task and the input of an earlier one, and for its schedule. */
const repeat = (run: RunDetail, model_id: string | null, metadata = run.metadata) => {
  const { agent_id: id, schedule_id, input, run_prompt } = run;
  const start = (of: { schedule_id?: string }) =>
    call("POST /api/v1/agents/{id}/runs", { params: { id }, body: { input, run_prompt, metadata, model_id, ...of } });
  if (schedule_id === null) return start({});
  return start({ schedule_id }).catch((error) => {
    // Its schedule may be deleted by now.
    if (asProblem(error).status === 404) return start({});
    throw error;
  });
};

/** Repeats a run, on its model if a person chose that. */
export const runAgain = (run: RunDetail) => repeat(run, run.metadata?.[REPLAY_OF] === undefined ? null : run.model_id);

export const cancelRun = ({ agent_id, id }: Pick<Run, "agent_id" | "id">) =>
  call("POST /api/v1/agents/{id}/runs/{run_id}/cancel", { params: { id: agent_id, run_id: id } });

/** Repeats a run on another model. Its metadata names the run that it repeats. */
const replay = (run: RunDetail, model_id: string) => repeat(run, model_id, { ...run.metadata, [REPLAY_OF]: run.id });

interface Props {
  run: RunDetail;
  disabled?: boolean;
  /** Not called for a person who has gone to another page meanwhile. */
  onNext: (run: Run) => void;
}

/** The buttons of a run. Each keeps its place, so that a late click on "Cancel run" does not start a run. */
export function useRunActions({ run, disabled = false, onNext }: Props) {
  const ended = hasEnded(run.status);
  const [cancelling, setCancelling] = useState(false);
  const [was_open, setWasOpen] = useState(!ended);
  if (!ended && !was_open) setWasOpen(true);
  const again = useMutation({ mutationFn: () => runAgain(run), onSuccess: () => stale("agents", "runs") });
  const [replaying, setReplaying] = useState(false);
  const buttons = (
    <>
      {run.trigger === "webhook" && (
        <Link to="/agents/$id" params={{ id: run.agent_id }} search={{ tab: "triggers" }} className={buttonClass()}>
          See its deliveries
        </Link>
      )}
      {run.trigger === "test" && (
        <Link to="/agents/$id/edit" params={{ id: run.agent_id }} search={{ test: run.id }} className={buttonClass()}>
          Test again in the editor
        </Link>
      )}
      {isRepeatable(run) && (
        <Button
          className={ended ? "" : "invisible"}
          disabled={disabled}
          icon="model"
          onClick={() => setReplaying(true)}
        >
          Run on another model
        </Button>
      )}
      {isRepeatable(run) && (
        <Button
          icon="play"
          // A failure's remedy comes before another run.
          kind={run.error !== null && remedyOf(run.error, run.agent_id) !== null ? "plain" : "primary"}
          className={ended ? "" : "invisible"}
          busy={again.isPending}
          disabled={disabled}
          onClick={() => again.mutate(undefined, { onSuccess: onNext })}
        >
          Run again
        </Button>
      )}
      {was_open && (
        <Button
          icon="stop"
          kind="danger"
          className={ended ? "invisible" : ""}
          disabled={run.status === "cancelling"}
          onClick={() => setCancelling(true)}
        >
          Cancel run
        </Button>
      )}
      {replaying && <ReplayDialog run={run} onNext={onNext} onClose={() => setReplaying(false)} />}
      {cancelling && (
        <Confirm
          title="Cancel this run?"
          action="Cancel run"
          keep="Keep running"
          onConfirm={async () => {
            await cancelRun(run);
            await stale("runs");
          }}
          onClose={() => setCancelling(false)}
        >
          The run stops immediately. Its usage so far is billed, and its steps stay visible.
        </Confirm>
      )}
    </>
  );
  return { buttons, problem: again.error === null ? null : <ProblemNotice error={again.error} /> };
}

function ReplayDialog({ run, onNext, onClose }: Pick<Props, "run" | "onNext"> & { onClose: () => void }) {
  return (
    <Dialog title="Run on another model" onClose={onClose}>
      <ReplayForm run={run} onNext={onNext} onClose={onClose} />
    </Dialog>
  );
}

function ReplayForm({ run, onNext, onClose }: Pick<Props, "run" | "onNext"> & { onClose: () => void }) {
  const start = useMutation({
    mutationFn: (model_id: string) => replay(run, model_id),
    onSuccess: async (next) => {
      onClose();
      onNext(next);
      await stale("agents", "runs");
    },
  });
  useKeptOpen(start.isPending);
  return (
    <form className="space-y-3" onSubmit={(event) => event.preventDefault()}>
      <p className="text-pretty text-muted">
        The agent runs with the same input on the model that you choose, and the two runs are shown side by side. The
        run starts at once and is billed. Tools are called again.
      </p>
      <fieldset disabled={start.isPending}>
        <legend className="sr-only">Models</legend>
        <ModelChoices without={run.model_id} onChoose={(model_id) => start.isPending || start.mutate(model_id)} />
      </fieldset>
      {start.error !== null && <ProblemNotice error={start.error} />}
    </form>
  );
}
