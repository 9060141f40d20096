import { useSuspenseQuery } from "@tanstack/react-query";
import { type FoundRun, waitingRunsQuery } from "../api/queries.ts";
import { ago, count } from "../format.ts";
import { type Decide, DecideProblem, RequiredActions, useDecide } from "./approvals.tsx";

/** What the user's runs ask, by agent: the agent that asked last is first. */
export function WaitingRuns() {
  const { runs, more } = useSuspenseQuery(waitingRunsQuery).data;
  const decide = useDecide();
  const newest = runs.toSorted((one, other) => askedAt(other).localeCompare(askedAt(one)));
  return (
    <section aria-label="Decisions" className="mb-4 space-y-4 empty:hidden">
      <DecideProblem decide={decide} />
      {runs.length > 0 && (
        <h2 className="font-semibold">
          {more && "More than "}
          {count(runs.length, "run waits", "runs wait")} for your decision
        </h2>
      )}
      {[...Map.groupBy(newest, ({ agent }) => agent.id)].map(([agent_id, waiting]) => (
        <AgentRuns key={agent_id} runs={waiting} decide={decide} />
      ))}
    </section>
  );
}

const askedAt = ({ required_actions, queued_at }: FoundRun): string => required_actions[0]?.requested_at ?? queued_at;

function AgentRuns({ runs, decide }: { runs: FoundRun[]; decide: Decide }) {
  const [{ agent }] = runs as [FoundRun];
  return (
    <div className="space-y-3 rounded-xl border border-warn/40 bg-warn-soft/40 p-3">
      <h3 className="font-medium wrap-anywhere">{agent.name}</h3>
      {runs.map((run) => (
        <div key={run.id} className="space-y-1.5">
          <p className="text-sm text-muted">Asked {ago(askedAt(run))}</p>
          <RequiredActions run={run} decide={decide} compact />
        </div>
      ))}
    </div>
  );
}
