-- Locks the accounts of a batch with hooks, and returns the hooks of all operations that were not done before, as
-- [{"place", "hold_id", "kind", "argument"}]. `hooked` has the operations with a hook; a settle has its `cost_tokens`.
--
-- The composing statement carries the hooks out, and passes their answers to ledger_apply_batch. So the ledger calls
-- no function of another module.
create or replace function ledger_lock_hooks(hooked jsonb, user_ids uuid[], instant timestamptz)
returns jsonb language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  perform ledger_lock(user_ids, instant);
  return (
    select jsonb_agg(o.hook || jsonb_build_object('place', o.ordinality, 'hold_id', o.hold_id) order by o.ordinality)
      from rows from (
        jsonb_to_recordset(hooked) as (user_id uuid, hold_id uuid, cost_tokens bigint, hook jsonb)
      ) with ordinality as o
      left join hold h on h.user_id = o.user_id and h.id = o.hold_id
      left join usage_event e on e.user_id = o.user_id and e.hold_id = o.hold_id
      where case when o.cost_tokens is null then h.id is null and e.hold_id is null
        else e.hold_id is null or (e.from_progress and o.cost_tokens > e.cost)
      end
  );
end $$;
