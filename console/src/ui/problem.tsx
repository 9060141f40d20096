import { useQueryErrorResetBoundary } from "@tanstack/react-query";
import { Link, useRouter } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { asProblem, type Problem } from "../api/problem.ts";
import { count, number } from "../format.ts";
import { Button, buttonClass, Empty, Skeleton } from "./basics.tsx";
import { useToldAtField } from "./fields.tsx";
import { Icon } from "./icons.tsx";

const REMEDIES: Record<string, { label: string; tab: "plans" | "overage" | "balance" } | undefined> = {
  top_up: { label: "Buy tokens", tab: "balance" },
  subscribe: { label: "See plans", tab: "plans" },
  enable_overage: { label: "Set up overage", tab: "overage" },
  raise_overage_cap: { label: "Raise the overage cap", tab: "overage" },
};

/** The session has ended. Pages with unsaved changes stay open. */
const SIGNED_OUT = new Set(["missing_api_key", "session_expired"]);

/** Says what failed, what to do, and the request id. */
export function ProblemNotice({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const problem = asProblem(error);
  const { shortfall, available } = problem.metadata;
  const left_s = useSecondsLeft(problem);
  const told = useToldAtField(error);
  return (
    <div role="alert" className="rounded-lg border border-bad/30 bg-bad-soft px-3.5 py-3">
      <div className="flex flex-wrap items-start gap-2.5">
        <Icon name="warning" className="mt-0.5 size-4 text-bad" />
        <div className="min-w-0 flex-1">
          <p className="font-medium wrap-anywhere text-bad">{told ?? problem.message}</p>
          {typeof shortfall === "number" && shortfall > 0 && (
            <p className="mt-1 text-sm">
              You need {count(shortfall, "more token", "more tokens")}. Your balance is {number(Number(available ?? 0))}
              .
            </p>
          )}
          {problem.status === 429 && problem.retry_after_s !== null && (
            <p className="mt-1 text-sm" aria-live="off">
              {left_s > 0 ? `You can try again in ${timeLeft(left_s)}.` : "You can try again now."}
            </p>
          )}
          <Remedies problem={problem} />
          {SIGNED_OUT.has(problem.code) && (
            <a href="/sign-in" target="_blank" rel="noreferrer" className="link mt-1 inline-block text-sm">
              Sign in in a new tab, then try again here
            </a>
          )}
          {problem.request_id !== null && (
            <p className="mt-1.5 text-xs text-muted">
              Request id <code className="select-all break-all">{problem.request_id}</code>
            </p>
          )}
        </div>
        {onRetry !== undefined && (
          <Button kind="plain" disabled={left_s > 0} onClick={onRetry}>
            Try again
          </Button>
        )}
      </div>
    </div>
  );
}

const timeLeft = (seconds: number): string =>
  seconds < 120 ? count(seconds, "second") : count(Math.ceil(seconds / 60), "minute");

/** Counts down to the instant at which a rate-limited request can succeed. */
function useSecondsLeft({ status, retry_after_s, request_id }: Problem): number {
  const wait_s = status === 429 ? (retry_after_s ?? 0) : 0;
  const [elapsed_s, setElapsed] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each new answer starts a new countdown
  useEffect(() => {
    setElapsed(0);
    if (wait_s === 0) return;
    const timer = setInterval(() => setElapsed((seconds) => seconds + 1), 1000);
    return () => clearInterval(timer);
  }, [wait_s, request_id]);
  return Math.max(0, wait_s - elapsed_s);
}

/** A card that is loading, or the reason why it could not be loaded. */
export function Unloaded({ error, refetch }: { error: unknown; refetch: () => Promise<unknown> }) {
  if (error === null) return <Skeleton />;
  return (
    <div className="p-4">
      <ProblemNotice error={error} onRetry={() => void refetch()} />
    </div>
  );
}

/** Links to the pages with the remedies that a 402 answer names. */
function Remedies({ problem }: { problem: Problem }) {
  const named = Array.isArray(problem.metadata.remedies) ? (problem.metadata.remedies as string[]) : [];
  const remedies = named.flatMap((remedy) => REMEDIES[remedy] ?? []);
  if (remedies.length === 0) return null;
  return (
    <div className="mt-2.5 flex flex-wrap gap-2">
      {remedies.map(({ label, tab }, place) => (
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

/** Replaces a page that failed. The navigation stays beside it. */
export function PageProblem({ error, title }: { error: unknown; title?: string }) {
  const router = useRouter();
  const { reset } = useQueryErrorResetBoundary();
  const retry = () => {
    reset();
    void router.invalidate();
  };
  const not_found = asProblem(error).status === 404;
  return (
    <div className="max-w-2xl space-y-4">
      <title>{not_found ? "Not found · Purser" : "Something went wrong · Purser"}</title>
      <h1 className="text-xl font-semibold">{title ?? (not_found ? "Not found" : "This page could not be loaded")}</h1>
      <ProblemNotice error={error} {...(not_found ? {} : { onRetry: retry })} />
      {not_found && (
        <>
          <p className="text-pretty text-muted">The link may be wrong, or someone has deleted the item.</p>
          <div className="flex flex-wrap gap-2">
            <Link to="/agents" className={buttonClass("primary")}>
              Go to agents
            </Link>
            <Link to="/" className={buttonClass()}>
              Go to Home
            </Link>
          </div>
        </>
      )}
    </div>
  );
}

/** Replaces the whole console after an error outside the signed-in pages. */
export function ConsoleProblem({ error }: { error: unknown }) {
  return (
    <main className="mx-auto max-w-2xl px-4 py-16">
      <PageProblem error={error} />
    </main>
  );
}

/** An address that is not a page of the console. */
export function NotFound() {
  return (
    <main className="mx-auto max-w-2xl px-4 py-16">
      <title>Not found · Purser</title>
      <h1 className="sr-only">Not found</h1>
      <Empty
        icon="home"
        title="This page does not exist"
        action={
          <Link to="/" className={buttonClass("primary")}>
            Go to Home
          </Link>
        }
      >
        Check the address for a typing error.
      </Empty>
    </main>
  );
}
