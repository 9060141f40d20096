import { queryOptions } from "@tanstack/react-query";
import { type Answer, type CallOptions, call } from "./client.ts";
import { listOf, MOST, pagesOf, type Transaction } from "./queries.ts";

/** Queries of the page Billing. */

export type TransactionGroup = Answer<"GET /api/v1/users/me/transaction-groups">["groups"][number];

/** Filters of the ledger. The page address holds them too. */
export type LedgerFilters = Pick<
  NonNullable<CallOptions<"GET /api/v1/users/me/transaction-groups">["query"]>,
  "type" | "agent_id" | "run_id" | "from" | "to"
>;

/** The ledger by run and call, in large pages. Not reloaded by itself, because a person may have scrolled through many pages. */
export const ledgerQuery = (filters: LedgerFilters) => ({
  ...listOf(
    ["transactions", "groups", filters],
    async (page, signal) => {
      const options = { query: { ...filters, ...page }, signal };
      const { groups, next_cursor } = await call("GET /api/v1/users/me/transaction-groups", options);
      return { rows: groups, next_cursor };
    },
    MOST,
  ),
  refetchOnWindowFocus: false,
});

export const groupId = ({ run_id, hold_id, newest }: TransactionGroup): string => run_id ?? hold_id ?? newest.id;

/** The lines of a group, newest first: those that its sum has. */
export const groupLinesQuery = (group: TransactionGroup, filters: LedgerFilters) =>
  queryOptions({
    queryKey: ["transactions", "lines of", groupId(group), group.newest.seq, filters],
    queryFn: async ({ signal }) => {
      const { run_id, hold_id, newest } = group;
      const of = run_id !== null ? { run_id } : { hold_id: hold_id ?? "" };
      const lines: Transaction[] = [];
      const pages = pagesOf(async (page) => {
        const options = { query: { ...filters, ...of, ...page }, signal };
        const { transactions, next_cursor } = await call("GET /api/v1/users/me/transactions", options);
        return { rows: transactions, next_cursor };
      });
      for await (const { rows } of pages) lines.push(...rows);
      return lines.filter(({ seq }) => seq <= newest.seq).sort((one, other) => other.seq - one.seq);
    },
    staleTime: Number.POSITIVE_INFINITY,
  });
