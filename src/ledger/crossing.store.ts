import type { Tx } from "../platform/db.ts";
import type { Crossing } from "./ledger.types.ts";

/** Takes up to `limit` crossings that nobody was told of; those that another node is telling of are left to it. */
export async function takeCrossings(tx: Tx, limit: number): Promise<Crossing[]> {
  const taken = await tx.query<{ crossing: Crossing }>({
    text: `delete from crossing using (
        select user_id, hold_id, kind, percent from crossing
          order by user_id, hold_id, kind, percent limit $1 for update skip locked
      ) as next
      where (crossing.user_id, crossing.hold_id, crossing.kind, crossing.percent)
        = (next.user_id, next.hold_id, next.kind, next.percent)
      returning crossing.detail || jsonb_build_object('user_id', crossing.user_id, 'hold_id', crossing.hold_id,
        'kind', crossing.kind, 'percent', crossing.percent) as crossing`,
    values: [limit],
  });
  return taken.map(({ crossing }) => crossing).toSorted(byChargeAndKind);
}

function byChargeAndKind(one: Crossing, other: Crossing): number {
  return one.hold_id.localeCompare(other.hold_id) || one.kind.localeCompare(other.kind) || one.percent - other.percent;
}
