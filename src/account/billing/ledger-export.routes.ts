import * as operators from "../../api/contract/admin-users.ts";
import { type AgentNamesOf, agentIdsIn, agentNameOf, withAgentNames } from "../../api/contract/agent-name.ts";
import { decodeCursor, NUMBER_KEY, pageOf, UUID_KEY } from "../../api/contract/common.ts";
import { createRouter, csvFile, json, type Router, serveBoth } from "../../api/contract/endpoint.ts";
import * as contract from "../../api/contract/ledger-export.ts";
import { errors } from "../../kernel/errors.ts";
import { entriesHead, entryLines, usageHead, usageLines } from "../ledger/export-file.ts";
import type { Ledger } from "../ledger/ledger.types.ts";
import { billingErrors } from "./errors.ts";
import { explain } from "./explanation.ts";

/** The most charges explained for one request id. All calls of a run share its id. */
const MAX_CHARGES = 100;

/** The cursor of grouped usage: the cost and the value of the last group. */
const GROUP_KEY = /^\d{1,15}:[^\0]{1,300}$/su;

/** The cursor of groups of entries: the last entry when the first page was read, and the newest entry of the last group. */
const GROUPS_KEY = /^\d{1,15}:\d{1,15}$/;

function groupAfter(key: string | null): { cost_tokens: number; value: string } | null {
  if (key === null) return null;
  const at = key.indexOf(":");
  return { cost_tokens: Number(key.slice(0, at)), value: key.slice(at + 1) };
}

interface LedgerExportDeps {
  ledger: Ledger;
  agentNames: AgentNamesOf;
  /** Names of a user's API keys by id, revoked ones included. */
  keyNames(user_id: string, ids: readonly string[]): Promise<ReadonlyMap<string, string>>;
}

/** Usage, ledger entries and explanations, page by page or as a CSV file. */
export function ledgerExportRoutes({ ledger, agentNames, keyNames }: LedgerExportDeps): Router {
  const router = createRouter();
  /** Says on the last page where older rows are. Absent: none are archived. */
  const archivedNote = async (user_id: string): Promise<{ archived_before?: string }> => {
    const archived_before = await ledger.archivedBefore(user_id);
    return archived_before === null ? {} : { archived_before };
  };

  serveBoth(router, { own: contract.getUsage, operators: operators.usageOfUser }, async (request) => {
    const { user_id } = request.caller;
    const { days, format, group_by, limit, cursor } = request.query;
    const after = groupAfter(decodeCursor(cursor, GROUP_KEY));
    if (format === "csv")
      return csvFile({ name: "usage", head: usageHead }, ledger.usageLines(user_id, days), usageLines);
    const { agent_breakdown, api_key_breakdown, ...usage } = await ledger.usage(user_id, days);
    const [agents, keys] = await Promise.all([
      agentNames(user_id, agentIdsIn(agent_breakdown)),
      keyNames(
        user_id,
        api_key_breakdown.flatMap(({ api_key_id }) => api_key_id ?? []),
      ),
    ]);
    const named = {
      ...usage,
      agent_breakdown: withAgentNames(agent_breakdown, agents),
      api_key_breakdown: api_key_breakdown.map((share) => ({
        ...share,
        api_key_name: keys.get(share.api_key_id ?? "") ?? null,
      })),
    };
    if (group_by === undefined) return json(named);
    const found = await ledger.usageGroups(user_id, { group_by, days, limit: limit + 1, after });
    const { page, next_cursor } = pageOf(found, limit, ({ cost_tokens, value }) => `${cost_tokens}:${value}`);
    return json({ ...named, group_by, groups: page, next_cursor });
  });
  serveBoth(router, { own: contract.listTransactions, operators: operators.transactionsOfUser }, async (request) => {
    const { user_id } = request.caller;
    const { limit, cursor, format, ...filter } = request.query;
    if (format === "csv") {
      const parts = ledger.allEntries(user_id, filter);
      const { archived_before } = await archivedNote(user_id);
      const headers = archived_before === undefined ? {} : { [contract.ARCHIVED_HEADER]: archived_before };
      return csvFile({ name: "transactions", head: entriesHead, headers }, parts, (part) => entryLines(user_id, part));
    }
    const before = decodeCursor(cursor, NUMBER_KEY);
    const entries = await ledger.entries(user_id, filter, {
      limit: limit + 1,
      before_seq: before === null ? null : Number(before),
    });
    const { page, next_cursor } = pageOf(entries, limit, (entry) => entry.seq);
    const names = await agentNames(user_id, agentIdsIn(page));
    const older = next_cursor === null ? await archivedNote(user_id) : {};
    return json({ transactions: withAgentNames(page, names), next_cursor, ...older });
  });
  router.on(contract.listTransactionGroups, async (request) => {
    const { user_id } = request.caller;
    const { limit, cursor, ...filter } = request.query;
    const [as_of = await ledger.lastSeq(user_id), before_seq = null] =
      decodeCursor(cursor, GROUPS_KEY)?.split(":").map(Number) ?? [];
    const found = await ledger.entryGroups(user_id, filter, { as_of, before_seq, limit: limit + 1 });
    const { page, next_cursor } = pageOf(found, limit, ({ newest }) => `${as_of}:${newest.seq}`);
    const names = await agentNames(user_id, agentIdsIn(page.map(({ newest }) => newest)));
    const groups = page.map(({ newest, ...sums }) => ({
      run_id: newest.run_id,
      hold_id: newest.run_id === null ? newest.hold_id : null,
      ...sums,
      newest: { ...newest, ...agentNameOf(names, newest.agent_id) },
    }));
    return json({ groups, next_cursor, ...(next_cursor === null ? await archivedNote(user_id) : {}) });
  });
  router.on(contract.listHolds, async (request) => {
    const { user_id } = request.caller;
    const { limit, cursor } = request.query;
    const rows = await ledger.userHolds(user_id, { limit: limit + 1, before_id: decodeCursor(cursor, UUID_KEY) });
    const { page, next_cursor } = pageOf(rows, limit, ({ hold_id }) => hold_id);
    return json({ holds: withAgentNames(page, await agentNames(user_id, agentIdsIn(page))), next_cursor });
  });
  serveBoth(router, { own: contract.explainCharge, operators: operators.chargeOfUser }, async (request) => {
    const { request_id } = request.params;
    const { user_id } = request.caller;
    const charges = await ledger.charges(user_id, request_id, MAX_CHARGES);
    const explanation = explain(request_id, charges, await agentNames(user_id, agentIdsIn(charges)));
    // A call that was denied, or failed before any output, cost nothing and has no charge to explain.
    if (explanation === null) {
      const { archived_before } = await archivedNote(user_id);
      throw archived_before === undefined
        ? errors.notFound("A charge for this request")
        : billingErrors.archived("A charge for this request", archived_before);
    }
    return json(explanation);
  });
  return router;
}
