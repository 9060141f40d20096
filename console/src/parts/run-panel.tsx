import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { anyRunQuery, type FoundRun, type Run, type RunDetail } from "../api/queries.ts";
import { dollars, instant, number } from "../format.ts";
import { chargeOfFailure, failure, RUN_STATUSES, startInWords } from "../run-words.ts";
import { inWords } from "../service-words.ts";
import { buttonClass, Facts, Skeleton, Status } from "../ui/basics.tsx";
import { Json } from "../ui/json.tsx";
import { Markdown } from "../ui/markdown.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { useRunActions } from "./run-actions.tsx";
import { timeTaken } from "./run-columns.tsx";
import { ownMetadata, RunComparison, repeatsFact } from "./run-comparison.tsx";
import { RunRemedy } from "./run-remedy.tsx";
import { StepList } from "./step-list.tsx";

/** The input, the result and the buttons of a run, beside the list of runs. */
export function RunPanel({ run_id, found, onNext }: { run_id: string; found?: FoundRun; onNext: (run: Run) => void }) {
  const { data: run, error, refetch } = useQuery(anyRunQuery(run_id));
  if (error !== null) return <ProblemNotice error={error} onRetry={() => void refetch()} />;
  if (run === undefined) return <Skeleton lines={6} />;
  return <Summary run={run} deleted={found?.agent.deleted === true} onNext={onNext} />;
}

function Summary({ run, deleted, onNext }: { run: RunDetail; deleted: boolean; onNext: (run: Run) => void }) {
  const { buttons, problem } = useRunActions({ run, onNext });
  const { usage } = run;
  return (
    <div className="space-y-4">
      {!deleted && (
        <div className="flex flex-wrap gap-2">
          <Link
            to="/agents/$id/runs/$run_id"
            params={{ id: run.agent_id, run_id: run.id }}
            className={buttonClass("plain")}
          >
            Open run
          </Link>
          {run.required_actions.length > 0 && (
            <Link
              to="/agents/$id/runs/$run_id/decide"
              params={{ id: run.agent_id, run_id: run.id }}
              className={buttonClass("primary")}
            >
              See what it asks
            </Link>
          )}
          {buttons}
        </div>
      )}
      {problem}
      <Facts
        facts={[
          ["Status", <Status key="status" status={run.status} has_errors={run.has_errors} />],
          ["Queued", `${instant(run.queued_at)}, ${startInWords(run)}`],
          ["Model", run.model_id ?? "—"],
          ["Duration", timeTaken(run)],
          ["Cost", `${dollars(usage.cost_tokens)} (${number(usage.cost_tokens)} tokens)`],
          ["Version", number(run.agent_version)],
          ...repeatsFact(run),
        ]}
      />
      {run.error !== null && (
        <div className="rounded-lg bg-bad-soft px-3 py-2.5">
          <h3 className="font-medium text-bad">
            Run {run.status === "cancelled" ? "cancelled" : "failed"}: {failure(run.error.code)}
          </h3>
          <p className="mt-1 wrap-anywhere">{inWords(run.error.message)}</p>
          <p className="mt-1 empty:hidden">{chargeOfFailure(run)}</p>
          {!deleted && <RunRemedy error={run.error} agent_id={run.agent_id} />}
        </div>
      )}
      <RunComparison run={run} />
      {run.output !== null && run.output !== "" && (
        <Part title="Output">
          <Markdown text={run.output} />
        </Part>
      )}
      {run.input !== null && (
        <Part title="Input">
          <Json label="Input of the run" value={run.input} />
        </Part>
      )}
      {ownMetadata(run).length > 0 && (
        <Part title="Metadata">
          <Facts facts={ownMetadata(run)} />
        </Part>
      )}
      {run.steps.length > 0 && (
        <Part title="Steps">
          <StepList steps={run.steps} />
        </Part>
      )}
      <p className="text-sm text-muted empty:hidden">{RUN_STATUSES[run.status].now}</p>
    </div>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section>
      <h3 className="mb-1 font-semibold">{title}</h3>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls long values */}
      <section aria-label={title} tabIndex={0} className="max-h-96 overflow-auto wrap-anywhere">
        {children}
      </section>
    </section>
  );
}
