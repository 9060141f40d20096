-- Adds the changes that a batch makes to the spent and held tokens of its API keys.
create or replace function ledger_write_keys(changes key_spend[]) returns void language plpgsql as $$
begin
  -- The known figures come from a join and not from the conflict clause. PostgreSQL checks a row before the conflict,
  -- and an ended hold adds a negative figure that would fail the check.
  insert into key_spend (user_id, api_key_id, spent, held)
    select user_id, api_key_id, coalesce(known.spent, 0) + change.spent, coalesce(known.held, 0) + change.held
      from (
        select user_id, api_key_id, sum(spent)::bigint as spent, sum(held)::bigint as held
          from unnest(changes) group by user_id, api_key_id
      ) as change left join key_spend as known using (user_id, api_key_id)
    on conflict (user_id, api_key_id) do update set spent = excluded.spent, held = excluded.held;
end $$;
