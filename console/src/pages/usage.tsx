import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { profileQuery, type UsageSummary, usageQuery, userUsageQuery } from "../api/queries.ts";
import { daysLeft } from "../forecast.ts";
import { count, day, dollars, number, short } from "../format.ts";
import { Card, PageHeader, Skeleton, segmentClass } from "../ui/basics.tsx";
import { Meter, UsageChart } from "../ui/chart.tsx";
import { ProblemNotice, Unloaded } from "../ui/problem.tsx";

const WINDOWS = [7, 30, 90] as const;
/** Models, agents, keys or users with the most usage, each with its own row. */
const NAMED_SHARES = 8;

export function UsagePage() {
  const { days = 30, by = "model" } = useSearch({ from: "/signed-in/usage" });
  const usage = useQuery(usageQuery(days));
  const windows = (
    <nav aria-label="Period" className="flex rounded-lg bg-sunken p-0.5">
      {WINDOWS.map((window) => (
        <Link
          key={window}
          from="/usage"
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
      <PageHeader title="Usage">{windows}</PageHeader>
      {usage.isError && <ProblemNotice error={usage.error} onRetry={() => void usage.refetch()} />}
      <Tiles usage={usage.data} days={days} />
      <div className="mt-4 grid gap-4 lg:grid-cols-3">
        <Card title="Billed tokens by day" note="Days are UTC" className="lg:col-span-2">
          {usage.data === undefined ? <Skeleton lines={6} /> : <UsageChart days={usage.data.daily_usage} />}
        </Card>
        <Breakdown usage={usage.data} by={by} days={days} />
      </div>
    </>
  );
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
          from="/usage"
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
