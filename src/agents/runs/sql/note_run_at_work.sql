-- Records that a run begins to be at work or no longer is, for count_runs_at_work.
create or replace function note_run_at_work() returns trigger language plpgsql as $$
begin
  if tg_op <> 'DELETE' and new.phase = 'working' then
    insert into runs_at_work_change (user_id, change) values (new.user_id, 1);
  else
    insert into runs_at_work_change (user_id, change) values (old.user_id, -1);
  end if;
  return null;
end $$;

create or replace trigger run_begun after insert on run for each row
  when (new.phase = 'working') execute function note_run_at_work();
create or replace trigger run_at_work_changed after update of status on run for each row
  when ((old.phase = 'working') <> (new.phase = 'working'))
  execute function note_run_at_work();
create or replace trigger run_deleted_at_work after delete on run for each row
  when (old.phase = 'working') execute function note_run_at_work();
