import type { UseInfiniteQueryResult } from "@tanstack/react-query";
import { type ReactNode, useCallback } from "react";
import { Skeleton } from "./basics.tsx";
import { ProblemNotice } from "./problem.tsx";
import { VirtualTable, type VirtualTableProps } from "./virtual-table.tsx";

interface VirtualListProps<Item> extends Omit<VirtualTableProps<Item>, "has_more" | "onEnd"> {
  loaded: Pick<
    UseInfiniteQueryResult,
    | "error"
    | "fetchNextPage"
    | "hasNextPage"
    | "isError"
    | "isFetching"
    | "isFetchNextPageError"
    | "isPending"
    | "isSuccess"
    | "refetch"
  >;
  /** What stands in place of a list without rows. */
  empty: ReactNode;
}

/** A virtual table that loads its next page before its last rows come into view, with the states of its loading. */
export function VirtualList<Item extends object>({ loaded, empty, ...table }: VirtualListProps<Item>) {
  const { error, fetchNextPage, hasNextPage, isFetching, isFetchNextPageError, refetch } = loaded;
  const onEnd = useCallback(() => {
    if (!isFetching) void fetchNextPage();
  }, [isFetching, fetchNextPage]);
  return (
    <>
      {loaded.isError && (
        <div className="p-4">
          <ProblemNotice error={error} onRetry={() => void (isFetchNextPageError ? fetchNextPage() : refetch())} />
        </div>
      )}
      {loaded.isPending && <Skeleton lines={6} />}
      {loaded.isSuccess && table.rows.length === 0 && empty}
      {table.rows.length > 0 && (
        <VirtualTable {...table} has_more={hasNextPage && !isFetchNextPageError} onEnd={onEnd} />
      )}
    </>
  );
}

/** What the link of a row has that opens the row beside its list. The whole row is the link. */
export const rowLink = (className = "") => ({
  replace: true,
  resetScroll: false,
  preload: false as const,
  // Otherwise the address of the list counts as the current page in each row.
  activeProps: { "aria-current": undefined },
  className: `block truncate font-medium after:absolute after:inset-0 ${className}`,
});
