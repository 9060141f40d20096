import type { Step } from "../api/queries.ts";
import { dollars, duration } from "../format.ts";
import { inWords } from "../service-words.ts";
import { Status } from "../ui/basics.tsx";

type ShownStep = Pick<Step, "index" | "name" | "status" | "started_at" | "finished_at" | "error"> & {
  usage: { cost_tokens: number } | null;
};

/** The steps of a run, a line each. */
export function StepList({ steps, with_errors = false }: { steps: readonly ShownStep[]; with_errors?: boolean }) {
  return (
    <ol className="space-y-1">
      {steps.map((step) => (
        <li key={step.index}>
          <span className="flex flex-wrap items-baseline gap-x-2">
            <span className="min-w-0 break-all">{step.name}</span>
            {step.status !== "succeeded" && <Status status={step.status} />}
            <span className="ml-auto text-sm text-muted">
              {step.finished_at !== null && duration(step.started_at, step.finished_at)}
              {step.usage !== null && ` · ${dollars(step.usage.cost_tokens)}`}
            </span>
          </span>
          {with_errors && step.error !== null && (
            <span className="block text-sm wrap-anywhere text-bad">{inWords(step.error.message)}</span>
          )}
        </li>
      ))}
    </ol>
  );
}
