-- Locks the accounts of a batch in the order of their ids, as every writer does, and reads them. Expired buckets are
-- closed first: after that, an expired bucket has only held tokens.
--
-- The caller reads the buckets with a separate statement. A single statement lost updates, because it read the buckets
-- as they were before it waited for the lock: after 3,200 charges of 1 token, a bucket had decreased by only 128.
--
-- A batch that waits for a migration here has begun with the function of before, which fails on the new tables. Its node
-- repeats it after a serialization failure. src/platform/db/migrate.ts has the same number.
create or replace function ledger_lock(user_ids uuid[], instant timestamptz) returns account[] language plpgsql as $$
declare
  accounts account[];
begin
  if not pg_try_advisory_xact_lock_shared(7470627) then
    perform pg_advisory_xact_lock_shared(7470627);
    raise exception 'the tables were migrated meanwhile: repeat the batch' using errcode = 'serialization_failure';
  end if;
  loop
    accounts := array(select account from account where user_id = any (user_ids) order by user_id for update);
    exit when not exists (
      select from bucket where user_id = any (user_ids) and closed_reason is null and expires_at <= instant and remaining > held
    );
    perform ledger_expire(user_id, instant) from unnest(accounts);
  end loop;
  return accounts;
end $$;
