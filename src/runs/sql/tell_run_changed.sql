-- Workers and waiters on every node hear of a change as soon as it is committed, whoever made it. Who inserts runs tells
-- of them himself, unless he has claimed them as well. Of the end of a run at home only those need to hear for whom it
-- may make a place.
create or replace function tell_run_changed() returns trigger language plpgsql as $$
begin
  case new.status
    when 'queued' then perform pg_notify('run_queued', '');
    when 'cancelling' then perform pg_notify('run_cancelling', new.id::text);
    else
      if not new.at_home or exists (select from run where status = 'queued') then
        perform pg_notify('run_finished', new.id::text);
      end if;
  end case;
  return null;
end $$;

create or replace trigger run_changed after update of status on run for each row
  when (new.status <> old.status and new.status <> 'running') execute function tell_run_changed();
