-- Every node drops a user's limits from its cache when the operator changes them or the user's plan changes.
create or replace function tell_limits_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('limits_changed', coalesce(to_jsonb(new) ->> 'user_id', to_jsonb(new) ->> 'id'));
  return null;
end $$;

create or replace trigger limits_of_user_changed after update of limits on users
  for each row execute function tell_limits_changed();
create or replace trigger limits_of_plan_changed after insert or update of plan, status on subscription
  for each row execute function tell_limits_changed();
