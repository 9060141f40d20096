import { useInfiniteQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { List } from "../api/queries.ts";
import { instant } from "../format.ts";
import { Button, Card, Skeleton } from "./basics.tsx";
import { ProblemNotice } from "./problem.tsx";

export interface Column<Row> {
  /** The heading; an empty title is for actions. */
  title: string;
  cell: (row: Row) => ReactNode;
  /** Aligned right. */
  numeric?: boolean;
  /** Hidden on a phone. */
  wide?: boolean;
}

/** An instant in a column: two lines on a phone. */
export const When = ({ at }: { at: string }) => (
  <span className="block min-w-20 md:whitespace-nowrap">{instant(at)}</span>
);

interface TableProps<Row> {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string;
}

export function Table<Row>({ label, columns, rows, keyOf }: TableProps<Row>) {
  const look = ({ numeric, wide }: Column<Row>) =>
    `${numeric === true ? "text-right" : "text-left"} ${wide === true ? "max-md:hidden" : ""}`;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users must reach a scrolling area
    <section className="relative overflow-x-auto" tabIndex={0} aria-label={label}>
      <table className="w-full border-collapse wrap-normal">
        <thead>
          <tr className="border-b border-line text-xs text-muted">
            {columns.map((column) => (
              <th
                key={column.title}
                scope="col"
                className={`px-4 py-2 font-medium max-md:px-2.5 whitespace-nowrap ${look(column)}`}
              >
                {column.title === "" ? <span className="sr-only">Actions</span> : column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)} className="border-b border-line last:border-0 hover:bg-sunken/60">
              {columns.map((column) => (
                <td
                  key={column.title}
                  className={`px-4 align-top max-md:px-2.5 ${column.title === "" ? "py-1.25" : "py-2.5"} ${look(column)}`}
                >
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

interface PagedTableProps<Row> extends Omit<TableProps<Row>, "rows"> {
  query: List<Row>;
  empty: ReactNode;
}

/** A list of the API as a table, with a button for the next page. Rows stay visible when a reload fails. */
export function PagedTable<Row>({ query, empty, ...table }: PagedTableProps<Row>) {
  const result = useInfiniteQuery(query);
  if (result.isPending) return <Skeleton lines={4} />;
  const problem = result.isError && (
    <div className="p-4">
      <ProblemNotice
        error={result.error}
        onRetry={() => void (result.isFetchNextPageError ? result.fetchNextPage() : result.refetch())}
      />
    </div>
  );
  if (result.data === undefined) return problem;
  const rows = result.data.pages.flatMap((page) => page.rows);
  if (rows.length === 0) return problem === false ? empty : problem;
  return (
    <>
      {problem}
      <Table {...table} rows={rows} />
      {result.hasNextPage && (
        <div className="border-t border-line p-2 text-center">
          <Button kind="quiet" busy={result.isFetchingNextPage} onClick={() => void result.fetchNextPage()}>
            Show more
          </Button>
        </div>
      )}
    </>
  );
}

interface ListCardProps<Row> extends Omit<PagedTableProps<Row>, "label" | "empty"> {
  /** Also the table's label. */
  title: string;
  note?: string;
  /** The text of an empty list. */
  empty: string;
  /** Above the table. */
  children?: ReactNode;
}

/** A list of the API in a card of its own. */
export function ListCard<Row>({ title, note, empty, children, ...table }: ListCardProps<Row>) {
  return (
    <Card title={title} {...(note === undefined ? {} : { note })} flush>
      {children}
      <PagedTable label={title} empty={<p className="px-4 pb-5 text-muted">{empty}</p>} {...table} />
    </Card>
  );
}

/** The first page of a list; `rows` is undefined until it is there. */
export function useFirstPage<Row>(query: List<Row>) {
  const { data, error, refetch } = useInfiniteQuery(query);
  return { rows: data?.pages[0]?.rows, error, refetch };
}
