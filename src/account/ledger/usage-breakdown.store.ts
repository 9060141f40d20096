import { errors } from "../../kernel/errors.ts";
import type { Sql } from "../../platform/db/db.ts";
import { NIL_ID } from "../../platform/lib/ids.ts";
import type { BreakdownRequest, UsageBreakdown, UsageDimension, UsageFigures, UsageSeries } from "./usage.types.ts";

/** Calls that a window may have if each of them must be read: 100,000 take 0.3 to 0.7 s. */
const MAX_CALLS = 300_000;
/** Names of metadata that a page offers. */
const MAX_NAMES = 100;

/** The day of a group, or of all groups beyond the limit, which have no place. `groups` counts all. */
interface Line extends UsageFigures {
  place: number | null;
  groups: number | null;
  first: string | null;
  second: string | null;
  date: string;
}

/** Adds a value to a statement, and returns its placeholder. */
type Bind = (value: unknown) => string;

const isLabel = (dimension: UsageDimension) => dimension === "user" || dimension.startsWith("metadata.");

/** The dimension's column in `usage_event`. */
function columnOf(dimension: UsageDimension, bind: Bind): string {
  if (dimension === "model") return "model";
  if (dimension === "agent" || dimension === "api_key") return `${dimension}_id::text`;
  return `labels ->> ${bind(dimension)}`;
}

/** The condition on model, agent and key. `none`: the id of rows without one. */
function conditionOf({ model, agent_id, api_key_id }: BreakdownRequest["filter"], bind: Bind, none: string | null) {
  const is = (column: string, value: string | null | undefined) =>
    value === undefined ? [] : [value === null ? `${column} is null` : `${column} = ${bind(value)}`];
  const id = (value: string | null | undefined) => (value === null ? none : value);
  return [...is("model", model), ...is("agent_id", id(agent_id)), ...is("api_key_id", id(api_key_id))]
    .map((condition) => ` and ${condition}`)
    .join("");
}

/** The lines of the daily sums by model, agent and key, archived months included. */
function linesByDay({ from, to, dimensions, filter }: BreakdownRequest, user_id: string, bind: Bind): string {
  const column = (dimension: UsageDimension | undefined) =>
    dimension === undefined ? "null" : dimension === "model" ? "model" : `nullif(${dimension}_id, '${NIL_ID}')::text`;
  return `select ${column(dimensions[0])} as first, ${column(dimensions[1])} as second, day,
      input_tokens + output_tokens as tokens, cost, requests
    from usage_daily where user_id = ${bind(user_id)} and day >= ${bind(from)}::date and day < ${bind(to)}::date
      ${conditionOf(filter, bind, NIL_ID)}`;
}

/** The lines of the daily sums by one label, archived months included. The calls without it are all others of the day. */
function linesByLabel({ from, to, dimensions }: BreakdownRequest, user_id: string, bind: Bind): string {
  const window = `user_id = ${bind(user_id)} and day >= ${bind(from)}::date and day < ${bind(to)}::date`;
  const labelled = `from usage_label_daily where ${window} and name = ${bind(dimensions[0])}`;
  return `select value as first, null as second, day, input_tokens + output_tokens as tokens, cost, requests ${labelled}
    union all select null, null, day, -(input_tokens + output_tokens), -cost, -requests ${labelled}
    union all select null, null, day, input_tokens + output_tokens, cost, requests from usage_daily where ${window}`;
}

/** A line for each call of the window. */
function linesByCall({ from, to, dimensions, filter }: BreakdownRequest, user_id: string, bind: Bind): string {
  const [first, second] = dimensions.map((dimension) => columnOf(dimension, bind));
  const labels = Object.keys(filter.labels).length === 0 ? "" : ` and labels @> ${bind(JSON.stringify(filter.labels))}`;
  return `select ${first} as first, ${second ?? "null"} as second, (created_at at time zone 'UTC')::date as day,
      input_tokens + output_tokens as tokens, cost, 1 as requests
    from usage_event where user_id = ${bind(user_id)} and created_at >= ${bind(`${from}T00:00:00Z`)}::timestamptz
      and created_at < ${bind(`${to}T00:00:00Z`)}::timestamptz ${conditionOf(filter, bind, null)}${labels}`;
}

/** What has the answer: `day` and `label` are daily sums, `call` is each call. */
function sourceOf({ dimensions, filter: { model, agent_id, api_key_id, labels } }: BreakdownRequest) {
  const has_labels = Object.keys(labels).length > 0;
  if (!has_labels && !dimensions.some(isLabel)) return "day";
  const is_filtered = has_labels || model !== undefined || agent_id !== undefined || api_key_id !== undefined;
  return dimensions.length === 1 && !is_filtered ? "label" : "call";
}
const LINES = { day: linesByDay, label: linesByLabel, call: linesByCall };

/**
 * The usage of a window by day and by one or two dimensions, the highest cost first. Calls of archived months are only in
 * the daily sums, which have no two labels, and no label beside a model, agent or key. Such a breakdown begins with the
 * first day whose calls are stored. Throws 400 if it would read too many calls.
 */
export async function readUsageBreakdown(
  sql: Sql,
  user_id: string,
  request: BreakdownRequest,
  archived_before: string | null,
): Promise<UsageBreakdown> {
  const source = sourceOf(request);
  const from = source === "call" ? firstStored(request, archived_before) : request.from;
  if (source === "call") await rejectTooMany(sql, user_id, { from, to: request.to });
  const values: unknown[] = [];
  const bind: Bind = (value) => `$${values.push(value)}`;
  const lines = LINES[source]({ ...request, from }, user_id, bind);
  const found = await sql.query<Line>({
    text: `with line as materialized (${lines}), top as (
        select *, row_number() over () as place from (
          select first, second, count(*) over () as groups from line group by 1, 2 having sum(requests) > 0
            order by sum(cost) desc, sum(tokens) desc, 1, 2 limit ${bind(request.limit)}
        ) as ranked
      )
      select top.place, max(top.groups) as groups, max(top.first) as first, max(top.second) as second,
          line.day::text as date, sum(cost)::bigint as cost_tokens, sum(tokens)::bigint as tokens,
          sum(requests)::bigint as requests
        from line left join top on ${equalOrNull("first")} and ${equalOrNull("second")}
        group by top.place, line.day having sum(requests) > 0 order by top.place, line.day`,
    values,
  });
  const top = found.filter(({ place }) => place !== null);
  const others = found.slice(top.length);
  const groups = [...Map.groupBy(top, ({ place }) => place).values()];
  return {
    from,
    total: seriesOf(found),
    groups: groups.map((of_group) => ({
      values: [of_group[0]?.first ?? null, of_group[0]?.second ?? null].slice(0, request.dimensions.length),
      ...seriesOf(of_group),
    })),
    other: others.length === 0 ? null : { groups: (top[0]?.groups ?? 0) - groups.length, ...seriesOf(others) },
  };
}

/** The first day of the window whose calls are not archived; its end if all are. */
function firstStored({ from, to }: { from: string; to: string }, archived_before: string | null): string {
  const stored = archived_before?.slice(0, 10) ?? from;
  if (stored <= from) return from;
  return stored < to ? stored : to;
}

/** Both are null, or the same text. PostgreSQL cannot hash `is not distinct from`. */
const equalOrNull = (column: "first" | "second") =>
  `coalesce(top.${column}, '') = coalesce(line.${column}, '') and (top.${column} is null) = (line.${column} is null)`;

/** The sums of lines, and those of each of their days. */
function seriesOf(lines: readonly Line[]): UsageSeries {
  const daily = [...Map.groupBy(lines, ({ date }) => date)].map(([date, of_day]) => ({ date, ...sumOf(of_day) }));
  return { ...sumOf(lines), daily: daily.toSorted((a, b) => (a.date < b.date ? -1 : 1)) };
}

function sumOf(lines: readonly UsageFigures[]): UsageFigures {
  const sum = (field: keyof UsageFigures) => lines.reduce((total, line) => total + line[field], 0);
  return { cost_tokens: sum("cost_tokens"), tokens: sum("tokens"), requests: sum("requests") };
}

async function rejectTooMany(sql: Sql, user_id: string, { from, to }: { from: string; to: string }): Promise<void> {
  const [counted] = await sql.query<{ calls: number }>({
    text: `select coalesce(sum(requests), 0) as calls from usage_daily
      where user_id = $1 and day >= $2::date and day < $3::date`,
    values: [user_id, from, to],
  });
  if ((counted?.calls ?? 0) > MAX_CALLS)
    throw errors.invalidValue(
      "from",
      `This breakdown reads each of the ${counted?.calls} calls of these days, and may read ${MAX_CALLS}: ask for fewer days.`,
    );
}

/** The names of metadata that calls of a window have, at most 100, in the order of their letters. */
export async function listMetadataNames(
  sql: Sql,
  user_id: string,
  { from, to }: { from: string; to: string },
): Promise<string[]> {
  // The names of a user are few, their days and values are many: this goes from name to name in the index.
  const rows = await sql.query<{ name: string }>({
    text: `with recursive label(name) as (
        (select name from usage_label_daily where user_id = $1 order by name limit 1)
        union all
        select (select next.name from usage_label_daily next
            where next.user_id = $1 and next.name > label.name order by next.name limit 1)
          from label where name is not null
      )
      select name from label
        where name <> 'user' and exists (
          select from usage_label_daily of_day
            where of_day.user_id = $1 and of_day.name = label.name and day >= $2::date and day < $3::date
        ) limit $4`,
    values: [user_id, from, to, MAX_NAMES],
  });
  return rows.map(({ name }) => name.slice("metadata.".length)).sort();
}
