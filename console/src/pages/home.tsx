import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import { TOKENS_PER_CENT } from "../../../src/kernel/constants.ts";
import {
  anyAgentQuery,
  newestVersionQuery,
  nextRunsQuery,
  profileQuery,
  runsOfTimeQuery,
  type UsageSummary,
  usageQuery,
  waitingRunsQuery,
} from "../api/queries.ts";
import { daysInWords, forecast } from "../forecast.ts";
import { ago, capital, dayForInput, dollars, number, period } from "../format.ts";
import { lazyPage } from "../lazy-page.ts";
import { LONGER_DAYS, NeedsYou } from "../parts/needs-you.tsx";
import { defaultScheduleInWords, OWN_ZONE, wallTime } from "../schedule-words.ts";
import { inWords } from "../service-words.ts";
import { buttonClass, Card, Empty, Facts, PageHeader, Skeleton, Status } from "../ui/basics.tsx";
import { ProblemNotice, Unloaded } from "../ui/problem.tsx";

/** Rows of the list of next runs, and of yesterday's results. */
const NEXT_RUNS = 6;
const RESULTS = 8;
/** The spend of the last days, compared with that of the days before. */
const RECENT_DAYS = 2;
const UNUSUAL_TIMES = 3;

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
              className="relative flex items-center gap-3 border-t border-line px-4 py-2 hover:bg-sunken/60"
            >
              <Status status={run.status} has_errors={run.has_errors} brief />
              <Link
                to="/runs"
                search={{ from: day, to: day, run: run.id }}
                className="max-w-40 shrink-0 truncate font-medium after:absolute after:inset-0"
              >
                {run.agent.name ?? "Agent"}
              </Link>
              <span dir="auto" className="min-w-0 flex-1 truncate text-muted">
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
        <Unusual key={agent.id} agent={agent} />
      ))}
      <Link to="/usage" className="link mt-3 inline-block">
        View usage
      </Link>
    </Card>
  );
}

interface UnusualAgent {
  id: string;
  name: string;
  times: number;
}

/** Agents that spend several times as much each day as in the week before. */
function unusualAgents(recent: UsageSummary, longer: UsageSummary): UnusualAgent[] {
  const whole = new Map(longer.agent_breakdown.map(({ agent_id, cost_tokens }) => [agent_id, cost_tokens]));
  return recent.agent_breakdown.flatMap(({ agent_id, agent_name, cost_tokens }) => {
    const usual = ((whole.get(agent_id) ?? 0) - cost_tokens) / (LONGER_DAYS - RECENT_DAYS);
    const times = usual === 0 ? 0 : cost_tokens / RECENT_DAYS / usual;
    if (agent_id === null || times < UNUSUAL_TIMES || cost_tokens < TOKENS_PER_CENT) return [];
    return [{ id: agent_id, name: agent_name ?? "An agent", times }];
  });
}

function Unusual({ agent: { id, name, times } }: { agent: UnusualAgent }) {
  const { data: version } = useQuery(newestVersionQuery(id));
  const is_new = version != null && Date.now() - Date.parse(version.created_at) < (RECENT_DAYS + 1) * 86_400_000;
  return (
    <p className="mt-3 rounded-lg bg-warn-soft px-3 py-2 wrap-anywhere">
      {number(Math.round(times))}× usual:{" "}
      <Link to="/agents/$id" params={{ id }} search={{ tab: "versions" }} className="link">
        {name}
      </Link>
      {is_new && version != null && ` since version ${number(version.version)}`}
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
