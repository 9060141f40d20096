import type { Sql } from "../../platform/db/db.ts";
import { timeOfId } from "../../platform/lib/ids.ts";
import { listEntriesOfCharge } from "./entry.store.ts";
import type { ChargeRecord, HoldEstimate, OpenHold, SettledCharge, Slice } from "./ledger.types.ts";

interface Caller {
  hold_id: string;
  api_key_id: string | null;
  agent_id: string | null;
  run_id: string | null;
  estimate: HoldEstimate | null;
}

interface HoldRow extends Caller {
  requested: number;
  held: number;
  slices: Slice[];
}

interface EventRow extends Caller, Omit<SettledCharge, "entries"> {
  requested: number | null;
  held: number | null;
  slices: Slice[];
  entries_after: number;
  entries_to: number;
}

const SLICES = `(
  select coalesce(json_agg(json_build_object('bucket_id', bucket_id, 'tokens', tokens)), '[]')
    from unnest(slice_buckets, slice_tokens) as slice(bucket_id, tokens)
) as slices`;

/** The open holds of a user, newest first. */
export async function listHolds(
  sql: Sql,
  user_id: string,
  { limit, before_id }: { limit: number; before_id: string | null },
): Promise<OpenHold[]> {
  const rows = await sql.query<Omit<OpenHold, "since">>({
    text: `select id as hold_id, request_id, api_key_id, agent_id, run_id, end_user,
        held - overage as held_tokens, overage as overage_tokens
      from hold where user_id = $1 and ($2::uuid is null or id < $2) order by id desc limit $3`,
    values: [user_id, before_id, limit],
  });
  return rows.map((row) => ({ ...row, since: timeOfId(row.hold_id) }));
}

/** The charges with a request id, newest first: first the open ones, then the settled ones. */
export async function listCharges(
  sql: Sql,
  user_id: string,
  request_id: string,
  limit: number,
): Promise<ChargeRecord[]> {
  const values = [user_id, request_id, limit];
  const holds = await sql.query<HoldRow>({
    text: `select id as hold_id, api_key_id, agent_id, run_id, estimate, requested, held, ${SLICES}
      from hold where user_id = $1 and request_id = $2 order by id desc limit $3`,
    values,
  });
  const events = await sql.query<EventRow>({
    text: `select hold_id, api_key_id, agent_id, run_id, estimate, requested, held, ${SLICES},
        model, input_tokens, cached_input_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens,
        input_rate_micro, cached_input_rate_micro, cache_write_rate_micro, cache_write_1h_rate_micro, output_rate_micro,
        price_version,
        cost as cost_tokens, charged as charged_tokens, overage as overage_tokens, absorbed as absorbed_tokens,
        from_progress, entries_after, entries_to, created_at
      from usage_event where user_id = $1 and request_id = $2 order by entries_to desc, created_at desc limit $3`,
    values,
  });
  const open = holds.map(
    (row): ChargeRecord => ({ ...callerOf(row), status: "open", hold: toHold(row), charge: null }),
  );
  const settled = await Promise.all(
    events.map(async (row): Promise<ChargeRecord> => {
      const { requested, held, slices, entries_after, entries_to, ...charge } = row;
      const { hold_id, api_key_id, agent_id, run_id, estimate, ...counted } = charge;
      const entries = await listEntriesOfCharge(sql, { user_id, hold_id, entries_after, entries_to });
      const hold = requested === null || held === null ? null : toHold({ requested, held, slices });
      return { ...callerOf(row), status: "settled", hold, charge: { ...counted, entries } };
    }),
  );
  // A call that was settled between the two queries is in both results.
  const ended = new Set(events.map(({ hold_id }) => hold_id));
  return [...open.filter(({ hold_id }) => !ended.has(hold_id)), ...settled].slice(0, limit);
}

function callerOf({ hold_id, api_key_id, agent_id, run_id, estimate }: Caller): Caller {
  return { hold_id, api_key_id, agent_id, run_id, estimate };
}

function toHold({ requested, held, slices }: Pick<HoldRow, "requested" | "held" | "slices">): ChargeRecord["hold"] {
  const sliced = slices.reduce((sum, { tokens }) => sum + tokens, 0);
  return { requested_tokens: requested, held_tokens: held, overage_tokens: held - sliced, slices };
}
