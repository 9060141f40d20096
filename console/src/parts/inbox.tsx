import { useQuery } from "@tanstack/react-query";
import { Suspense, useEffect, useState } from "react";
import { waitingRunsQuery } from "../api/queries.ts";
import { lazyPage } from "../lazy-page.ts";
import { Skeleton } from "../ui/basics.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

const WaitingRuns = lazyPage(
  () => import("./waiting-runs.tsx"),
  "WaitingRuns",
  () => false,
);

/** What the user's runs ask. Its code loads when a run waits. It stays afterwards, because the last decision may have failed. */
export function Inbox() {
  const { data, error, refetch } = useQuery(waitingRunsQuery);
  const waits = data !== undefined && data.runs.length > 0;
  const [has_waited, setWaited] = useState(waits);
  useEffect(() => {
    if (waits) setWaited(true);
  }, [waits]);
  if (data === undefined && error !== null) {
    return (
      <div className="mb-4">
        <ProblemNotice error={error} onRetry={() => void refetch()} />
      </div>
    );
  }
  if (!waits && !has_waited) return null;
  return (
    <Suspense fallback={<Skeleton />}>
      <WaitingRuns />
    </Suspense>
  );
}
