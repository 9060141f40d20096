import { Link } from "@tanstack/react-router";
import { Fragment } from "react";
import type { Decided, RunDetail } from "../api/queries.ts";
import { count } from "../format.ts";
import { chargeOfFailure, cutOff, failure, hasEnded, RUN_STATUSES } from "../run-words.ts";
import { inWords } from "../service-words.ts";
import { Callout, Card, Spinner } from "../ui/basics.tsx";
import { Json } from "../ui/json.tsx";
import { Markdown } from "../ui/markdown.tsx";
import { DecisionCard } from "./approvals.tsx";
import { RunRemedy } from "./run-remedy.tsx";
import { Outside, StepCard, stepLink } from "./step.tsx";

/** What a run does and what came of it: on its own page, and beside the draft that it tests. */

interface OutcomeProps {
  run: RunDetail;
  /** The text of the current model call. */
  preview: string;
}

/** The output of a run, its answer so far, or why it failed. */
export function Outcome({ run, preview }: OutcomeProps) {
  const ended = hasEnded(run.status);
  if (run.error !== null) {
    return (
      <div className="rounded-xl border border-bad/30 bg-bad-soft px-4 py-3.5">
        <h2 className="font-semibold text-bad">
          Run {run.status === "cancelled" ? "cancelled" : "failed"}: {failure(run.error.code)}
        </h2>
        <p className="mt-1 mb-2 wrap-anywhere">{inWords(run.error.message)}</p>
        {/* The message has a server's words, and the failed step has all of them. */}
        {run.error.code === "model_unavailable" && <Outside words={run.error.outside} by="provider" />}
        <p className="mt-2 empty:hidden">{chargeOfFailure(run)}</p>
        <RunRemedy error={run.error} agent_id={run.agent_id} />
        <p className="mt-1 text-xs text-muted">
          <code>{run.error.code}</code> · run <code className="select-all break-all">{run.id}</code>
        </p>
        {run.error.code === "output_invalid" && run.output !== null && <Markdown text={run.output} />}
      </div>
    );
  }
  const text = ended ? run.output : preview;
  const cut = ended ? cutOff(run.steps.at(-1)) : null;
  const typed = ended && run.output_json !== null;
  return (
    <>
      {run.status === "succeeded" && run.has_errors && <WithErrors run={run} />}
      {(cut !== null || (text !== null && text !== "")) && (
        <Card title={ended ? "Output" : "Answer so far"}>
          {cut !== null && <p className="mb-2 text-warn">{cut}</p>}
          {typed ? (
            <Json label="Output of the run" value={run.output_json} />
          ) : (
            text !== null && text !== "" && <Markdown text={text} />
          )}
        </Card>
      )}
    </>
  );
}

function WithErrors({ run }: { run: RunDetail }) {
  const failed = run.steps.filter(({ type, status }) => type === "tool" && status === "failed");
  const answer = run.steps.findLast(({ type }) => type === "model");
  return (
    <Callout tone="warn" icon="warning">
      <p>
        The run succeeded with errors. {answer?.status === "failed" && answer.error?.message}
        {failed.length > 0 && (
          <>
            {" "}
            {count(failed.length, "call of a tool", "calls of tools")} failed:{" "}
            {failed.map(({ index, name }, nth) => (
              <span key={index}>
                {nth > 0 && ", "}
                <Link {...stepLink(run, index)} className="underline">
                  {name} (step {index + 1})
                </Link>
              </span>
            ))}
            .
          </>
        )}
      </p>
    </Callout>
  );
}

function Decisions({ decisions }: { decisions: Decided[] }) {
  return decisions.map((decided) => <DecisionCard key={decided.id} decided={decided} />);
}

/** The step before which a decision is shown: its call, or the first step after it. undefined: there is none yet. */
function placeOf({ step: of_call, decided_at }: Decided, { steps }: RunDetail): number | undefined {
  return steps.find(({ index, started_at }) => (of_call === null ? started_at >= decided_at : index >= of_call))?.index;
}

interface StepsProps {
  run: RunDetail;
  /** The number of the step that the page's address names. */
  selected?: number | undefined;
}

/** The steps of a run and the decisions between them, as they come. */
export function Steps({ run, selected }: StepsProps) {
  const ended = hasEnded(run.status);
  return (
    <section aria-label="Steps">
      <h2 className="mb-2 font-semibold">Steps</h2>
      <ol className="space-y-2.5" aria-live={ended ? "off" : "polite"} aria-relevant="additions">
        {run.steps.map((step) => (
          <Fragment key={step.index}>
            <Decisions decisions={run.decisions.filter((decided) => placeOf(decided, run) === step.index)} />
            <StepCard run={run} step={step} is_selected={step.index + 1 === selected} />
          </Fragment>
        ))}
        <Decisions decisions={run.decisions.filter((decided) => placeOf(decided, run) === undefined)} />
        {!ended && run.steps.every((step) => step.status !== "running") && (
          <li className="flex items-center gap-2.5 rounded-xl border border-dashed border-line px-4 py-3 text-muted">
            <Spinner /> {RUN_STATUSES[run.status].now}
          </li>
        )}
        {ended && run.steps.length === 0 && (
          <li className="rounded-xl border border-line bg-panel px-4 py-3 text-muted">
            {run.steps_count > 0
              ? `The run had ${count(run.steps_count, "step")}, which ${run.steps_count === 1 ? "is" : "are"} no longer kept.`
              : "The run ended before its first step."}
          </li>
        )}
      </ol>
    </section>
  );
}
