-- Locks the accounts of a batch with hooks, and returns the hooks of all operations that were not done before, as
-- [{"place", "kind", "argument"}]. `hooks` has a hook or null for each operation.
--
-- The composing statement carries the hooks out, and passes their answers to ledger_apply_batch. So the ledger calls
-- no function of another module.
create or replace function ledger_lock_hooks(operations json, user_ids uuid[], hooks jsonb, instant timestamptz)
returns jsonb language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  perform ledger_lock(user_ids, instant);
  return (
    select jsonb_agg(o.hook || jsonb_build_object('place', o.ordinality) order by o.ordinality)
      from rows from (
        json_to_recordset(operations) as (kind text, user_id uuid, hold_id uuid, cost_tokens bigint),
        jsonb_array_elements(hooks)
      ) with ordinality as o(kind, user_id, hold_id, cost_tokens, hook, ordinality)
      left join hold h on h.user_id = o.user_id and h.id = o.hold_id
      left join usage_event e on e.user_id = o.user_id and e.hold_id = o.hold_id
      where o.hook <> 'null' and case o.kind
        when 'hold' then h.id is null and e.hold_id is null
        else e.hold_id is null or (e.from_progress and o.cost_tokens > e.cost)
      end
  );
end $$;
