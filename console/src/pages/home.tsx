import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import {
  anyAgentQuery,
  newestRunsOfAgentQuery,
  nextRunsQuery,
  profileQuery,
  runsOfTimeQuery,
  usageQuery,
  waitingRunsQuery,
} from "../api/queries.ts";
import { daysInWords, forecast } from "../forecast.ts";
import { ago, capital, dayForInput, dollars, number, period } from "../format.ts";
import { lazyPage } from "../lazy-page.ts";
import { NeedsYou } from "../parts/needs-you.tsx";
import { defaultScheduleInWords, OWN_ZONE, wallTime } from "../schedule-words.ts";
import { inWords } from "../service-words.ts";
import { buttonClass, Card, Empty, Facts, PageHeader, Skeleton, Status } from "../ui/basics.tsx";
import { ProblemNotice, Unloaded } from "../ui/problem.tsx";
import { dearerVersion, LONGER_DAYS, RECENT_DAYS, type UnusualAgent, unusualAgents } from "../unusual.ts";

/** Rows of the list of next runs, and of yesterday's results. */
const NEXT_RUNS = 6;
const RESULTS = 8;

export function HomePage() {
  return (
    <>
      <PageHeader title="Home" />
      <Decisions />
      <FirstSteps />
      <NeedsYou />
      <div className="grid items-start gap-4 lg:grid-cols-3">
        <div className="min-w-0 space-y-4 lg:col-span-2">
          <Yesterday />
          <NextRuns />
        </div>
        <Spend />
      </div>
    </>
  );
}

const WaitingRuns = lazyPage(
  () => import("../parts/waiting-runs.tsx"),
  "WaitingRuns",
  () => false,
);

/** What runs ask. Its code loads when a run waits. It stays afterwards, because the last decision may have failed. */
function Decisions() {
  const { data, error, refetch } = useQuery(waitingRunsQuery);
  const waits = data !== undefined && data.runs.length > 0;
  const [has_waited, setWaited] = useState(waits);
  if (waits && !has_waited) setWaited(true);
  if (data === undefined && error !== null) {
    return (
      <div className="mb-4">
        <ProblemNotice error={error} onRetry={() => void refetch()} />
      </div>
    );
  }
  if (!has_waited) return null;
  return (
    <Suspense fallback={<Skeleton />}>
      <WaitingRuns />
    </Suspense>
  );
}

function NextRuns() {
  const { data: agents, error, refetch } = useQuery(nextRunsQuery(NEXT_RUNS));
  const due = (agents ?? []).flatMap(({ next_run_at, ...agent }) =>
    next_run_at === null ? [] : [{ ...agent, next_run_at }],
  );
  return (
    <Card title="Next runs" flush>
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

/** Yesterday's results, a line each. */
function Yesterday() {
  const date = new Date();
  date.setDate(date.getDate() - 1);
  const day = dayForInput(date.toISOString());
  const { data, error, refetch } = useQuery(runsOfTimeQuery(period(day, day), RESULTS));
  return (
    <Card title="Yesterday" flush>
      {data === undefined ? (
        <Unloaded error={error} refetch={refetch} />
      ) : data.rows.length === 0 ? (
        <p className="px-4 pb-4 text-muted">No runs.</p>
      ) : (
        <ul>
          {data.rows.map((run) => (
            <li
              key={run.id}
              className="relative flex flex-wrap items-center gap-x-3 gap-y-1 border-t border-line px-4 py-2 hover:bg-sunken/60"
            >
              <Status status={run.status} has_errors={run.has_errors} />
              <Link
                to="/runs"
                search={{ from: day, to: day, run: run.id }}
                className="font-medium wrap-anywhere after:absolute after:inset-0 max-sm:order-first max-sm:flex-1 sm:max-w-40 sm:shrink-0 sm:truncate"
              >
                {run.agent.name ?? "Agent"}
              </Link>
              <span
                dir="auto"
                className="min-w-0 text-muted wrap-anywhere max-sm:order-1 max-sm:line-clamp-3 max-sm:basis-full sm:flex-1 sm:truncate"
              >
                {run.error === null ? run.first_line : inWords(run.first_line ?? "")}
              </span>
              <span className="text-sm whitespace-nowrap">{dollars(run.usage.cost_tokens)}</span>
            </li>
          ))}
          {data.next_cursor !== null && (
            <li className="border-t border-line px-4 py-2">
              <Link to="/runs" search={{ from: day, to: day }} className="link">
                All runs of yesterday
              </Link>
            </li>
          )}
        </ul>
      )}
    </Card>
  );
}

/** What the account spends, and which agents spend more than usual. */
function Spend() {
  const { data: profile } = useSuspenseQuery(profileQuery);
  const { data: recent } = useQuery(usageQuery(RECENT_DAYS));
  const { data: longer } = useQuery(usageQuery(LONGER_DAYS));
  const left = longer === undefined ? null : forecast(profile, longer);
  const week = longer?.daily_usage.slice(-7).reduce((sum, { cost_tokens }) => sum + cost_tokens, 0);
  const since = recent?.daily_usage[0]?.date ?? "";
  const unusual = recent === undefined || longer === undefined ? [] : unusualAgents(recent, longer);
  return (
    <Card title="Spend">
      <Facts
        facts={[
          ["Balance", dollars(profile.token_balance)],
          ["Last 7 days", week === undefined ? "…" : dollars(week)],
          ["Lasts for", left === null ? "—" : `${capital(daysInWords(left.days))}, ${left.why}`],
        ]}
      />
      {unusual.map((agent) => (
        <Unusual key={agent.id} agent={agent} since={since} />
      ))}
      <Link to="/usage" className="link mt-3 inline-block">
        View usage
      </Link>
    </Card>
  );
}

/** `since`: the first of the days that cost more. */
function Unusual({ agent: { id, name, times }, since }: { agent: UnusualAgent; since: string }) {
  const { data: runs = [] } = useQuery(newestRunsOfAgentQuery(id));
  const version = dearerVersion(runs, since);
  return (
    <p className="mt-3 rounded-lg bg-warn-soft px-3 py-2 wrap-anywhere">
      {number(Math.round(times))}× usual:{" "}
      <Link to="/agents/$id" params={{ id }} search={{ tab: "versions" }} className="link">
        {name}
      </Link>
      {version !== null && ` since version ${number(version)}`}
    </p>
  );
}

/** The first steps of a new user. */
function FirstSteps() {
  const { data: due } = useQuery(nextRunsQuery(NEXT_RUNS));
  const { data: has_agents } = useQuery({ ...anyAgentQuery, enabled: due?.length === 0 });
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
