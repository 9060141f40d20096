import { Link, useSearch } from "@tanstack/react-router";
import type { Answer } from "../api/client.ts";
import { bucketsQuery } from "../api/queries.ts";
import { ago, day, number, words } from "../format.ts";
import { Badge, Card, Empty } from "../ui/basics.tsx";
import { Meter } from "../ui/chart.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";

type Bucket = Answer<"GET /api/v1/users/me/buckets">["buckets"][number];

const SOURCES = { subscription: "Plan", top_up: "Top-up", bonus: "Bonus" } as const;

/** A bucket that expires within a week is marked. */
const SOON_MS = 7 * 86_400_000;

const COLUMNS: Column<Bucket>[] = [
  {
    title: "Source",
    cell: ({ source, note }) => (
      <>
        <span className="font-medium">{SOURCES[source]}</span>
        {note !== null && note !== SOURCES[source] && (
          <span className="block text-sm wrap-anywhere text-muted">{note}</span>
        )}
      </>
    ),
  },
  {
    title: "Left",
    cell: ({ remaining, original_amount, held }) => (
      <div className="min-w-20 md:min-w-36">
        <span className="md:whitespace-nowrap">
          {number(remaining)} <span className="text-muted">of {number(original_amount)}</span>
        </span>
        <Meter label="Left in this bucket" value={remaining} of={original_amount} />
        {held > 0 && <span className="text-sm text-muted">{number(held)} held for running calls</span>}
      </div>
    ),
  },
  { title: "Granted", wide: true, cell: ({ granted_at }) => day(granted_at) },
  {
    title: "Expires",
    cell: ({ expires_at, closed_reason }) =>
      closed_reason === null ? (
        <>
          <span className="md:whitespace-nowrap">{day(expires_at)}</span>
          <span className="block text-sm text-muted">
            {Date.parse(expires_at) - Date.now() < SOON_MS ? (
              <Badge tone="warn">{ago(expires_at)}</Badge>
            ) : (
              ago(expires_at)
            )}
          </span>
        </>
      ) : (
        <Badge>{words(closed_reason)}</Badge>
      ),
  },
];

/** The buckets in the order of their use. */
export function BucketsCard() {
  const { closed } = useSearch({ from: "/signed-in/billing" });
  const other = (
    <Link to="/billing" search={closed === true ? {} : { closed: true }} replace className="link text-sm">
      {closed === true ? "Show open buckets only" : "Show closed buckets too"}
    </Link>
  );
  return (
    <Card title="Buckets" note="Used from the top" actions={other} flush>
      <PagedTable
        label="Buckets"
        query={bucketsQuery(closed === true ? { include: "closed" } : {})}
        columns={COLUMNS}
        keyOf={(bucket) => bucket.id}
        empty={
          <Empty icon="billing" title="No tokens">
            Buy tokens or subscribe to a plan. Your tokens appear here with their expiry.
          </Empty>
        }
      />
    </Card>
  );
}
