-- Deletes the entries of some accounts that are planned for the month until $2, whose files are complete, and adds them
-- to the sums that stay. The first entry of a bucket grants it.
with gone as (
  delete from entry e using archived_account s
    where s.user_id = any($1::uuid[]) and s.before = $2 and e.user_id = s.user_id and e.seq <= s.planned_seq
    returning e.*
), grants as (
  select user_id, min(seq) as seq from gone
    where bucket_id is not null and not exists (
      select from archived_entry_daily d where d.user_id = gone.user_id and d.bucket_id = gone.bucket_id
    )
    group by user_id, bucket_id
), daily as (
  insert into archived_entry_daily as known (user_id, day, type, model, bucket_id, amount, granted)
    select g.user_id, (created_at at time zone 'UTC')::date, type, coalesce(model, ''),
        coalesce(bucket_id, '00000000-0000-0000-0000-000000000000'), sum(amount),
        coalesce(sum(amount) filter (where grants.seq is not null), 0)
      from gone g left join grants on grants.user_id = g.user_id and grants.seq = g.seq
      group by 1, 2, 3, 4, 5
    on conflict (user_id, day, type, model, bucket_id) do update
      set amount = known.amount + excluded.amount, granted = known.granted + excluded.granted
), reached as (
  update archived_account s set seq = s.planned_seq, hash = newest.hash, balance = newest.balance_after
    from gone as newest where newest.user_id = s.user_id and newest.seq = s.planned_seq
)
select count(*) as rows from gone
