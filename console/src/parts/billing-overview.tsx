import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { type Hold, holdsQuery, previewQuery } from "../api/billing.ts";
import type { Answer } from "../api/client.ts";
import {
  autoTopupQuery,
  endUserBudgetsQuery,
  keysQuery,
  overageQuery,
  profileQuery,
  subscriptionQuery,
  usageQuery,
} from "../api/queries.ts";
import { daysInWords, forecast } from "../forecast.ts";
import { ago, capital, count, day, dollars, money, number } from "../format.ts";
import { Card, Facts } from "../ui/basics.tsx";
import { Meter } from "../ui/chart.tsx";
import { type Column, Table, useFirstPage } from "../ui/list.tsx";
import { Unloaded } from "../ui/problem.tsx";
import { BucketsCard } from "./buckets.tsx";
import { BudgetUse } from "./budget.tsx";
import { usePlanName } from "./plan-name.ts";

/** Rows of a kind of limit that are shown here. */
const SHOWN = 5;
/** The days of usage that the forecast reads. */
const FORECAST_DAYS = 7;

/** What the account has, what holds it, when it ends, and what limits its use. */
export function BillingOverview() {
  return (
    <div className="space-y-4">
      <div className="grid items-start gap-4 lg:grid-cols-2">
        <BalanceCard />
        <PlanCard />
      </div>
      <HeldCard />
      <BucketsCard />
      <LimitsCard />
    </div>
  );
}

function BalanceCard() {
  const { data: profile } = useSuspenseQuery(profileQuery);
  const { data: usage } = useQuery(usageQuery(FORECAST_DAYS));
  const { available, held, posted, debt } = profile.balance;
  const left = usage === undefined ? null : forecast(profile, usage);
  const facts: [string, ReactNode][] = [
    ["Available", <strong key="available">{`${number(available)} tokens, worth ${dollars(available)}`}</strong>],
    ["Held now", held === 0 ? "Nothing" : number(held)],
    ["Unexpired", number(posted)],
  ];
  if (debt > 0) facts.push(["Debt", `${number(debt)}; the next tokens that you get repay it`]);
  if (usage !== undefined)
    facts.push([
      "Lasts for",
      left === null ? "Unknown: no usage in the last 7 days" : `${capital(daysInWords(left.days))}, ${left.why}`,
    ]);
  return (
    <Card title="Balance">
      <Facts facts={facts} />
    </Card>
  );
}

function PlanCard() {
  const plan = useQuery(subscriptionQuery);
  const subscription = plan.data;
  const planName = usePlanName();
  const { status, plan_id, pending_plan_id, cancel_at_period_end = false } = subscription ?? {};
  const active = status === "active" || status === "past_due";
  const next_id = pending_plan_id ?? plan_id ?? "";
  const change = { of: "subscription", body: { plan_id: next_id } } as const;
  const { data: preview } = useQuery({
    ...previewQuery(change),
    enabled: active && !cancel_at_period_end,
    retry: false,
  });
  const actions = (
    <Link to="/billing" search={{ tab: "plans" }} replace className="link text-sm">
      {active ? "Change plan" : "See plans"}
    </Link>
  );
  if (subscription === undefined || !active) {
    return (
      <Card title="Plan" actions={actions}>
        {subscription === undefined ? (
          <Unloaded error={plan.error} refetch={plan.refetch} />
        ) : (
          <p className="text-muted">
            {status === "incomplete"
              ? "The plan starts after its payment."
              : "No plan. You use the tokens of your trial and those that you buy."}
          </p>
        )}
      </Card>
    );
  }
  const end = subscription.current_period_end;
  const facts: [string, ReactNode][] = [["Plan", <strong key="plan">{planName(plan_id ?? "")}</strong>]];
  if (end !== null) facts.push([cancel_at_period_end ? "Ends" : "Renews", `${day(end)}, ${ago(end)}`]);
  if (preview?.next != null && !cancel_at_period_end)
    facts.push(["Next payment", `${money(preview.next.amount_cents, preview.currency)} for ${planName(next_id)}`]);
  if (status === "past_due") facts.push(["State", "The last payment failed"]);
  return (
    <Card title="Plan" actions={actions}>
      <Facts facts={facts} />
    </Card>
  );
}

const HOLD_COLUMNS: Column<Hold>[] = [
  {
    title: "Held by",
    cell: ({ agent_id, agent_name, agent_deleted, run_id, request_id }) =>
      agent_id !== null && run_id !== null && !agent_deleted ? (
        <>
          Run of{" "}
          <Link to="/agents/$id/runs/$run_id" params={{ id: agent_id, run_id }} className="link">
            {agent_name ?? "an agent"}
          </Link>
        </>
      ) : (
        <>
          {agent_name === null ? "Request" : agent_name}{" "}
          <code className="text-sm break-all text-muted select-all">{request_id}</code>
        </>
      ),
  },
  {
    title: "Tokens",
    numeric: true,
    cell: ({ held_tokens, overage_tokens }) => (
      <>
        {number(held_tokens)}
        {overage_tokens > 0 && (
          <span className="block text-sm text-muted">and {number(overage_tokens)} of overage</span>
        )}
      </>
    ),
  },
  { title: "Since", numeric: true, cell: ({ since }) => <span className="whitespace-nowrap">{ago(since)}</span> },
];

/** Nothing is shown while no call holds tokens. */
function HeldCard() {
  const { data } = useQuery(holdsQuery);
  if (data === undefined || data.holds.length === 0) return null;
  return (
    <Card
      title="Held now"
      note={`The worst case of ${data.has_more ? "the newest " : ""}${count(data.holds.length, "running call")}. What a call does not use comes back when it ends.`}
      flush
    >
      <Table label="Held now" columns={HOLD_COLUMNS} rows={data.holds} keyOf={({ hold_id }) => hold_id} />
    </Card>
  );
}

function LimitsCard() {
  const { data: overage } = useQuery(overageQuery);
  const { data: auto } = useQuery(autoTopupQuery);
  const { rows: keys } = useFirstPage(keysQuery);
  const { rows: users } = useFirstPage(endUserBudgetsQuery);
  const limited = keys?.flatMap((key) =>
    key.budget_tokens === null ? [] : [{ ...key, budget_tokens: key.budget_tokens }],
  );
  return (
    <Card title="Limits" note="What may be spent, and where to change it" flush>
      <ul>
        <Limit
          title="Overage"
          what="Usage beyond the plan's tokens, in a period"
          change={
            <Link to="/billing" search={{ tab: "overage" }} replace className="link" aria-label="Change the overage">
              Change
            </Link>
          }
        >
          {overage === undefined ? (
            "…"
          ) : overage.enabled ? (
            <Used used={overage.used_tokens} of={overage.cap_tokens ?? 0} label="Overage" />
          ) : (
            "Off"
          )}
        </Limit>
        <Limit
          title="Automatic top-ups"
          what="Orders of a month (UTC)"
          change={
            <Link
              to="/billing"
              search={{ tab: "purchases" }}
              replace
              className="link"
              aria-label="Change the automatic top-ups"
            >
              Change
            </Link>
          }
        >
          {auto === undefined ? "…" : auto.status === "off" ? "Off" : <TopUpUse auto={auto} />}
        </Limit>
        <Limit
          title="API keys"
          what="The budget of each key"
          change={
            <Link to="/developers/keys" className="link" aria-label="Change the budgets of API keys">
              Change
            </Link>
          }
        >
          <Budgets
            of={limited?.map((key) => (
              <Budget key={key.id} name={key.name} budget_tokens={key.budget_tokens} used={key} />
            ))}
          />
        </Limit>
        <Limit
          title="End users"
          what="The budget of each end user of your programs"
          change={
            <Link
              to="/billing"
              search={{ tab: "end_users" }}
              replace
              className="link"
              aria-label="Change the budgets of end users"
            >
              Change
            </Link>
          }
        >
          <Budgets
            of={users?.map((user) => (
              <Budget key={user.user} name={user.user} budget_tokens={user.budget_tokens} used={user} />
            ))}
          />
        </Limit>
      </ul>
    </Card>
  );
}

interface LimitProps {
  title: string;
  what: string;
  change: ReactNode;
  children: ReactNode;
}
function Limit({ title, what, change, children }: LimitProps) {
  return (
    <li className="grid grid-cols-[minmax(0,1fr)_auto] items-start gap-x-4 gap-y-1 border-t border-line px-4 py-2.5 md:grid-cols-[16rem_minmax(0,1fr)_auto]">
      <div>
        <h3 className="font-medium">{title}</h3>
        <p className="text-sm text-muted">{what}</p>
      </div>
      <div className="min-w-0 space-y-2 max-md:order-last max-md:col-span-2">{children}</div>
      {change}
    </li>
  );
}

function Budgets({ of: budgets }: { of: readonly ReactNode[] | undefined }) {
  if (budgets === undefined) return "…";
  if (budgets.length === 0) return "No budgets";
  return (
    <>
      {budgets.slice(0, SHOWN)}
      {budgets.length > SHOWN && <p className="text-sm text-muted">and more</p>}
    </>
  );
}

function Budget({ name, budget_tokens, used }: Parameters<typeof BudgetUse>[0]) {
  return (
    <div className="grid gap-x-4 sm:grid-cols-2">
      <span className="wrap-anywhere">{name}</span>
      <BudgetUse name={name} budget_tokens={budget_tokens} used={used} />
    </div>
  );
}

function Used({ used, of, label }: { used: number; of: number; label: string }) {
  return (
    <>
      {number(used)} <span className="text-muted">of {count(of, "token")}</span>
      <Meter label={`${label} used`} value={used} of={of} tone={used * 5 >= of * 4 ? "bg-warn" : "bg-accent"} />
    </>
  );
}

function TopUpUse({ auto }: { auto: Answer<"GET /api/v1/billing/auto-topup"> }) {
  const { ordered_this_month_cents: ordered, monthly_cap_cents: cap, status } = auto;
  return (
    <>
      {money(ordered, "usd")} <span className="text-muted">of {money(cap ?? 0, "usd")} ordered</span>
      {status === "paused" && <span className="text-bad"> · paused</span>}
      {status === "cap_reached" && <span className="text-warn"> · the cap is reached</span>}
      <Meter label="Automatic top-ups ordered this month, in cents" value={ordered} of={cap ?? 0} />
    </>
  );
}
