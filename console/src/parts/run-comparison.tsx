import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { anyRunQuery, type Run, type RunDetail } from "../api/queries.ts";
import { count, dollars, duration, instant } from "../format.ts";
import { failure, REPLAY_OF } from "../run-words.ts";
import { Card, Status } from "../ui/basics.tsx";
import { Markdown } from "../ui/markdown.tsx";

/** A run's metadata without the run that it repeats. */
export const ownMetadata = ({ metadata }: Pick<Run, "metadata">): [name: string, value: string][] =>
  Object.entries(metadata ?? {}).filter(([name]) => name !== REPLAY_OF);

/** The run that a run repeats. */
export function repeatsFact({ agent_id, metadata }: RunDetail): [string, ReactNode][] {
  const first_id = metadata?.[REPLAY_OF];
  return first_id === undefined
    ? []
    : [["Repeats", <RepeatedRun key="repeats" agent_id={agent_id} run_id={first_id} />]];
}

function RepeatedRun({ agent_id: id, run_id }: { agent_id: string; run_id: string }) {
  const { data: first, isError } = useQuery(anyRunQuery(run_id));
  if (first === undefined) return isError ? "a run that is no longer kept" : "…";
  return (
    <Link to="/agents/$id/runs/$run_id" params={{ id, run_id }} className="link">
      run of {instant(first.queued_at)}
    </Link>
  );
}

/** A run on another model beside the run that it repeats. */
export function RunComparison({ run }: { run: RunDetail }) {
  const first_id = run.metadata?.[REPLAY_OF];
  const { data: first } = useQuery({ ...anyRunQuery(first_id ?? ""), enabled: first_id !== undefined });
  if (first === undefined) return null;
  return (
    <Card title="Side by side" note="The same input on two models. Both runs are billed.">
      <div className="grid gap-4 sm:grid-cols-2">
        {[first, run].map((each) => (
          <Side key={each.id} run={each} title={each === run ? "This run" : "The run before"} />
        ))}
      </div>
    </Card>
  );
}

function Side({ run, title }: { run: RunDetail; title: string }) {
  const { started_at, finished_at, usage, error, output } = run;
  return (
    <section aria-label={title} className="min-w-0">
      <h3 className="text-sm text-muted">{title}</h3>
      <p className="font-semibold break-all">{run.model_id ?? "—"}</p>
      <p className="mt-1 flex flex-wrap items-center gap-x-2 text-sm">
        <Status status={run.status} has_errors={run.has_errors} />
        <strong>{dollars(usage.cost_tokens)}</strong>
        <span className="text-muted">
          {count(usage.cost_tokens, "token")}
          {started_at !== null && finished_at !== null && ` · ${duration(started_at, finished_at)}`}
        </span>
      </p>
      <section
        aria-label={`Output of ${title.toLowerCase()}`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls long values
        tabIndex={0}
        className="mt-2 max-h-96 overflow-auto rounded-lg bg-sunken p-3 wrap-anywhere"
      >
        {error !== null && <p className="text-bad">{failure(error.code)}</p>}
        {output !== null && output !== "" && <Markdown text={output} />}
        {error === null && output === null && <p className="text-muted">No output yet.</p>}
      </section>
    </section>
  );
}
