import { Link } from "@tanstack/react-router";
import { asProblem, type Problem } from "../api/problem.ts";
import { number } from "../format.ts";
import { Button, buttonClass } from "./basics.tsx";
import { Icon } from "./icons.tsx";

const WAYS_OUT: Record<string, { label: string; tab: "plans" | "overage" | "balance" } | undefined> = {
  top_up: { label: "Buy tokens", tab: "balance" },
  subscribe: { label: "See plans", tab: "plans" },
  enable_overage: { label: "Set up overage", tab: "overage" },
  raise_overage_cap: { label: "Raise the overage cap", tab: "overage" },
};

/** What went wrong, what to do about it, and the id to quote. */
export function ProblemNotice({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const problem = asProblem(error);
  return (
    <div role="alert" className="rounded-lg border border-bad/30 bg-bad-soft px-3.5 py-3">
      <div className="flex items-start gap-2.5">
        <Icon name="warning" className="mt-0.5 size-4 text-bad" />
        <div className="min-w-0 flex-1">
          <p className="font-medium text-bad">{problem.message}</p>
          {typeof problem.metadata.shortfall === "number" && problem.metadata.shortfall > 0 && (
            <p className="mt-1 text-sm">
              {number(problem.metadata.shortfall)} tokens are missing; {number(Number(problem.metadata.available ?? 0))}{" "}
              are available.
            </p>
          )}
          <WaysOut problem={problem} />
          {problem.request_id !== null && (
            <p className="mt-1.5 text-xs text-muted">
              Request id <code className="select-all break-all">{problem.request_id}</code>
            </p>
          )}
        </div>
        {onRetry !== undefined && (
          <Button kind="plain" onClick={onRetry}>
            Try again
          </Button>
        )}
      </div>
    </div>
  );
}

/** Of a 402: each remedy that it names as the page where it is to be had. */
function WaysOut({ problem }: { problem: Problem }) {
  const remedies = Array.isArray(problem.metadata.remedies) ? (problem.metadata.remedies as string[]) : [];
  const ways = remedies.flatMap((remedy) => WAYS_OUT[remedy] ?? []);
  if (ways.length === 0) return null;
  return (
    <div className="mt-2.5 flex flex-wrap gap-2">
      {ways.map(({ label, tab }, place) => (
        <Link
          key={label}
          to="/billing"
          search={tab === "balance" ? { tab, top_up: true } : { tab }}
          className={buttonClass(place === 0 ? "primary" : "plain")}
        >
          {label}
        </Link>
      ))}
    </div>
  );
}
