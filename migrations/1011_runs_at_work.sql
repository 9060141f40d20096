-- How many runs of each user are at work, so that a claim does not count them. The nil UUID has the sum of all users.
create table runs_at_work (
  user_id uuid primary key,
  runs integer not null
) with (fillfactor = 50);

-- Changes of these numbers that no claim has added yet. The transaction that begins or ends a run inserts its change, so
-- runs that end at the same time do not wait for each other.
create table runs_at_work_change (
  user_id uuid not null,
  change integer not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- No run begins or ends between this count and the triggers on run, which this transaction creates next.
lock table run in share row exclusive mode;
insert into runs_at_work (user_id, runs)
  select coalesce(user_id, '00000000-0000-0000-0000-000000000000'), count(*) from run
  where status in ('running', 'cancelling') group by grouping sets ((user_id), ());

-- It was read for the counts only.
drop index run_at_work;
