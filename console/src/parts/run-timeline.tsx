import { Link } from "@tanstack/react-router";
import type { RunDetail } from "../api/queries.ts";
import { dollars, duration } from "../format.ts";
import { Card, Status } from "../ui/basics.tsx";
import { stepLink } from "./step.tsx";

/** The least width of a bar, in percent of the run. */
const LEAST_BAR = 0.8;

/** When each step was at work, how long and at what cost. A row leads to its step. */
export function RunTimeline({ run }: { run: RunDetail }) {
  const { steps, started_at } = run;
  if (steps.length === 0 || started_at === null) return null;
  const begin = Date.parse(started_at);
  const ends = steps.map((step) => Date.parse(step.finished_at ?? step.started_at));
  const length = Math.max(1, ...ends.map((end) => end - begin));
  return (
    <Card title="Timeline" flush>
      <ol className="grid grid-cols-[minmax(5rem,11rem)_minmax(2rem,1fr)_auto] gap-x-3 pb-2">
        {steps.map((step, place) => {
          const from = Math.max(0, Date.parse(step.started_at) - begin);
          const width = Math.max(LEAST_BAR, (((ends[place] ?? begin) - begin - from) / length) * 100);
          const bar = step.status === "failed" ? "fill-bad" : step.type === "tool" ? "fill-warn" : "fill-accent";
          return (
            <li key={step.index} className="col-span-full grid grid-cols-subgrid">
              <Link
                {...stepLink(run, step.index)}
                className="col-span-full grid grid-cols-subgrid items-center px-4 py-1 hover:bg-sunken/60"
              >
                <span className="truncate">
                  {step.index + 1}. {step.name}
                </span>
                <svg viewBox="0 0 100 8" preserveAspectRatio="none" className="h-2.5 w-full" aria-hidden="true">
                  <rect width="100" height="8" className="fill-sunken" />
                  <rect x={Math.min(100 - LEAST_BAR, (from / length) * 100)} width={width} height="8" className={bar} />
                </svg>
                <span className="flex items-center justify-end gap-2 text-right text-sm text-muted">
                  {(step.status === "failed" || step.status === "cancelled") && <Status status={step.status} />}
                  {step.finished_at !== null && duration(step.started_at, step.finished_at)}
                  <span className="w-18 max-sm:hidden">
                    {step.usage === null ? "" : dollars(step.usage.cost_tokens)}
                  </span>
                </span>
              </Link>
            </li>
          );
        })}
      </ol>
    </Card>
  );
}
