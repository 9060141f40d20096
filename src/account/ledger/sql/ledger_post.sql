-- Appends an entry that no call caused, and moves the balance by it. The caller has locked the account.
create or replace function ledger_post(
  of_user uuid, of_type text, of_amount bigint, of_bucket uuid, posted_change bigint, debt_change bigint,
  of_description text, instant timestamptz
) returns void language plpgsql as $$
declare
  a account;
  of_source text;
begin
  select source into of_source from bucket where user_id = of_user and id = of_bucket;
  update account set seq = seq + 1, posted = posted + posted_change, debt = debt + debt_change
    where user_id = of_user returning * into strict a;
  a.last_hash := entry_hash(a.last_hash, of_user, a.seq, of_type, of_amount, a.posted - a.debt, of_bucket, of_source,
    null, null, null, null, null, null, of_description, instant);
  insert into entry (user_id, seq, type, amount, balance_after, bucket_id, source, description, created_at, hash)
    values (of_user, a.seq, of_type, of_amount, a.posted - a.debt, of_bucket, of_source, of_description, instant, a.last_hash);
  update account set last_hash = a.last_hash where user_id = of_user;
end $$;
