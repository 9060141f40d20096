import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";
import {
  profileQuery,
  type UsageBreakdown,
  type UsageSummary,
  usageBreakdownQuery,
  usageQuery,
} from "../api/queries.ts";
import { chosenFilters, useFilterSetter } from "../filters.ts";
import { daysInWords, forecast } from "../forecast.ts";
import { capital, count, day as dayOf, dayOfYear, dollars, number, short } from "../format.ts";
import { Callout, Card, Empty, Name, PageHeader, Segments } from "../ui/basics.tsx";
import { Meter, OTHERS_COLOUR, SERIES_COLOURS, type Series, StackedChart, Swatch } from "../ui/chart.tsx";
import { useCsvDownload } from "../ui/csv-download.tsx";
import { Icon } from "../ui/icons.tsx";
import { type Column, Table } from "../ui/list.tsx";
import { ProblemNotice, Unloaded } from "../ui/problem.tsx";
import { SelectField } from "../ui/select.tsx";

const WINDOWS = [7, 30, 90] as const;
/** Rows of the table. All others are one row. */
const ROWS = 100;
const ALL = "(all)";

const DIMENSIONS = { model: "Model", agent: "Agent", key: "API key", user: "End user" } as const;
type Named = keyof typeof DIMENSIONS;
/** What usage is grouped by, as the address names it. */
type Dimension = Named | `metadata.${string}`;
const NAMED = Object.keys(DIMENSIONS) as Named[];
/** The filter of a dimension, in the address and the API. */
const FIELDS = { model: "model", agent: "agent_id", key: "api_key_id", user: "user" } as const;

const isNamed = (text: string): text is Named => Object.hasOwn(DIMENSIONS, text);
const isDimension = (text: string | undefined): text is Dimension =>
  text !== undefined && (isNamed(text) || /^metadata\../.test(text));
const titleOf = (dimension: Dimension) => (isNamed(dimension) ? DIMENSIONS[dimension] : dimension.slice(9));
const apiNameOf = (dimension: Dimension) => (dimension === "key" ? "api_key" : dimension);
const dimensionOf = (api_name: string) => (api_name === "api_key" ? "key" : api_name) as Dimension;

/** What the figures are narrowed to. */
interface Filters {
  model?: string | undefined;
  agent_id?: string | undefined;
  api_key_id?: string | undefined;
  user?: string | undefined;
  metadata?: Record<string, string> | undefined;
}
type Group = UsageBreakdown["groups"][number];
type Key = Group["keys"][number];

/** The filters with this value, or without any of the dimension. */
function withValue({ metadata = {}, ...filters }: Filters, dimension: Dimension, value: string | undefined): Filters {
  const pairs = isNamed(dimension) ? metadata : { ...metadata, [titleOf(dimension)]: value };
  const given = chosenFilters(pairs) as Record<string, string>;
  const found = { ...filters, metadata: Object.keys(given).length === 0 ? undefined : given };
  return isNamed(dimension) ? { ...found, [FIELDS[dimension]]: value } : found;
}

const isNarrowedBy = ({ metadata = {}, ...filters }: Filters, dimension: Dimension) =>
  (isNamed(dimension) ? filters[FIELDS[dimension]] : metadata[titleOf(dimension)]) !== undefined;

function nameOf(dimension: Dimension, { value, name, deleted }: Key): string {
  if (dimension === "key") return value === null ? "Console and schedules" : (name ?? `Key …${value.slice(-6)}`);
  if (dimension !== "agent")
    return value ?? (dimension === "user" ? "Without an end user" : `Without ${titleOf(dimension)}`);
  if (value === null) return "Without an agent";
  return `${name ?? `Agent …${value.slice(-6)}`}${deleted ? " (deleted)" : ""}`;
}

/** The address with other values: undefined removes one. */
const changed = (changes: object) => (old: object) => ({ ...old, ...changes }) as never;

const dayAfter = (date: string) => new Date(Date.parse(date) + 86_400_000).toISOString().slice(0, 10);

function datesOf({ from, to }: { from: string; to: string }): string[] {
  const days = (Date.parse(to) - Date.parse(from)) / 86_400_000;
  return Array.from({ length: days }, (_, n) => new Date(Date.parse(from) + n * 86_400_000).toISOString().slice(0, 10));
}

const idOf = ({ keys }: Group) => JSON.stringify(keys.map(({ value }) => value));

/** The chart's parts: the groups with the highest cost, and the sum of all others. */
function seriesOf({ groups, total }: UsageBreakdown, nameOfGroup: (group: Group) => string): Series[] {
  const named = groups.slice(0, SERIES_COLOURS.length).map((group, place) => ({
    id: idOf(group),
    name: nameOfGroup(group),
    colour: SERIES_COLOURS[place] ?? OTHERS_COLOUR,
    daily: new Map(group.daily.map((figures) => [figures.date, figures])),
  }));
  const rest = total.daily.map(({ date, cost_tokens, requests }) => {
    const of_day = named.flatMap(({ daily }) => daily.get(date) ?? []);
    return [
      date,
      {
        cost_tokens: of_day.reduce((left, figures) => left - figures.cost_tokens, cost_tokens),
        requests: of_day.reduce((left, figures) => left - figures.requests, requests),
      },
    ] as const;
  });
  return [...named, { id: "(others)", name: "Others", colour: OTHERS_COLOUR, daily: new Map(rest) }];
}

export function UsagePage() {
  const search = useSearch({ from: "/signed-in/usage" });
  const { days = 30, day, model, agent_id, api_key_id, user, metadata } = search;
  const filters = { model, agent_id, api_key_id, user, metadata };
  const by = isDimension(search.by) ? search.by : "model";
  const then = isDimension(search.then_by) && search.then_by !== by ? search.then_by : undefined;
  const usage = useQuery(usageQuery(days));
  return (
    <>
      <PageHeader title="Usage" note="Costs are billed tokens at the standard rate. Days begin and end in UTC.">
        <Segments
          label="Period"
          segments={WINDOWS.map((window) => ({
            name: `${window} days`,
            chosen: window === days,
            search: { days: window, day: undefined },
          }))}
        />
      </PageHeader>
      {usage.isError && <ProblemNotice error={usage.error} onRetry={() => void usage.refetch()} />}
      <Tiles usage={usage.data} days={days} />
      <Breakdown days={days} day={day} by={by} then={then} filters={filters} />
    </>
  );
}

function Tiles({ usage, days }: { usage: UsageSummary | undefined; days: number }) {
  const { data: profile } = useSuspenseQuery(profileQuery);
  const left = usage === undefined ? null : forecast(profile, usage);
  const requests = usage?.daily_usage.reduce((sum, bar) => sum + bar.requests, 0) ?? 0;
  return (
    <dl className="grid grid-cols-2 gap-px overflow-hidden rounded-xl border border-line bg-line lg:grid-cols-4">
      <Tile term="Balance" note={balanceNote(profile)}>
        {dollars(profile.token_balance)}
      </Tile>
      <Tile
        term="Lasts for"
        note={usage === undefined ? "" : left === null ? "No usage in the last 7 days" : capital(left.why)}
      >
        {usage === undefined ? "…" : left === null ? "—" : capital(daysInWords(left.days))}
      </Tile>
      <Tile
        term={`Spent in ${days} days`}
        note={usage === undefined ? "" : count(usage.total_cost_tokens, "billed token")}
      >
        {usage === undefined ? "…" : dollars(usage.total_cost_tokens)}
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
  if (profile.balance.held > 0) return `${dollars(profile.balance.held)} held for running calls`;
  if (profile.is_trial && profile.trial_ends_at !== null) return `Trial until ${dayOf(profile.trial_ends_at)}`;
  return count(profile.token_balance, "token");
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

interface BreakdownProps {
  days: number;
  day: string | undefined;
  by: Dimension;
  then: Dimension | undefined;
  filters: Filters;
}

/** The cost of each day by one or two dimensions, as a chart and below it as a table, of one day if it is chosen. */
function Breakdown({ days, day, by, then, filters }: BreakdownProps) {
  const { metadata = {}, ...named } = filters;
  const pairs = Object.entries(metadata).map(([name, value]) => [`metadata[${name}]`, value]);
  const request = chosenFilters({
    group_by: apiNameOf(by),
    then_by: then === undefined ? undefined : apiNameOf(then),
    ...named,
    ...Object.fromEntries(pairs),
  });
  const window = day === undefined ? { days } : { from: day, to: dayAfter(day) };
  const whole = useQuery(usageBreakdownQuery({ days, ...request, limit: ROWS }));
  const shown = useQuery(usageBreakdownQuery({ ...window, ...request, limit: ROWS }));
  const dimensions = then === undefined ? [by] : [by, then];
  const dates = shown.data === undefined ? [] : datesOf(shown.data);
  const csv = useCsvDownload("/api/v1/users/me/usage/breakdown", {
    filters: { ...window, ...request },
    of: ["usage", ...dimensions.map((dimension) => `by-${dimension}`)].join("-"),
    days: { from: dates[0] ?? "", to: dates.at(-1) ?? "" },
    saved: "Usage downloaded",
  });
  const nameOfGroup = ({ keys }: Group) => keys.map((key, place) => nameOf(dimensions[place] ?? by, key)).join(" · ");
  const series = whole.data === undefined ? [] : seriesOf(whole.data, nameOfGroup);
  return (
    <Card className="mt-4" flush>
      <div className="flex flex-wrap items-end gap-x-4 gap-y-3 border-b border-line px-4 py-3">
        <GroupBy by={by} then={then} names={whole.data?.metadata_names ?? []} />
        {csv.button}
      </div>
      {csv.problem}
      <Chips day={day} filters={filters} named={whole.data?.filters ?? []} />
      {whole.data?.archived_before !== undefined && (
        <div className="px-4 pt-3">
          <Callout tone="accent" icon="clock">
            Requests of before {whole.data.archived_before.slice(0, 10)} are archived, and these figures begin there.
            Model, agent and API key without end users and metadata also show archived requests.
          </Callout>
        </div>
      )}
      {whole.data === undefined && <Unloaded error={whole.error} refetch={whole.refetch} />}
      {whole.data !== undefined && whole.data.total.requests > 0 && (
        <div className="border-b border-line px-4 py-3">
          <h2 className="font-semibold">Cost by day</h2>
          <StackedChart
            dates={datesOf(whole.data)}
            series={series}
            chosen={day}
            searchOf={(date) => changed({ day: date === day ? undefined : date })}
          />
        </div>
      )}
      {shown.data === undefined ? (
        // The chart above has the same problem, unless a day is chosen.
        day !== undefined && <Unloaded error={shown.error} refetch={shown.refetch} />
      ) : (
        <Groups
          found={shown.data}
          dimensions={dimensions}
          filters={filters}
          nameOfGroup={nameOfGroup}
          colourOf={(id) => series.find((part) => part.id === id)?.colour ?? OTHERS_COLOUR}
        />
      )}
    </Card>
  );
}

function GroupBy({ by, then, names }: { by: Dimension; then: Dimension | undefined; names: readonly string[] }) {
  const set = useFilterSetter();
  const of_metadata = names.map((name) => [`metadata.${name}`, name] as const);
  const chosen = isNamed(by) ? "" : by;
  // A name of other days, or one in the address, stays chosen.
  const known = chosen === "" || of_metadata.some(([option]) => option === chosen);
  const options = known ? of_metadata : [...of_metadata, [chosen, titleOf(by)] as const];
  return (
    <>
      <div>
        <span className="mb-1 block font-medium">Group by</span>
        <Segments
          label="Group by"
          segments={NAMED.map((view) => ({
            name: DIMENSIONS[view],
            chosen: view === by,
            search: { by: view, then_by: then === view ? undefined : then },
          }))}
        />
      </div>
      {options.length > 0 && (
        <SelectField
          label="Metadata"
          className="w-36"
          value={chosen}
          options={[["", "None"], ...options]}
          onValue={set("by")}
        />
      )}
      <SelectField
        label="Then by"
        className="w-36"
        value={then ?? ""}
        options={[
          ["", "Nothing"],
          ...NAMED.filter((view) => view !== by).map((view) => [view, DIMENSIONS[view]] as const),
          ...of_metadata.filter(([option]) => option !== by),
        ]}
        onValue={set("then_by")}
      />
    </>
  );
}

interface ChipsProps {
  day: string | undefined;
  filters: Filters;
  /** The filters with the names of agents and keys. */
  named: UsageBreakdown["filters"];
}
/** What the figures are narrowed to. Each is a link that removes it. */
function Chips({ day, filters, named }: ChipsProps) {
  const chips = [
    ...named.map(({ dimension: api_name, ...key }) => {
      const dimension = dimensionOf(api_name);
      const without = withValue(filters, dimension, undefined);
      return { title: titleOf(dimension), name: nameOf(dimension, key), without };
    }),
    ...(day === undefined ? [] : [{ title: "Day", name: dayOfYear(day), without: { day: undefined } }]),
  ];
  if (chips.length === 0) return null;
  return (
    <ul aria-label="Filters" className="flex flex-wrap gap-2 border-b border-line px-4 py-2.5">
      {chips.map(({ title, name, without }) => (
        <li key={title} className="min-w-0">
          <Link
            from="/usage"
            to="."
            search={changed(without)}
            replace
            resetScroll={false}
            preload={false}
            activeProps={{ "aria-current": undefined }}
            className="flex items-center gap-1.5 rounded-full bg-accent-soft px-2.5 py-0.5 text-sm text-accent hover:brightness-95"
          >
            <span className="truncate">
              {title}: {name}
            </span>
            <Icon name="close" className="size-3" />
            <span className="sr-only">Remove this filter</span>
          </Link>
        </li>
      ))}
    </ul>
  );
}

interface Row {
  id: string;
  name: string;
  cost_tokens: number;
  requests: number;
  group: Group | null;
}

interface GroupsProps {
  found: UsageBreakdown;
  dimensions: readonly Dimension[];
  filters: Filters;
  nameOfGroup: (group: Group) => string;
  colourOf: (id: string) => Series["colour"];
}

/** The figures of each group. A row narrows to itself, and leads to its runs or requests. */
function Groups({ found, dimensions, filters, nameOfGroup, colourOf }: GroupsProps) {
  const { groups, other, total } = found;
  if (total.requests === 0)
    return (
      <Empty icon="usage" title="No requests">
        No model was called in these days{found.filters.length > 0 && " with these filters"}. The calls of agents and of
        programs are counted here.
      </Empty>
    );
  const rows: Row[] = [
    ...groups.map((group) => ({ ...group, id: idOf(group), name: nameOfGroup(group), group })),
    ...(other === null ? [] : [{ ...other, id: "(others)", name: count(other.groups, "other"), group: null }]),
    ...(groups.length > 1 ? [{ ...total, id: ALL, name: "Total", group: null }] : []),
  ];
  const figure = ({ id }: Row, text: string) => (
    <span className={`whitespace-nowrap ${id === ALL ? "font-semibold" : ""}`}>{text}</span>
  );
  const percent = ({ cost_tokens }: Row) => Math.round((100 * cost_tokens) / Math.max(1, total.cost_tokens));
  const columns: Column<Row>[] = [
    {
      title: dimensions.map(titleOf).join(" · "),
      cell: (row) => (
        <span className="flex min-w-0 items-baseline gap-2">
          {row.id !== ALL && <Swatch colour={colourOf(row.id)} />}
          <span dir="auto" className="min-w-0 wrap-anywhere">
            <GroupName row={row} dimensions={dimensions} filters={filters} />
          </span>
        </span>
      ),
    },
    { title: "Cost", numeric: true, cell: (row) => figure(row, dollars(row.cost_tokens)) },
    {
      title: "Share",
      numeric: true,
      wide: true,
      cell: (row) =>
        row.id !== ALL && (
          <span className="ml-auto flex w-28 items-center gap-2">
            <Meter label={`${row.name}: share of the cost`} value={row.cost_tokens} of={total.cost_tokens} />
            <span className="w-10">{percent(row)}%</span>
          </span>
        ),
    },
    { title: "Billed tokens", numeric: true, wide: true, cell: (row) => figure(row, number(row.cost_tokens)) },
    { title: "Requests", numeric: true, cell: (row) => figure(row, number(row.requests)) },
    {
      title: "",
      cell: ({ group, name }) =>
        group !== null && (
          <ListLink
            group={group}
            name={name}
            dimensions={dimensions}
            filters={filters}
            from={found.from}
            to={found.to}
          />
        ),
    },
  ];
  const has_user = dimensions.includes("user");
  return (
    <>
      <Table label="Usage" columns={columns} rows={rows} keyOf={({ id }) => id} />
      {has_user && (
        <p className="px-4 py-3 text-muted">
          {groups.every(({ keys }) => keys[dimensions.indexOf("user")]?.value === null) &&
            "No request named its end user: programs do so in the field user. "}
          <Link to="/billing" search={{ tab: "end_users" }} className="link">
            Budgets of end users
          </Link>
        </p>
      )}
    </>
  );
}

/** The filters of a group's own values; null: there is no filter for requests without an end user or a name. */
function filtersOf({ keys }: Group, dimensions: readonly Dimension[], filters: Filters): Filters | null {
  return keys.reduce<Filters | null>((narrow, { value }, place) => {
    const dimension = dimensions[place] ?? "model";
    if (narrow === null || (value === null && dimension !== "agent" && dimension !== "key")) return null;
    return withValue(narrow, dimension, value ?? "none");
  }, filters);
}

function GroupName({ row, dimensions, filters }: { row: Row } & Pick<GroupsProps, "dimensions" | "filters">) {
  const narrow = row.group === null ? null : filtersOf(row.group, dimensions, filters);
  const next = narrow === null ? undefined : NAMED.find((dimension) => !isNarrowedBy(narrow, dimension));
  if (narrow === null || next === undefined)
    return row.id === ALL ? <strong className="font-semibold">{row.name}</strong> : <Name text={row.name} />;
  return (
    <Link
      from="/usage"
      to="."
      search={changed({ ...narrow, by: next, then_by: undefined })}
      resetScroll={false}
      preload={false}
      activeProps={{ "aria-current": undefined }}
      className="font-medium hover:underline"
    >
      <Name text={row.name} />
    </Link>
  );
}

interface ListLinkProps extends Pick<GroupsProps, "dimensions" | "filters"> {
  group: Group;
  name: string;
  from: string;
  to: string;
}
/** The way to the runs of an agent, otherwise to the requests. Absent where the list has no such filter. */
function ListLink({ group, name, dimensions, filters, from, to }: ListLinkProps) {
  const narrow = filtersOf(group, dimensions, filters);
  if (narrow === null || narrow.agent_id === "none" || narrow.api_key_id === "none") return null;
  const { model, agent_id, api_key_id, user, metadata = {} } = narrow;
  const window = { from: `${from}T00:00:00.000Z`, to: `${to}T00:00:00.000Z` };
  const [pair, more] = Object.entries(metadata).map(([label, value]) => `${label}=${value}`);
  const look = { className: "link my-1.25 inline-block", preload: false } as const;
  if (agent_id !== undefined && api_key_id === undefined && more === undefined)
    return (
      <Link to="/runs" search={{ agent_id, model_id: model, user, metadata: pair, ...window } as never} {...look}>
        Runs<span className="sr-only"> of {name}</span>
      </Link>
    );
  if (agent_id !== undefined || pair !== undefined) return null;
  return (
    <Link to="/developers/requests" search={{ model, api_key_id, user, ...window } as never} {...look}>
      Requests<span className="sr-only"> of {name}</span>
    </Link>
  );
}
