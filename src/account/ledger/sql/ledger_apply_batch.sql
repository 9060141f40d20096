-- Does a batch of the ledger: all ends of holds (settles, releases, expiries), then all holds, so that a hold may take what
-- an end has freed. The members of a batch are concurrent: any order of them is right. Returns one JSON outcome for each
-- end and each hold, in the order given. `verdicts` has the hooks' answers by the id of the hold, such as
-- {"01a2…": {"done": true}}; null: no operation has a hook.
--
-- Accounts and buckets are read once, changed in memory by both parts, and written once: each statement that writes them
-- reads their CHECK constraints anew, so a part that wrote its own cost 1.3 times the processor time in batches of 16.
--
-- The planner settings make each join look up rows by primary key, independent of the table sizes at planning time.
-- They also prevent a new plan for every batch.
create or replace function ledger_apply_batch(
  ends json, holds json, user_ids uuid[], instant timestamptz, hold_seconds integer, verdicts jsonb, out ended json, out held json
) language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  accounts account[] := ledger_lock(user_ids, instant);
  account_ids constant uuid[] := array(select user_id from unnest(accounts));
  -- the open buckets of each account, oldest first
  buckets bucket[];
  bucket_owners uuid[];
  bucket_ids uuid[];
  done record;
begin
  -- Account by account: with a list of accounts the planner read the open buckets of all users (768 us for 1,000).
  select array_agg(open_one), array_agg(open_one.user_id), array_agg(open_one.id) into buckets, bucket_owners, bucket_ids
    from unnest(account_ids) as of_batch(account_id) cross join lateral (
      select * from bucket where user_id = account_id and closed_reason is null order by granted_at, id
    ) as open_one;
  if ends is not null then
    done := ledger_end_holds(ends, instant, verdicts, account_ids, bucket_owners, bucket_ids, accounts, buckets);
    ended := done.outcomes;
    accounts := done.accounts;
    buckets := done.buckets;
  else
    -- A lost hold costs nothing, so a batch of holds alone does not wait for the disk.
    perform set_config('synchronous_commit', 'off', true);
  end if;
  if holds is not null then
    done := ledger_take_holds(holds, instant, hold_seconds, verdicts, account_ids, bucket_owners, accounts, buckets);
    held := done.outcomes;
    accounts := done.accounts;
    buckets := done.buckets;
  end if;
  perform ledger_write_accounts(accounts, buckets, instant);
end $$;
