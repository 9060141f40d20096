-- Notifies every node of a delivery when the transaction that queued it commits.
create or replace function tell_delivery_due() returns trigger language plpgsql as $$
begin
  perform pg_notify('delivery_due', '');
  return null;
end $$;

create or replace trigger delivery_queued after insert on delivery for each statement execute function tell_delivery_due();
