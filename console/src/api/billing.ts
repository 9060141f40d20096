import { queryOptions } from "@tanstack/react-query";
import { type Answer, type Body, type CallOptions, call } from "./client.ts";
import { listFrom, MOST, pagesOf, type Transaction } from "./queries.ts";

/** Queries of the page Billing. */

export type Hold = Answer<"GET /api/v1/users/me/holds">["holds"][number];
export type TransactionGroup = Answer<"GET /api/v1/users/me/transaction-groups">["groups"][number];

/** Filters of the ledger. The page address holds them too. */
export type LedgerFilters = Pick<
  NonNullable<CallOptions<"GET /api/v1/users/me/transaction-groups">["query"]>,
  "type" | "agent_id" | "run_id" | "from" | "to"
>;

/** The ledger by run and call, in large pages. Not reloaded by itself, because a person may have scrolled through many pages. */
export const ledgerQuery = (filters: LedgerFilters) => ({
  ...listFrom(["transactions", "groups", filters], "GET /api/v1/users/me/transaction-groups", "groups", {
    query: filters,
    limit: MOST,
  }),
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

/** How often held tokens are reloaded while a call holds some. */
const HELD_MS = 3_000;
/** The calls that hold tokens now, the newest ones. */
export const holdsQuery = queryOptions({
  queryKey: ["profile", "holds"],
  queryFn: async ({ signal }) => {
    const { holds, next_cursor } = await call("GET /api/v1/users/me/holds", { query: { limit: MOST }, signal });
    return { holds, has_more: next_cursor !== null };
  },
  refetchInterval: ({ state: { data } }) => (data !== undefined && data.holds.length > 0 ? HELD_MS : false),
});

export type Payment = Answer<"GET /api/v1/billing/payments">["payments"][number];
export const paymentsQuery = listFrom(["payments"], "GET /api/v1/billing/payments", "payments");
export const paymentQuery = (id: string) =>
  queryOptions({
    queryKey: ["payments", id],
    queryFn: ({ signal }) => call("GET /api/v1/billing/payments/{id}", { params: { id }, signal }),
  });

/** The changes whose costs the service can say beforehand, with the bodies of their requests. */
export type Change = {
  [Path in "subscription" | "purchase" | "overage" | "auto-topup"]: {
    of: Path;
    body: Body<`POST /api/v1/billing/${Path}/preview`>;
  };
}["subscription" | "purchase" | "overage" | "auto-topup"];
export type Preview = Answer<"POST /api/v1/billing/purchase/preview">;

/** What a change costs, now and later. */
export const previewQuery = (change: Change) =>
  queryOptions({
    queryKey: ["preview", change],
    queryFn: ({ signal }): Promise<Preview> => {
      switch (change.of) {
        case "subscription":
          return call("POST /api/v1/billing/subscription/preview", { body: change.body, signal });
        case "purchase":
          return call("POST /api/v1/billing/purchase/preview", { body: change.body, signal });
        case "overage":
          return call("POST /api/v1/billing/overage/preview", { body: change.body, signal });
        case "auto-topup":
          return call("POST /api/v1/billing/auto-topup/preview", { body: change.body, signal });
      }
    },
    // The price of a change of plan falls with each minute.
    staleTime: 0,
    gcTime: 0,
  });
