import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { currencyDigits } from "../../../src/account/billing/currency.ts";
import type { Answer } from "../api/client.ts";
import { listFrom, overviewQuery } from "../api/queries.ts";
import { ago, count, instant, money, number, dollars as tokensInDollars, words } from "../format.ts";
import {
  isFailing,
  listTroubles,
  type Overview,
  PLACES,
  type PlaceName,
  type Provider,
  usedProviders,
} from "../parts/operator-health.ts";
import { usePlanName } from "../parts/plan-name.ts";
import { Audit } from "../parts/system-panel.tsx";
import { failure } from "../run-words.ts";
import { Badge, Callout, Card, Facts, Name, PageHeader, Segments } from "../ui/basics.tsx";
import { type Column, ListCard, Table } from "../ui/list.tsx";
import { Unloaded } from "../ui/problem.tsx";
import { SelectField } from "../ui/select.tsx";

/** The first page of the operator's section: the service at a glance. Each figure leads to its place. */
export function OperatorOverviewPage() {
  const { window = "24h" } = useSearch({ from: "/signed-in/operator/" });
  const overview = useQuery(overviewQuery(window));
  const { data } = overview;
  return (
    <>
      <PageHeader title="Operator" note="The service at a glance.">
        <Segments
          label="Time of runs"
          segments={[
            { name: "24 hours", chosen: window === "24h", search: { window: undefined } },
            { name: "7 days", chosen: window === "7d", search: { window: "7d" } },
          ]}
        />
      </PageHeader>
      {data === undefined ? <Unloaded {...overview} /> : <Glance overview={data} />}
    </>
  );
}

function Glance({ overview }: { overview: Overview }) {
  const { warnings, audit } = overview;
  return (
    <div className="space-y-4">
      <Health overview={overview} />
      <SetupLeft setup={overview.setup} />
      <Money money={overview.money} />
      <div className="grid gap-4 lg:grid-cols-2">
        <FailingAgents overview={overview} />
        <Providers overview={overview} />
        <Queue queue={overview.queue} />
        <MailAndPayments overview={overview} />
      </div>
      <Audit last={audit} />
      <Backup backup={overview.backup} />
      {warnings.length > 0 && (
        <Card title="Settings worth a look" actions={<Go to="settings">Settings</Go>}>
          <ul className="list-disc space-y-1 pl-5">
            {warnings.map((warning) => (
              <li key={warning}>{warning}</li>
            ))}
          </ul>
        </Card>
      )}
      <Margins />
    </div>
  );
}

const Go = ({ to, children }: { to: PlaceName; children: ReactNode }) => (
  <Link {...PLACES[to]} className="link whitespace-nowrap">
    {children}
  </Link>
);

function Health({ overview }: { overview: Overview }) {
  const troubles = listTroubles(overview);
  if (troubles.length === 0) {
    return (
      <Callout tone="good" icon="check">
        <strong className="font-semibold">The service is healthy.</strong> Providers answer, no run waits too long, and
        no run failed.
      </Callout>
    );
  }
  return (
    <Callout tone="warn" icon="warning">
      <strong className="font-semibold">{count(troubles.length, "thing")} to look at</strong>
      <ul className="mt-1 space-y-1">
        {troubles.map(({ text, to, link }) => (
          <li key={text}>
            {text}{" "}
            <Link {...PLACES[to]} className="whitespace-nowrap underline">
              {link}
            </Link>
          </li>
        ))}
      </ul>
    </Callout>
  );
}

const STEP_NAMES: Readonly<Record<Overview["setup"][number]["step"], string>> = {
  admin: "an operator's account",
  provider: "a provider's key",
  payments: "payments",
  mail: "mail",
  sign_up: "sign-up",
  backup: "a backup",
};

function SetupLeft({ setup }: Pick<Overview, "setup">) {
  const left = setup.filter(({ state }) => state === "to_do").map(({ step }) => STEP_NAMES[step]);
  if (left.length === 0) return null;
  return (
    <Callout tone="accent" icon="check">
      <strong className="font-semibold">The set-up is not finished.</strong> Left: {left.join(", ")}.{" "}
      <Link to="/operator/setup" className="whitespace-nowrap underline">
        Go on with the set-up
      </Link>
    </Callout>
  );
}

const dollars = (micro_usd: number | null) => (micro_usd === null ? "Unknown" : money(micro_usd / 10_000, "usd"));
/** The sums of each currency, one below the other. */
function revenue({ revenue_micro_usd, revenue_in_other_currencies: other }: Overview["money"]["today"]): ReactNode {
  // with its code: the sign of Canadian and other dollars is $ too
  const others = Object.entries(other).map(
    ([currency, micro]) => `${money(micro / 10 ** (6 - currencyDigits(currency)), currency)} ${currency.toUpperCase()}`,
  );
  const sums = revenue_micro_usd === 0 && others.length > 0 ? others : [dollars(revenue_micro_usd), ...others];
  return sums.map((sum, at) => (
    <span key={sum} className="block">
      {at > 0 && "+ "}
      {sum}
    </span>
  ));
}
/** Upstream costs are in dollars. */
const margin = ({ margin_micro_usd, revenue_in_other_currencies: other }: Overview["money"]["today"]): string =>
  Object.keys(other).length > 0 ? "Different currencies" : dollars(margin_micro_usd);
const TIMES = [
  ["today", "Today"],
  ["yesterday", "Yesterday"],
  ["last_7_days", "7 days"],
] as const;
type Figures = Overview["money"]["today"] & { name: string };
const MONEY_COLUMNS: Column<Figures>[] = [
  { title: "Time", cell: ({ name }) => name },
  { title: "Requests", wide: true, numeric: true, cell: ({ requests }) => number(requests) },
  { title: "At the standard rate", wide: true, numeric: true, cell: ({ cost_tokens }) => tokensInDollars(cost_tokens) },
  { title: "Revenue", numeric: true, cell: revenue },
  { title: "Upstream cost", numeric: true, cell: (row) => dollars(row.upstream_cost_micro_usd) },
  {
    title: "Margin",
    numeric: true,
    cell: (row) => (
      <span className={(row.margin_micro_usd ?? 0) < 0 ? "font-medium text-bad" : "font-medium"}>{margin(row)}</span>
    ),
  },
];

function Money({ money: of }: Pick<Overview, "money">) {
  return (
    <Card
      title="Money"
      note="The page Usage shows tokens at the standard rate. Revenue is what they were sold for: a plan has its own price, and trials and grants bring nothing. All users, days in UTC."
      flush
    >
      <Table
        label="Money"
        columns={MONEY_COLUMNS}
        rows={TIMES.map(([time, name]) => ({ ...of[time], name }))}
        keyOf={({ name }) => name}
      />
    </Card>
  );
}

type FailingAgent = Overview["failing_agents"][number];
const FAILING_COLUMNS: Column<FailingAgent>[] = [
  {
    title: "Agent",
    cell: ({ agent_name, user_id, user_email }) => (
      <>
        <span className="font-medium wrap-anywhere">{agent_name ?? "Deleted agent"}</span>
        <Link to="/operator/users/$id" params={{ id: user_id }} className="link block text-sm break-all">
          {user_email ?? "Erased user"}
        </Link>
      </>
    ),
  },
  { title: "Failed", numeric: true, cell: ({ failed_runs, runs }) => `${number(failed_runs)} of ${number(runs)}` },
  {
    title: "Last error",
    cell: ({ user_id, agent_id, last_error, last_failed_at }) => (
      <>
        <Link to="/operator/runs" search={{ user_id, agent_id, status: "failed" }} className="link">
          {words(failure(last_error.code))}
        </Link>
        <span className="block text-sm text-muted">{ago(last_failed_at)}</span>
      </>
    ),
  },
];

function FailingAgents({ overview: { runs, failing_agents } }: { overview: Overview }) {
  const note = runs.ended === 0 ? "No run has ended." : `${number(runs.failed)} of ${count(runs.ended, "run")} failed.`;
  return (
    <Card title="Failing agents" note={note} actions={<Go to="failed_runs">Failed runs</Go>} flush>
      {failing_agents.length === 0 ? (
        <p className="px-4 pb-4 text-muted">No agent fails.</p>
      ) : (
        <Table
          label="Failing agents"
          columns={FAILING_COLUMNS}
          rows={failing_agents}
          keyOf={({ agent_id }) => agent_id}
        />
      )}
    </Card>
  );
}

const PROVIDER_COLUMNS: Column<Provider>[] = [
  {
    title: "Provider",
    cell: (provider) => (
      <>
        <span className="font-medium">{provider.name}</span> {isFailing(provider) && <Badge tone="bad">Failing</Badge>}
        <span className="block text-sm text-muted">{count(provider.models, "model")}</span>
      </>
    ),
  },
  {
    title: "Failed calls",
    numeric: true,
    cell: ({ recent_calls, recent_failures }) =>
      recent_calls === 0 ? (
        <span className="text-muted">No calls yet</span>
      ) : (
        `${number(recent_failures)} of the last ${number(recent_calls)}`
      ),
  },
  {
    title: "Last failure",
    cell: ({ last_failure }) =>
      last_failure === null ? (
        <span className="text-muted">None</span>
      ) : (
        <>
          {last_failure.provider_status === null ? "No answer" : `Status ${last_failure.provider_status}`}
          {last_failure.provider_code !== null && (
            <code className="ml-1 text-sm break-all">{last_failure.provider_code}</code>
          )}
          <span className="block text-sm text-muted">{ago(last_failure.at)}</span>
        </>
      ),
  },
];

function Providers({ overview }: { overview: Overview }) {
  const used = usedProviders(overview);
  return (
    <Card
      title="Providers"
      note="Their last calls by this node, since it started."
      actions={<Go to="setup">Test a provider</Go>}
      flush
    >
      {used.length === 0 ? (
        <p className="px-4 pb-4 text-muted">No provider is connected.</p>
      ) : (
        <Table label="Providers" columns={PROVIDER_COLUMNS} rows={used} keyOf={({ name }) => name} />
      )}
    </Card>
  );
}

const figure = (name: string, text: string, to: PlaceName): [string, ReactNode] => [
  name,
  <Go key={name} to={to}>
    {text}
  </Go>,
];

function Queue({ queue: { queued, running, waiting, oldest_queued_at } }: Pick<Overview, "queue">) {
  return (
    <Card title="Queue" note="Runs of all users now.">
      <Facts
        facts={[
          figure(
            "Queued",
            oldest_queued_at === null ? "0" : `${number(queued)}, the oldest ${ago(oldest_queued_at)}`,
            "queued_runs",
          ),
          figure("Running", number(running), "running_runs"),
          figure("Waiting for a person", number(waiting), "waiting_runs"),
        ]}
      />
    </Card>
  );
}

const PROVIDERS_OF_PAYMENTS = { stripe: "Stripe", sandbox: "Simulated, no money moves", none: "None" } as const;

function MailAndPayments({ overview: { mail, payments } }: { overview: Overview }) {
  const { last_failure } = mail;
  const failed =
    last_failure === null ? "None" : `${ago(last_failure.at)} (${last_failure.smtp_status ?? last_failure.code})`;
  return (
    <Card title="Mail and payments" actions={<Go to="payments">Payments</Go>}>
      <Facts
        facts={[
          ["Mail", mail.delivery === "log" ? "No mail server is set: links are in the log" : `From ${mail.from}`],
          ["Queued mails", number(mail.queued)],
          ["Last failed mail", failed],
          ["Payments", PROVIDERS_OF_PAYMENTS[payments.provider]],
          figure("Unpaid invoices", number(payments.unpaid_invoices), "payments"),
          ["Past due subscriptions", number(payments.past_due_subscriptions)],
          figure("Mismatches", number(payments.mismatches), "mismatches"),
        ]}
      />
    </Card>
  );
}

function Backup({ backup }: Pick<Overview, "backup">) {
  return (
    <Card title="Backup" actions={<Go to="setup">Back up now</Go>}>
      {backup === null && <p className="text-muted">Purser has made no backup yet.</p>}
      {backup !== null && backup.problem === null && (
        <p>
          The last backup ended without a problem {ago(backup.ended_at)}, {instant(backup.ended_at)}.
        </p>
      )}
      {backup !== null && backup.problem !== null && (
        <Callout tone="bad" icon="warning">
          The last backup failed {ago(backup.ended_at)}: {backup.problem}
        </Callout>
      )}
    </Card>
  );
}

const GROUPS = [
  ["model", "Model"],
  ["user", "User"],
  ["plan", "Plan"],
  ["day", "Day"],
] as const;
type Group = Answer<"GET /api/v1/admin/usage">["usage"][number];

function Margins() {
  const [group_by, setGroup] = useState<(typeof GROUPS)[number][0]>("model");
  const query = listFrom(["operator", "usage", group_by], "GET /api/v1/admin/usage", "usage", { query: { group_by } });
  const planName = usePlanName();
  const idOf = (row: Group) => row.model_name ?? row.user_id ?? row.date ?? row.plan_id ?? "";
  const nameOf = (row: Group) =>
    row.plan_id == null ? (row.email ?? (idOf(row) || "No plan")) : planName(row.plan_id);
  const columns: Column<Group>[] = [
    {
      title: "Group",
      cell: (row) => (
        <span className="wrap-anywhere">
          <Name text={nameOf(row)} />
        </span>
      ),
    },
    { title: "Requests", wide: true, numeric: true, cell: (row) => number(row.requests) },
    { title: "Billed tokens", numeric: true, cell: (row) => number(row.cost_tokens) },
    { title: "At the standard rate", wide: true, numeric: true, cell: (row) => tokensInDollars(row.cost_tokens) },
    { title: "Revenue", wide: true, numeric: true, cell: revenue },
    { title: "Upstream cost", wide: true, numeric: true, cell: (row) => dollars(row.upstream_cost_micro_usd) },
    { title: "Margin", numeric: true, cell: margin },
  ];
  return (
    <ListCard
      title="Usage and margin"
      note="The last 30 days, all users."
      query={query}
      columns={columns}
      keyOf={idOf}
      empty="No usage in the last 30 days."
    >
      <div className="max-w-48 px-4 pb-3">
        <SelectField label="Group by" value={group_by} options={GROUPS} onValue={setGroup} />
      </div>
    </ListCard>
  );
}
