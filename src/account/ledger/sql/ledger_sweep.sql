-- Closes the expired buckets of at most `most` accounts, in the order of their ids after `after`. Returns these
-- accounts; an account that fails does not change, and its row has the error.
create or replace function ledger_sweep(instant timestamptz, after uuid, most integer) returns table (account_id uuid, failure text)
language plpgsql as $$
begin
  for account_id in
    select distinct user_id from bucket
      where closed_reason is null and expires_at <= instant and remaining > held
        and (after is null or user_id > after)
      order by user_id limit most
  loop
    failure := null;
    begin
      perform ledger_expire(account_id, instant);
    exception when others then
      failure := sqlerrm;
    end;
    return next;
  end loop;
end $$;
