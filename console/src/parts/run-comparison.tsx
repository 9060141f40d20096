import { useQuery } from "@tanstack/react-query";
import { anyRunQuery, type RunDetail } from "../api/queries.ts";
import { count, dollars, duration } from "../format.ts";
import { failure } from "../run-words.ts";
import { Card, Status } from "../ui/basics.tsx";
import { Markdown } from "../ui/markdown.tsx";

/** The metadata of a run on another model: the id of the run that it repeats. */
export const REPLAY_OF = "replay_of";

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
