import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { hasAgentsQuery, nextRunsQuery, noticesQuery } from "../api/queries.ts";
import { ago } from "../format.ts";
import { Inbox } from "../parts/inbox.tsx";
import { defaultScheduleInWords, OWN_ZONE, wallTime } from "../schedule-words.ts";
import { inWords } from "../service-words.ts";
import { buttonClass, Card, Empty, PageHeader } from "../ui/basics.tsx";
import { useFirstPage } from "../ui/list.tsx";
import { Unloaded } from "../ui/problem.tsx";

/** Rows of the list of next runs. */
const NEXT_RUNS = 6;

export function HomePage() {
  return (
    <>
      <PageHeader title="Home" />
      <Inbox />
      <FirstSteps />
      <div className="grid gap-4 lg:grid-cols-3">
        <NextRuns />
        <Failures />
      </div>
    </>
  );
}

function NextRuns() {
  const { data: agents, error, refetch } = useQuery(nextRunsQuery(NEXT_RUNS));
  const due = (agents ?? []).flatMap(({ next_run_at, ...agent }) =>
    next_run_at === null ? [] : [{ ...agent, next_run_at }],
  );
  return (
    <Card title="Next runs" className="lg:col-span-2" flush>
      {agents === undefined ? (
        <Unloaded error={error} refetch={refetch} />
      ) : due.length === 0 ? (
        <Empty icon="clock" title="No scheduled runs">
          Set a schedule for an agent. Its next run appears here.
        </Empty>
      ) : (
        <ul>
          {due.map((agent) => (
            <li key={agent.id} className="flex items-baseline justify-between gap-x-4 border-t border-line px-4 py-2.5">
              <span className="min-w-0">
                <Link
                  to="/agents/$id"
                  params={{ id: agent.id }}
                  search={{ tab: "schedule" }}
                  className="font-medium wrap-anywhere hover:underline"
                >
                  {agent.name}
                </Link>
                <span className="block text-sm text-muted empty:hidden">{defaultScheduleInWords(agent)}</span>
              </span>
              <span className="text-right whitespace-nowrap">
                {wallTime(agent.next_run_at, OWN_ZONE)}
                <span className="block text-sm text-muted">{ago(agent.next_run_at)}</span>
              </span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function Failures() {
  const failed = useFirstPage(noticesQuery({ event: "run.failed" }));
  const troubled = useFirstPage(noticesQuery({ event: "run.has_errors" }));
  const rows =
    failed.rows === undefined || troubled.rows === undefined
      ? undefined
      : [...failed.rows, ...troubled.rows].sort((one, other) => other.created_at.localeCompare(one.created_at));
  const refetch = () => Promise.all([failed.refetch(), troubled.refetch()]);
  return (
    <Card title="Recent failures" flush>
      {rows === undefined ? (
        <Unloaded error={failed.error ?? troubled.error} refetch={refetch} />
      ) : rows.length === 0 ? (
        <p className="px-4 pt-2 pb-8 text-center text-muted">No runs with errors.</p>
      ) : (
        <ul>
          {rows.slice(0, 5).map(({ id, event, data, created_at, agent_name, agent_deleted }) => (
            <li key={id} className="border-t border-line px-4 py-2.5">
              <div className="flex justify-between gap-3">
                {agent_deleted ? (
                  <span className="truncate font-medium">{agent_name ?? "An agent"} (deleted)</span>
                ) : (
                  <Link
                    to="/agents/$id/runs/$run_id"
                    params={{ id: String(data.agent_id), run_id: String(data.run_id) }}
                    className="truncate font-medium hover:underline"
                  >
                    {agent_name}
                  </Link>
                )}
                <span className="text-sm whitespace-nowrap text-muted">{ago(created_at)}</span>
              </div>
              <p className={`line-clamp-2 text-sm wrap-anywhere ${event === "run.failed" ? "text-bad" : "text-warn"}`}>
                {event === "run.has_errors" && `Succeeded with errors. ${String(data.tool)}: `}
                {inWords(String(data.error_message))}
              </p>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

/** The first steps of a new user. */
function FirstSteps() {
  const { data: has_agents } = useQuery(hasAgentsQuery);
  if (has_agents !== false) return null;
  return (
    <Card className="mb-4">
      <Empty
        icon="agents"
        title="Create your first agent"
        action={
          <>
            <Link to="/agents/new" className={buttonClass("primary")}>
              Create agent
            </Link>
            <Link to="/developers/keys" className={buttonClass()}>
              Create API key
            </Link>
          </>
        }
      >
        An agent does a recurring task. It reads web pages, answers in a chat, and runs at the times you choose.
        Programs can call the API with an API key and any OpenAI client.
      </Empty>
    </Card>
  );
}
