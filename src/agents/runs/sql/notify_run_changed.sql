-- Notifies workers and waiters on all nodes when a change of a run commits. Code that inserts runs notifies them
-- itself, unless it also claims the runs. A run that stops working frees a place: this is notified only if queued runs may
-- take it, or if a caller on another node may wait until the run ends or asks a person.
create or replace function notify_run_changed() returns trigger language plpgsql as $$
begin
  if new.phase = 'queued' then
    perform pg_notify('run_queued', '');
  elsif new.status = 'cancelling' then
    perform pg_notify('run_cancelling', new.id::text);
  elsif new.phase <> 'working' and (has_queued_runs() or (new.phase in ('ended', 'waiting') and not new.started_by_own_node)) then
    perform pg_notify('run_left', new.id::text);
  end if;
  return null;
end $$;

create or replace trigger run_changed after update of status on run for each row
  when (new.status <> old.status and new.status <> 'running') execute function notify_run_changed();
