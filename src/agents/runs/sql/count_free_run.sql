-- Notes a run that ends and has cost nothing, with the bytes that it stores: a user of a free model must not fill the disk.
-- It only inserts, so that runs of one user that end together do not wait for each other.
create or replace function count_free_run() returns trigger language plpgsql as $$
begin
  insert into free_run (user_id, run_id, ended_at, bytes)
    select new.user_id, new.id, new.finished_at,
        coalesce(pg_column_size(new.engine_input), 0) + coalesce(pg_column_size(new.input), 0)
          + coalesce(pg_column_size(new.metadata), 0) + coalesce(pg_column_size(new.run_prompt), 0) + coalesce(pg_column_size(new.output), 0)
          + coalesce(pg_column_size(new.output_json), 0) + coalesce(sum(
          coalesce(pg_column_size(arguments), 0) + coalesce(pg_column_size(result), 0) + coalesce(pg_column_size(error), 0)
          + coalesce(pg_column_size(safety), 0) + coalesce(pg_column_size(internal), 0)), 0)
      from run_step where user_id = new.user_id and run_id = new.id
    on conflict do nothing;
  return null;
end $$;

create or replace trigger run_ended_free after update of status on run for each row
when (new.finished_at is not null and old.finished_at is null and new.cost_tokens = 0)
execute function count_free_run();
