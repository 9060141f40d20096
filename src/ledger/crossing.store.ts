import type { Sql, Tx } from "../platform/db.ts";
import type { Crossing } from "./ledger.types.ts";

/** The key of a crossing. */
export type CrossingKey = Pick<Crossing, "user_id" | "seq" | "kind" | "percent">;

/** The keys of crossings that are not yet notified, in order, after the key `after`. */
export function listCrossings(sql: Sql, after: CrossingKey | null, limit: number): Promise<CrossingKey[]> {
  return sql.query({
    text: `select user_id, seq, kind, percent from crossing
      where $1::uuid is null or (user_id, seq, kind, percent) > ($1, $2::bigint, $3::text, $4::integer)
      order by user_id, seq, kind, percent limit $5`,
    values: [after?.user_id ?? null, after?.seq ?? null, after?.kind ?? null, after?.percent ?? null, limit],
  });
}

/** Deletes a crossing and returns it. undefined: another node has taken it, or is notifying it now. */
export async function takeCrossing(
  tx: Tx,
  { user_id, seq, kind, percent }: CrossingKey,
): Promise<Crossing | undefined> {
  const [taken] = await tx.query<{ crossing: Crossing }>({
    text: `delete from crossing using (
        select user_id, seq, kind, percent from crossing
          where (user_id, seq, kind, percent) = ($1, $2, $3, $4) for update skip locked
      ) as mine
      where (crossing.user_id, crossing.seq, crossing.kind, crossing.percent)
        = (mine.user_id, mine.seq, mine.kind, mine.percent)
      returning crossing.detail || jsonb_build_object('user_id', crossing.user_id, 'seq', crossing.seq,
        'hold_id', crossing.hold_id, 'kind', crossing.kind, 'percent', crossing.percent) as crossing`,
    values: [user_id, seq, kind, percent],
  });
  return taken?.crossing;
}
