-- Notifies workers and waiters on all nodes when a change of a run commits. Code that inserts runs notifies them
-- itself, unless it also claims the runs. The end of a run on the node that queued it is notified only if queued runs
-- may take its place.
create or replace function tell_run_changed() returns trigger language plpgsql as $$
begin
  case new.status
    when 'queued' then perform pg_notify('run_queued', '');
    when 'cancelling' then perform pg_notify('run_cancelling', new.id::text);
    when 'succeeded', 'failed', 'cancelled' then
      if not new.at_home or has_queued_runs() then
        perform pg_notify('run_finished', new.id::text);
      end if;
    else null; -- no subscriber waits for it
  end case;
  return null;
end $$;

create or replace trigger run_changed after update of status on run for each row
  when (new.status <> old.status and new.status <> 'running') execute function tell_run_changed();
