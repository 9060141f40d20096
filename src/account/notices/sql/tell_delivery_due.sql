-- Notifies every node of a delivery when its notice is committed.
create or replace function tell_delivery_due() returns trigger language plpgsql as $$
begin
  perform pg_notify('notice_due', '');
  return null;
end $$;

create or replace trigger delivery_queued after insert on notice_delivery for each statement execute function tell_delivery_due();
