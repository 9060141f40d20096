import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";
import {
  hasAgentsQuery,
  nextRunsQuery,
  noticesQuery,
  profileQuery,
  type UsageSummary,
  usageQuery,
  userUsageQuery,
} from "../api/queries.ts";
import { ago, count, day, dollars, number, short } from "../format.ts";
import { defaultScheduleInWords, OWN_ZONE, wallTime } from "../schedule-words.ts";
import { inWords } from "../service-words.ts";
import { buttonClass, Card, Empty, PageHeader, Skeleton, segmentClass } from "../ui/basics.tsx";
import { Meter, UsageChart } from "../ui/chart.tsx";
import { useFirstPage } from "../ui/list.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

const WINDOWS = [7, 30, 90] as const;
/** The forecast uses the usage of the last week. */
const PACE_DAYS = 7;
/** Models, agents, keys or users with the most usage, each with its own row. */
const NAMED_SHARES = 8;
/** Rows of the list of next runs. */
const NEXT_RUNS = 6;

export function OverviewPage() {
  const { days = 30, by = "model" } = useSearch({ from: "/signed-in/" });
  const usage = useQuery(usageQuery(days));
  const windows = (
    <nav aria-label="Period" className="flex rounded-lg bg-sunken p-0.5">
      {WINDOWS.map((window) => (
        <Link
          key={window}
          from="/"
          to="."
          search={(old) => ({ ...old, days: window })}
          replace
          className={segmentClass(window === days)}
          aria-current={window === days ? "true" : undefined}
        >
          {window} days
        </Link>
      ))}
    </nav>
  );
  return (
    <>
      <PageHeader title="Overview">{windows}</PageHeader>
      <FirstSteps />
      {usage.isError && <ProblemNotice error={usage.error} onRetry={() => void usage.refetch()} />}
      <Tiles usage={usage.data} days={days} />
      <div className="mt-4 grid gap-4 lg:grid-cols-3">
        <Card title="Billed tokens by day" note="Days are UTC" className="lg:col-span-2">
          {usage.data === undefined ? <Skeleton lines={6} /> : <UsageChart days={usage.data.daily_usage} />}
        </Card>
        <Breakdown usage={usage.data} by={by} days={days} />
        <NextRuns />
        <Failures />
      </div>
    </>
  );
}

/** Days until the balance is spent at the rate of the last week; null: no usage. */
function daysLeft(balance: number, usage: UsageSummary): number | null {
  const week = usage.daily_usage.slice(-PACE_DAYS);
  const spent = week.reduce((sum, { cost_tokens }) => sum + cost_tokens, 0);
  return spent === 0 ? null : balance / (spent / week.length);
}

function Tiles({ usage, days }: { usage: UsageSummary | undefined; days: number }) {
  const { data: profile } = useSuspenseQuery(profileQuery);
  const left = usage === undefined ? null : daysLeft(profile.token_balance, usage);
  const requests = usage?.daily_usage.reduce((sum, bar) => sum + bar.requests, 0) ?? 0;
  return (
    <dl className="grid grid-cols-2 gap-px overflow-hidden rounded-xl border border-line bg-line lg:grid-cols-4">
      <Tile term="Balance" note={balanceNote(profile)}>
        {short(profile.token_balance)}
      </Tile>
      <Tile
        term="Lasts for"
        note={
          usage === undefined ? "" : left === null ? "no usage in the last 7 days" : "at the rate of the last 7 days"
        }
      >
        {usage === undefined ? "…" : left === null ? "—" : left > 365 ? "over a year" : count(Math.floor(left), "day")}
      </Tile>
      <Tile
        term={`Spent in ${days} days`}
        note={usage === undefined ? "" : `worth ${dollars(usage.total_cost_tokens)}`}
      >
        {usage === undefined ? "…" : short(usage.total_cost_tokens)}
      </Tile>
      <Tile term="Requests" note={usage === undefined ? "" : `${short(usage.total_tokens_used)} tokens processed`}>
        {usage === undefined ? "…" : number(requests)}
      </Tile>
    </dl>
  );
}

function balanceNote(profile: {
  balance: { held: number };
  token_balance: number;
  is_trial: boolean;
  trial_ends_at: string | null;
}): string {
  if (profile.balance.held > 0) return `${number(profile.balance.held)} held for running calls`;
  if (profile.is_trial && profile.trial_ends_at !== null) return `trial until ${day(profile.trial_ends_at)}`;
  return `tokens, worth ${dollars(profile.token_balance)}`;
}

function Tile({ term, note, children }: { term: string; note: string; children: ReactNode }) {
  return (
    <div className="bg-panel px-4 py-3.5">
      <dt className="text-sm text-muted">{term}</dt>
      <dd>
        <span className="block text-2xl font-semibold tracking-tight">{children}</span>
        <span className="block text-sm text-muted">{note}</span>
      </dd>
    </div>
  );
}

interface Share {
  id: string;
  name: string;
  cost_tokens: number;
  requests: number;
}

const GROUPINGS = ["model", "agent", "key", "user"] as const;
type Grouping = (typeof GROUPINGS)[number];

function sharesOf(usage: UsageSummary, by: Exclude<Grouping, "user">): Share[] {
  if (by === "model")
    return usage.model_breakdown.map((share) => ({ ...share, id: share.model_name, name: share.model_name }));
  if (by === "agent") return usage.agent_breakdown.map((share) => ({ ...share, ...agentLabel(share) }));
  return usage.api_key_breakdown.map((share) => ({
    ...share,
    id: share.api_key_id ?? "",
    name:
      share.api_key_id === null
        ? "console and schedules"
        : (share.api_key_name ?? `key …${share.api_key_id.slice(-6)}`),
  }));
}

function agentLabel(share: UsageSummary["agent_breakdown"][number]) {
  const { agent_id, agent_name, agent_deleted } = share;
  if (agent_id === null) return { id: "", name: "without an agent" };
  const name = agent_name ?? `agent …${agent_id.slice(-6)}`;
  return { id: agent_id, name: agent_deleted ? `${name} (deleted)` : name };
}

const sumOf = (shares: readonly Share[]): number => shares.reduce((sum, share) => sum + share.cost_tokens, 0);

interface BreakdownProps {
  usage: UsageSummary | undefined;
  by: Grouping;
  days: number;
}

function Breakdown({ usage, by, days }: BreakdownProps) {
  const views = (
    <nav aria-label="Group by" className="flex rounded-lg bg-sunken p-0.5">
      {GROUPINGS.map((view) => (
        <Link
          key={view}
          from="/"
          to="."
          search={(old) => ({ ...old, by: view })}
          replace
          className={segmentClass(view === by)}
          aria-current={view === by ? "true" : undefined}
        >
          {view}
        </Link>
      ))}
    </nav>
  );
  return (
    <Card title="Usage by" actions={views}>
      {by === "user" ? (
        <UserShares days={days} />
      ) : usage === undefined ? (
        <Skeleton />
      ) : (
        <Shares shares={sharesOf(usage, by)} empty="No usage in this period." />
      )}
    </Card>
  );
}

/** Usage of the end users that requests name. */
function UserShares({ days }: { days: number }) {
  const { data, error, refetch } = useQuery(userUsageQuery(days));
  if (data === undefined) return <Unloaded error={error} refetch={refetch} />;
  return (
    <>
      <Shares
        shares={data.groups.map(({ value, ...share }) => ({ ...share, id: value, name: value }))}
        complete={data.complete}
        empty="No request named its end user in this period."
      />
      <Link to="/billing" search={{ tab: "end_users" }} className="link mt-4 inline-block">
        Budgets of end users
      </Link>
    </>
  );
}

/** `complete`: false if there are more than `shares`. */
function Shares({ shares, empty, complete = true }: { shares: readonly Share[]; empty: string; complete?: boolean }) {
  const total = sumOf(shares);
  const others = shares.slice(NAMED_SHARES);
  if (shares.length === 0) return <p className="py-6 text-center text-muted">{empty}</p>;
  return (
    <ul className="space-y-3">
      {shares.slice(0, NAMED_SHARES).map((share) => (
        <li key={share.id}>
          <div className="mb-1 flex justify-between gap-3">
            <span className="truncate">{share.name}</span>
            <span className="shrink-0 text-muted">{short(share.cost_tokens)}</span>
          </div>
          <Meter label={`${share.name}: billed tokens`} value={share.cost_tokens} of={total} />
        </li>
      ))}
      {others.length > 0 && (
        <li className="flex justify-between gap-3 text-muted">
          <span>
            {complete ? "" : "more than "}
            {count(others.length, "other")}
          </span>
          <span>{short(sumOf(others))}</span>
        </li>
      )}
    </ul>
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

/** A card that is loading, or the reason why it could not be loaded. */
function Unloaded({ error, refetch }: { error: unknown; refetch: () => Promise<unknown> }) {
  if (error === null) return <Skeleton />;
  return (
    <div className="p-4">
      <ProblemNotice error={error} onRetry={() => void refetch()} />
    </div>
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
            <Link to="/keys" className={buttonClass()}>
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
