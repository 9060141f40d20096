-- A user's failed and cancelled runs are counted, because such a run may have cost nothing.
create index concurrently if not exists run_unsuccessful on run (user_id, id)
  where finished_at is not null and status <> 'succeeded' and trigger <> 'schedule';
