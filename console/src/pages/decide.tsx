import { useSuspenseQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { agentQuery, runQuery } from "../api/queries.ts";
import { DecideProblem, DecisionCard, RequiredActions, useDecide } from "../parts/approvals.tsx";
import { buttonClass, Card, Empty, PageHeader, Status } from "../ui/basics.tsx";

/** What one run asks: the page that mails link to. Opening it decides nothing. */
export function DecidePage() {
  const { id, run_id } = useParams({ from: "/signed-in/agents/$id/runs/$run_id/decide" });
  const { data: agent } = useSuspenseQuery(agentQuery(id));
  const { data: run } = useSuspenseQuery(runQuery(id, run_id));
  const decide = useDecide();
  const waits = run.required_actions.length > 0;
  return (
    <>
      <PageHeader
        title={waits ? `${agent.name} asks you` : `Decisions of ${agent.name}`}
        note={
          waits ? (
            "The run waits for your decision, at no cost."
          ) : (
            <Status status={run.status} has_errors={run.has_errors} />
          )
        }
      >
        <Link to="/agents/$id/runs/$run_id" params={{ id, run_id }} className={buttonClass()}>
          View run
        </Link>
      </PageHeader>
      <div className="space-y-4" aria-live="polite">
        <DecideProblem decide={decide} />
        {waits ? (
          <RequiredActions run={run} decide={decide} />
        ) : (
          <Card>
            <Empty icon="check" title="Nothing waits for your decision">
              {run.decisions.length === 0 ? "This run has not asked for anything." : "All of it was decided:"}
            </Empty>
          </Card>
        )}
        {run.decisions.length > 0 && (
          <ul className="space-y-2.5" aria-label="Decisions">
            {run.decisions.toReversed().map((decided) => (
              <DecisionCard key={decided.id} decided={decided} />
            ))}
          </ul>
        )}
      </div>
    </>
  );
}
