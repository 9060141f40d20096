-- The first queued runs of a user that a claim may begin, at most `most`. A run of a limited API key waits while as many runs of
-- the key are at work, and the runs behind it pass. The first 100 queued runs are considered; all of them are read only if
-- the first few are too few.
create or replace function runs_past_limited_keys(of_user uuid, claimer text, reserved_only boolean, most integer)
returns table (id uuid, priority smallint) language plpgsql stable as $$
declare
  front integer := least(100, 2 * most);
  free uuid[];
  priorities smallint[];
  considered bigint;
begin
  if most < 1 then return; end if;
  loop
    select array_agg(numbered.id order by numbered.priority, numbered.id) filter (where is_free),
        array_agg(numbered.priority order by numbered.priority, numbered.id) filter (where is_free), count(*)
      into free, priorities, considered from (
        select *, limited_key is null or row_number() over (partition by limited_key order by first.priority, first.id) + (
            select count(*) from run as busy
              where busy.user_id = of_user and busy.limited_key = first.limited_key and busy.status in ('running', 'cancelling')
          ) <= key_limit as is_free
        from (
          select run.id, run.priority, run.limited_key, run.key_limit from run
            where run.user_id = of_user and run.status = 'queued'
              and (run.worker_id = claimer or (run.worker_id is null and not reserved_only))
            order by run.priority, run.id limit front
        ) as first
      ) as numbered;
    exit when front = 100 or considered < front or cardinality(free) >= most;
    front := 100;
  end loop;
  return query select * from unnest(free[:most], priorities[:most]);
end $$;
