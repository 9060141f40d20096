import type { Reader, Sql } from "../../platform/db/db.ts";
import { NIL_ID } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { UsageGroup, UsageGrouping, UsageLine, UsageSummary } from "./usage.types.ts";

/** The rollup's uuid for "no agent" and "no key". */
const NONE = NIL_ID;

/** One sum over the window: of a day, a model, an agent or an API key, as `by` says. */
interface Sum {
  by: "day" | "model" | "agent_id" | "api_key_id";
  name: string | null;
  tokens: number;
  cost_tokens: number;
  requests: number;
}

/** Usage of the last `days` UTC days, up to the day of `now`. Reads only the daily rollup. */
export async function readUsage(sql: Reader, user_id: string, days: number, now: Instant): Promise<UsageSummary> {
  const sums = await sql.query<Sum>({
    name: "ledger_usage",
    text: `select
        case when grouping(day) = 0 then 'day' when grouping(model) = 0 then 'model'
          when grouping(agent_id) = 0 then 'agent_id' else 'api_key_id' end as by,
        nullif(coalesce(day::text, model, agent_id::text, api_key_id::text), '${NONE}') as name,
        sum(input_tokens + output_tokens) as tokens, sum(cost) as cost_tokens, sum(requests) as requests
      from usage_daily
      where user_id = $1 and day > ($2::timestamptz at time zone 'UTC')::date - $3::integer
        and day <= ($2::timestamptz at time zone 'UTC')::date
      group by grouping sets ((day), (model), (agent_id), (api_key_id))
      order by cost_tokens desc, tokens desc, name`,
    values: [user_id, now, days],
  });
  const by = (kind: Sum["by"]) => sums.filter((sum) => sum.by === kind).map(({ by: _, ...sum }) => sum);
  const totals = by("day");
  const total = (field: "tokens" | "cost_tokens") => totals.reduce((sum, day) => sum + day[field], 0);
  return {
    total_tokens_used: total("tokens"),
    total_cost_tokens: total("cost_tokens"),
    daily_usage: eachDay(totals, days, now),
    model_breakdown: by("model").map(({ name, ...sum }) => ({ model_name: name ?? "", ...sum })),
    agent_breakdown: by("agent_id").map(({ name, ...sum }) => ({ agent_id: name, ...sum })),
    api_key_breakdown: by("api_key_id").map(({ name, ...sum }) => ({ api_key_id: name, ...sum })),
  };
}

const GROUPED = {
  model: "select model as value, input_tokens, output_tokens, cost, requests, day from usage_daily where user_id = $1",
  day: "select day::text as value, input_tokens, output_tokens, cost, requests, day from usage_daily where user_id = $1",
  label: `select value, input_tokens, output_tokens, cost, requests, day from usage_label_daily
    where user_id = $1 and name = $7`,
};

/** The sums of the last `days` UTC days by one dimension, the highest cost first. Reads only daily rollups. */
export function listUsageGroups(
  sql: Sql,
  user_id: string,
  { group_by, days, limit, after }: UsageGrouping,
  now: Instant,
): Promise<UsageGroup[]> {
  const is_label = group_by !== "model" && group_by !== "day";
  return sql.query({
    text: `select value, sum(input_tokens + output_tokens) as tokens, sum(cost) as cost_tokens, sum(requests) as requests
      from (${GROUPED[is_label ? "label" : group_by]}) as line
      where day > ($2::timestamptz at time zone 'UTC')::date - $3::integer
        and day <= ($2::timestamptz at time zone 'UTC')::date
      group by value
      having $4::bigint is null or sum(cost) < $4::bigint or (sum(cost) = $4::bigint and value > $5::text)
      order by cost_tokens desc, value limit $6`,
    values: [
      ...[user_id, now, days, after?.cost_tokens ?? null, after?.value ?? null, limit],
      ...(is_label ? [group_by] : []),
    ],
  });
}

/** The rollup's lines of the window, oldest first, in pages of `limit`. */
export async function* readUsageLines(
  sql: Reader,
  user_id: string,
  { days, now, limit }: { days: number; now: Instant; limit: number },
): AsyncGenerator<UsageLine[]> {
  let after: (string | null)[] = [null, null, null, null];
  for (;;) {
    const part = await sql.query<UsageLine>({
      text: `select day as date, model, nullif(agent_id, $8) as agent_id, nullif(api_key_id, $8) as api_key_id,
          requests, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, cost as cost_tokens
        from usage_daily
        where user_id = $1 and day > ($2::timestamptz at time zone 'UTC')::date - $3::integer
          and day <= ($2::timestamptz at time zone 'UTC')::date
          and ($4::date is null or (day, model, agent_id, api_key_id) > ($4, $5, $6::uuid, $7::uuid))
        order by day, model, agent_id, api_key_id limit $9`,
      values: [user_id, now, days, ...after, NONE, limit],
    });
    if (part.length > 0) yield part;
    const last = part.at(-1);
    if (last === undefined || part.length < limit) return;
    after = [last.date, last.model, last.agent_id ?? NONE, last.api_key_id ?? NONE];
  }
}

/** Every day of the window, oldest first. A day without usage has zeros. */
function eachDay(sums: Omit<Sum, "by">[], days: number, now: Instant): UsageSummary["daily_usage"] {
  const by_date = new Map(sums.map((sum) => [sum.name, sum]));
  const today = Temporal.PlainDate.from(now.slice(0, 10));
  return Array.from({ length: days }, (_, index) => {
    const date = today.subtract({ days: days - 1 - index }).toString();
    const { tokens = 0, cost_tokens = 0, requests = 0 } = by_date.get(date) ?? {};
    return { date, tokens, cost_tokens, requests };
  });
}

/**
 * The ids of those agents that an entry or a day's usage names. Days stay when their entries are archived. No index has the
 * days of an agent, so the days of each user are read once for all of their agents.
 */
export async function findChargedAgents(
  sql: Sql,
  agents: readonly { user_id: string; agent_id: string }[],
): Promise<Set<string>> {
  const rows = await sql.query<{ agent_id: string }>({
    text: `with given as materialized (
        select user_id, agent_id from jsonb_to_recordset($1::jsonb) as agent(user_id uuid, agent_id uuid)
      )
      select agent_id from given
      where exists (select from entry where entry.user_id = given.user_id and entry.agent_id = given.agent_id)
        or (user_id, agent_id) in (
          select user_id, agent_id from usage_daily
          where user_id in (select user_id from given) and agent_id in (select agent_id from given)
        )`,
    values: [JSON.stringify(agents)],
  });
  return new Set(rows.map(({ agent_id }) => agent_id));
}
