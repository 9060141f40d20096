import type { AgentNamesOf } from "../../api/contract/agent-name.ts";
import { createRouter, csvFile, json, type Router } from "../../api/contract/endpoint.ts";
import { toUsd } from "../../api/contract/runs.ts";
import { getUsageBreakdown } from "../../api/contract/usage.ts";
import { errors } from "../../kernel/errors.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import { csvLine, defused } from "../ledger/csv.ts";
import type { Ledger } from "../ledger/ledger.types.ts";
import type { UsageDimension, UsageFigures, UsageSeries } from "../ledger/usage.types.ts";
import { usageWindow } from "../ledger/usage-window.ts";

/** Groups of a CSV. The others are summed, as in JSON. */
const CSV_GROUPS = 1_000;
const FIGURES = ["cost_usd", "cost_tokens", "tokens", "requests"] as const;

interface UsageBreakdownDeps {
  ledger: Ledger;
  clock: Clock;
  agentNames: AgentNamesOf;
  /** Names of a user's API keys by id, revoked ones included. */
  keyNames(user_id: string, ids: readonly string[]): Promise<ReadonlyMap<string, string>>;
}

/** What the usage of a window consists of: contract 5.3.3. */
export function usageBreakdownRoutes({ ledger, clock, agentNames, keyNames }: UsageBreakdownDeps): Router {
  const router = createRouter();
  router.on(getUsageBreakdown, async (request) => {
    const { user_id } = request.caller;
    const { days, from, to, group_by, then_by, model, agent_id, api_key_id, user, metadata, limit, format } =
      request.query;
    if (group_by === then_by) throw errors.invalidValue("then_by", "then_by must be another dimension than group_by.");
    const asked = usageWindow({ days, from, to }, clock.now());
    const window = { from: asked.from.slice(0, 10), to: asked.to.slice(0, 10) };
    const dimensions = (then_by === undefined ? [group_by] : [group_by, then_by]) as UsageDimension[];
    const pairs = Object.entries(metadata ?? {}).map(([name, value]) => [`metadata.${name}`, value] as const);
    const labels = user === undefined ? pairs : [["user", user] as const, ...pairs];
    const idOf = (id: string | undefined) => (id === "none" ? null : id);
    const [agent, key] = [idOf(agent_id), idOf(api_key_id)];
    const filter = { model, agent_id: agent, api_key_id: key, labels: Object.fromEntries(labels) };
    const found = await ledger.usageBreakdown(user_id, {
      ...window,
      dimensions,
      filter,
      limit: format === "csv" ? CSV_GROUPS : limit,
    });
    const ids = (dimension: UsageDimension) =>
      found.groups.flatMap(({ values }) => values[dimensions.indexOf(dimension)] ?? []);
    const [agents, keys] = await Promise.all([
      agentNames(user_id, [...new Set([...ids("agent"), ...(agent == null ? [] : [agent])])]),
      keyNames(user_id, [...new Set([...ids("api_key"), ...(key == null ? [] : [key])])]),
    ]);
    const keyOf = (dimension: UsageDimension, value: string | null) => {
      if (dimension === "agent" && value !== null) {
        const known = agents.get(value);
        return { value, name: known?.name ?? null, deleted: known?.deleted ?? true };
      }
      return { value, name: dimension === "api_key" ? (keys.get(value ?? "") ?? null) : null, deleted: false };
    };
    const narrowed = [["model", model] as const, ["agent", agent] as const, ["api_key", key] as const, ...labels];
    const filters = narrowed.flatMap(([dimension, value]) =>
      value === undefined ? [] : [{ dimension, ...keyOf(dimension as UsageDimension, value) }],
    );
    const groups = found.groups.map(({ values, ...series }) => ({
      keys: dimensions.map((dimension, place) => keyOf(dimension, values[place] ?? null)),
      ...withDollars(series),
    }));
    const other = found.other === null ? null : { groups: found.other.groups, ...withDollars(found.other) };
    if (format === "csv") {
      const names = dimensions.flatMap(columnsOf);
      const rest = other === null ? [] : [{ cells: [`${other.groups} others`], daily: other.daily }];
      const all = groups.map(({ keys: of_group, daily }) => ({
        cells: of_group.flatMap(({ value, name }, place) =>
          columnsOf(dimensions[place] ?? "model").length === 1 ? [value] : [value, name],
        ),
        daily,
      }));
      const lines = [...all, ...rest].flatMap(({ cells, daily }) =>
        daily.map((day) => [
          day.date,
          ...names.map((_, place) => defused(cells[place] ?? "")),
          ...FIGURES.map((figure) => day[figure]),
        ]),
      );
      const head = csvLine(["date", ...names, ...FIGURES]);
      return csvFile({ name: "usage", head }, lines, csvLine);
    }
    const archived_before = found.from > window.from ? await ledger.archivedBefore(user_id) : null;
    return json({
      from: found.from,
      to: window.to,
      group_by,
      then_by: then_by ?? null,
      filters,
      total: withDollars(found.total),
      groups,
      other,
      metadata_names: await ledger.metadataNames(user_id, window),
      ...(archived_before === null ? {} : { archived_before }),
    });
  });
  return router;
}

/** The columns of a dimension in a CSV. */
function columnsOf(dimension: UsageDimension): string[] {
  return dimension === "agent" || dimension === "api_key" ? [`${dimension}_id`, `${dimension}_name`] : [dimension];
}

const figuresOf = ({ cost_tokens, tokens, requests }: UsageFigures) => ({
  cost_usd: toUsd(cost_tokens),
  cost_tokens,
  tokens,
  requests,
});

const withDollars = ({ daily, ...sums }: UsageSeries) => ({
  ...figuresOf(sums),
  daily: daily.map(({ date, ...figures }) => ({ date, ...figuresOf(figures) })),
});
