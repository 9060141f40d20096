import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";
import {
  agentNamesQuery,
  keyNamesQuery,
  noticesQuery,
  profileQuery,
  type UsageSummary,
  usageQuery,
} from "../api/queries.ts";
import { ago, count, day, dollars, number, short } from "../format.ts";
import { OWN_ZONE, scheduleInWords, wallTime } from "../schedule-words.ts";
import { buttonClass, Card, Empty, PageHeader, Skeleton } from "../ui/basics.tsx";
import { Meter, segmentClass, UsageChart } from "../ui/chart.tsx";
import { useFirstPage } from "../ui/first-page.ts";
import { ProblemNotice } from "../ui/problem.tsx";

const WINDOWS = [7, 30, 90] as const;
/** The present pace is that of the last week. */
const PACE_DAYS = 7;

export function OverviewPage() {
  const { days = 30, by = "model" } = useSearch({ from: "/house/" });
  const usage = useQuery(usageQuery(days));
  const windows = (
    <nav aria-label="Window of time" className="flex rounded-lg bg-sunken p-0.5">
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
        <Breakdown usage={usage.data} by={by} />
        <NextRuns />
        <Failures />
      </div>
    </>
  );
}

/** Days until the balance is spent at the pace of the last week; null when nothing was spent. */
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
        term="Lasts"
        note={
          usage === undefined
            ? ""
            : left === null
              ? "nothing spent in the last 7 days"
              : "at the pace of the last 7 days"
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
  if (profile.balance.held > 0) return `${number(profile.balance.held)} held by calls in flight`;
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
  name: string;
  cost_tokens: number;
  requests: number;
}

function Breakdown({ usage, by }: { usage: UsageSummary | undefined; by: "model" | "agent" | "key" }) {
  const { data: agents } = useQuery(agentNamesQuery);
  const { data: keys } = useQuery(keyNamesQuery);
  const named = (list: { id: string; name: string }[] | undefined, id: string | null, none: string) =>
    id === null ? none : (list?.find((entry) => entry.id === id)?.name ?? `deleted (${id.slice(-6)})`);
  const shares: Share[] =
    usage === undefined
      ? []
      : {
          model: () => usage.model_breakdown.map((share) => ({ ...share, name: share.model_name })),
          agent: () =>
            usage.agent_breakdown.map((share) => ({
              ...share,
              name: named(agents, share.agent_id, "without an agent"),
            })),
          key: () =>
            usage.api_key_breakdown.map((share) => ({
              ...share,
              name: named(keys, share.api_key_id, "console and schedules"),
            })),
        }[by]();
  const total = shares.reduce((sum, share) => sum + share.cost_tokens, 0);
  const views = (
    <nav aria-label="Broken down by" className="flex rounded-lg bg-sunken p-0.5">
      {(["model", "agent", "key"] as const).map((view) => (
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
    <Card title="Where they went" actions={views}>
      {usage === undefined ? (
        <Skeleton />
      ) : shares.length === 0 ? (
        <p className="py-6 text-center text-muted">Nothing was used in this window.</p>
      ) : (
        <ul className="space-y-3">
          {shares.slice(0, 8).map((share) => (
            <li key={share.name}>
              <div className="mb-1 flex justify-between gap-3">
                <span className="truncate">{share.name}</span>
                <span className="text-muted">{short(share.cost_tokens)}</span>
              </div>
              <Meter label={`${share.name}: billed tokens`} value={share.cost_tokens} of={total} />
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function NextRuns() {
  const { data: agents } = useQuery(agentNamesQuery);
  const due = (agents ?? [])
    .flatMap((agent) => (agent.next_run_at === null ? [] : [{ ...agent, next_run_at: agent.next_run_at }]))
    .sort((one, other) => one.next_run_at.localeCompare(other.next_run_at))
    .slice(0, 6);
  return (
    <Card title="Next runs" className="lg:col-span-2" flush>
      {agents === undefined ? (
        <Skeleton />
      ) : due.length === 0 ? (
        <Empty icon="clock" title="Nothing is scheduled">
          Give an agent a schedule, and its next runs stand here.
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
                  className="font-medium hover:underline"
                >
                  {agent.name}
                </Link>
                <span className="block text-sm text-muted">
                  {scheduleInWords(agent)}
                  {agent.schedule_status === "paused" && " · paused"}
                </span>
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
  const { rows, isPending } = useFirstPage(noticesQuery({ event: "run.failed" }));
  const { data: agents } = useQuery(agentNamesQuery);
  return (
    <Card title="Recent failures" flush>
      {isPending ? (
        <Skeleton />
      ) : rows.length === 0 ? (
        <p className="px-4 pt-2 pb-8 text-center text-muted">No run has failed.</p>
      ) : (
        <ul>
          {rows.slice(0, 5).map(({ id, data, created_at }) => (
            <li key={id} className="border-t border-line px-4 py-2.5">
              <div className="flex justify-between gap-3">
                <Link
                  to="/agents/$id/runs/$run_id"
                  params={{ id: String(data.agent_id), run_id: String(data.run_id) }}
                  className="truncate font-medium hover:underline"
                >
                  {agents?.find((agent) => agent.id === data.agent_id)?.name ?? "A run"}
                </Link>
                <span className="text-sm whitespace-nowrap text-muted">{ago(created_at)}</span>
              </div>
              <p className="line-clamp-2 text-sm text-bad">{String(data.error_message)}</p>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

/** For who has no agent yet: what there is to do. */
function FirstSteps() {
  const { data: agents } = useQuery(agentNamesQuery);
  if (agents === undefined || agents.length > 0) return null;
  return (
    <Card className="mb-4">
      <Empty
        icon="agents"
        title="Welcome. Make your first agent"
        action={
          <>
            <Link to="/agents/new" className={buttonClass("primary")}>
              Make an agent
            </Link>
            <Link to="/keys" className={buttonClass()}>
              Get an API key
            </Link>
          </>
        }
      >
        An agent is an assistant with a standing task: it reads pages, answers in a chat, and runs by itself at the
        times you choose. Or call the API with a key; it speaks OpenAI's language.
      </Empty>
    </Card>
  );
}
