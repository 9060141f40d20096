import { csvLine, defused } from "../account/ledger/csv.ts";
import { usageWindow } from "../account/ledger/usage-window.ts";
import * as contract from "../api/contract/admin-overall.ts";
import { decodeCursor, NUMBER_KEY, pageOf } from "../api/contract/common.ts";
import { createRouter, csvFile, json, type Router } from "../api/contract/endpoint.ts";
import type { Db } from "../platform/db/db.ts";
import type { Clock } from "../platform/lib/clock.ts";
import { readEmails, readUsageOfAll, type UsageOfGroup } from "./usage.store.ts";

type Row = contract.UsageOfGroupRecord;
type Figures = contract.UsageFigures;

/** The field with the name of a group. */
const NAME_FIELDS = { model: "model_name", user: "user_id", plan: "plan_id", day: "date" } as const;
const FIGURES = [
  "requests",
  "tokens",
  "cost_tokens",
  "revenue_micro_usd",
  "upstream_cost_micro_usd",
  "margin_micro_usd",
  "requests_of_unknown_cost",
] as const;
/** Text in the CSV: JSON, or empty. */
const OTHER_REVENUE = "revenue_in_other_currencies";

/** Usage, revenue and margin over all users: contract 8.10. */
export function usageRoutes({ db, clock }: { db: Db; clock: Clock }): Router {
  const router = createRouter();
  router.on(contract.usageOfAll, async (request) => {
    const { group_by, format, limit, cursor, ...window } = request.query;
    const { from, to, days } = usageWindow(window, clock.now());
    const found = await readUsageOfAll(db, { from, to, group_by });
    const groups = group_by === "day" ? found.toSorted((a, b) => ((a.name ?? "") < (b.name ?? "") ? -1 : 1)) : found;
    const named = groups.map(({ name, ...figures }): Row => ({ [NAME_FIELDS[group_by]]: name, ...margin(figures) }));
    if (format === "csv") {
      const head = csvLine([NAME_FIELDS[group_by], ...FIGURES, OTHER_REVENUE]);
      const name = (row: Row) => row[NAME_FIELDS[group_by]] ?? null;
      const other = (row: Row) => (isEmpty(row[OTHER_REVENUE]) ? null : JSON.stringify(row[OTHER_REVENUE]));
      const lines = named.map((row) =>
        csvLine([defused(name(row) ?? ""), ...FIGURES.map((field) => row[field]), other(row)]),
      );
      return csvFile({ name: "usage", head }, lines, (line) => line);
    }
    const skipped = Number(decodeCursor(cursor, NUMBER_KEY) ?? 0);
    const numbered = named.slice(skipped, skipped + limit + 1).map((row, index) => ({ row, end: skipped + index + 1 }));
    const { page, next_cursor } = pageOf(numbered, limit, ({ end }) => end);
    const ids = group_by === "user" ? page.flatMap(({ row }) => row.user_id ?? []) : [];
    const emails = ids.length === 0 ? new Map() : await readEmails(db, ids);
    const usage = page.map(({ row }) =>
      row.user_id === undefined ? row : { ...row, email: emails.get(row.user_id) ?? null },
    );
    return json({ days, group_by, usage, total: computeTotal(groups), next_cursor });
  });
  return router;
}

const isEmpty = (sums: Record<string, number>) => Object.keys(sums).length === 0;

/** Upstream costs are in US dollars, so there is no margin with revenue in another currency. */
function margin(figures: Omit<Figures, "margin_micro_usd">): Figures {
  const { upstream_cost_micro_usd: upstream, revenue_micro_usd: revenue, revenue_in_other_currencies: other } = figures;
  return { ...figures, margin_micro_usd: upstream === null || !isEmpty(other) ? null : revenue - upstream };
}

/** The sum of groups. Its upstream cost is unknown where that of one group is. */
export function computeTotal(groups: readonly UsageOfGroup[]): Figures {
  const sum = (field: "requests" | "tokens" | "cost_tokens" | "revenue_micro_usd" | "requests_of_unknown_cost") =>
    groups.reduce((total, group) => total + group[field], 0);
  const is_known = groups.every(({ upstream_cost_micro_usd }) => upstream_cost_micro_usd !== null);
  const upstream = groups.reduce((total, group) => total + (group.upstream_cost_micro_usd ?? 0), 0);
  const other: Record<string, number> = {};
  for (const [currency, micro] of groups.flatMap((group) => Object.entries(group.revenue_in_other_currencies)))
    other[currency] = (other[currency] ?? 0) + micro;
  return margin({
    requests: sum("requests"),
    tokens: sum("tokens"),
    cost_tokens: sum("cost_tokens"),
    revenue_micro_usd: sum("revenue_micro_usd"),
    revenue_in_other_currencies: other,
    upstream_cost_micro_usd: is_known ? upstream : null,
    requests_of_unknown_cost: sum("requests_of_unknown_cost"),
  });
}
