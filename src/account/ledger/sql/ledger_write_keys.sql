-- Adds the spent and held tokens of a batch to its API keys. Each key has the same index in all arrays.
create or replace function ledger_write_keys(user_ids uuid[], ids uuid[], spent bigint[], held bigint[]) returns void
language plpgsql as $$
begin
  -- The known figures come from a join and not from the conflict clause. PostgreSQL checks a row before the conflict,
  -- and an ended hold adds a negative figure that would fail the check.
  insert into key_spend (user_id, api_key_id, spent, held)
    select change.user_id, change.id, coalesce(known.spent, 0) + change.spent, coalesce(known.held, 0) + change.held
      from unnest(user_ids, ids, $3, $4) as change(user_id, id, spent, held)
      left join key_spend known on known.user_id = change.user_id and known.api_key_id = change.id
    on conflict (user_id, api_key_id) do update set spent = excluded.spent, held = excluded.held;
end $$;
