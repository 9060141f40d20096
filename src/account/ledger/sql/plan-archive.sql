-- Plans the archive of the month that ends at $1: of each account the entries up to a number, so that its chain of hashes
-- stays whole, and the usage events of these entries. An entry waits for a later month if an entry before it is younger (the
-- clock of its node was behind), or if a part of its charge is (`crossing`). Events without entries count by their time.
--
-- It reads what is older than $1 once. A charge that is made in parts has few of them, so `crossing` is small.
with recursive numbered as (
  select e.user_id, e.seq, coalesce(s.seq, 0) + row_number() over (partition by e.user_id order by e.seq) as place
    from entry e left join archived_account s on s.user_id = e.user_id
    where e.created_at < $1
), whole as (
  select user_id, max(seq) as cut from numbered where seq = place group by 1
), parts as (
  select user_id, entries_after, entries_to from usage_event where created_at < $1 and entries_to > entries_after + 1
), crossing as (
  select user_id, cut from whole
  union
  select c.user_id, p.entries_after
    from crossing c join parts p on p.user_id = c.user_id and p.entries_after < c.cut and p.entries_to > c.cut
), cuts as (
  select user_id, min(cut) as cut from crossing group by 1
), events as (
  select u.user_id, count(*) as count
    from usage_event u left join cuts on cuts.user_id = u.user_id
      left join archived_account s on s.user_id = u.user_id
    where u.created_at < $1 and u.entries_to <= greatest(cuts.cut, s.seq, 0)
    group by 1
), planned as (
  insert into archived_account as known (user_id, planned_seq, planned_events, before)
    select user_id, coalesce(cuts.cut, 0), coalesce(events.count, 0), $1
      from cuts full join events using (user_id) left join archived_account s using (user_id)
      where cuts.cut > coalesce(s.seq, 0) or events.count > 0
    on conflict (user_id) do update
      set planned_seq = greatest(known.seq, excluded.planned_seq), planned_events = excluded.planned_events, before = $1
    returning user_id, planned_seq - seq as entries, planned_events
)
insert into archive_month (month, before, phase, entries, usage_events)
  select ($1::timestamptz at time zone 'UTC' - interval '1 month')::date, $1, 'planned', coalesce(sum(entries), 0),
      coalesce(sum(planned_events), 0)
    from planned having count(*) > 0
  returning month
