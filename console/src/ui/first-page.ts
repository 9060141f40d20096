import { useInfiniteQuery } from "@tanstack/react-query";
import type { List } from "../api/queries.ts";

/** The first page of one of the API's lists. */
export function useFirstPage<Row>(query: List<Row>): { rows: Row[]; isPending: boolean } {
  const { data, isPending } = useInfiniteQuery(query);
  return { rows: data?.pages[0]?.rows ?? [], isPending };
}
