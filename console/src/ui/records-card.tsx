import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Card, Empty, Skeleton } from "./basics.tsx";
import { ProblemNotice } from "./problem.tsx";

interface RecordsCardProps<One> {
  /** Also the list's label. */
  title: string;
  query: UseQueryResult<readonly One[]>;
  /** The button that adds one. */
  add: ReactNode;
  /** The icon and the text of an empty list. */
  icon: Parameters<typeof Empty>[0]["icon"];
  empty: string;
  /** One of them, as a list item with its key. */
  children: (one: One) => ReactNode;
}

/** The few records of one kind that an agent has, in a card: each with its own buttons. */
export function RecordsCard<One>({ title, query, add, icon, empty, children }: RecordsCardProps<One>) {
  const { data, error, refetch } = query;
  const has_some = data !== undefined && data.length > 0;
  return (
    <Card title={title} flush {...(has_some && { actions: add })}>
      {error !== null && (
        <div className="p-4">
          <ProblemNotice error={error} onRetry={() => void refetch()} />
        </div>
      )}
      {error === null && data === undefined && <Skeleton />}
      {data?.length === 0 && (
        <Empty icon={icon} title={`No ${title.toLowerCase()} yet`} action={add}>
          {empty}
        </Empty>
      )}
      {has_some && (
        <ul aria-label={title} className="divide-y divide-line border-t border-line">
          {data.map(children)}
        </ul>
      )}
    </Card>
  );
}
