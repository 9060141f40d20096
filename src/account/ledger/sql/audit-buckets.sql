-- Audit: the buckets whose remaining tokens differ from their entries, or whose grant does; archived entries included.
select user_id, format('bucket %s original %s remaining %s, entries %s of grant %s', id, original, remaining, total, granted) as detail
from (
  select b.user_id, b.id, b.original, b.remaining, coalesce(e.total, 0) as total, case when b.by_adjustment then (
      select coalesce(nullif(e.archived_granted, 0), (
        select amount from entry where user_id = b.user_id and bucket_id = b.id and type = 'adjustment' order by seq limit 1
      ))
    ) else coalesce(e.granted, 0) + coalesce(e.archived_granted, 0) end as granted
    from bucket b full join (
      select user_id, bucket_id, sum(amount) as total, sum(amount) filter (where type = 'grant') as granted,
          sum(archived_granted) as archived_granted
        from (
          select user_id, bucket_id, type, amount, 0 as archived_granted from entry
          union all select user_id, nullif(bucket_id, '00000000-0000-0000-0000-000000000000'), 'archived', amount, granted from archived_entry_daily
        ) all_entries where bucket_id is not null group by 1, 2
    ) e on e.user_id = b.user_id and e.bucket_id = b.id
) both_sides where (remaining, original) is distinct from (total, granted)
