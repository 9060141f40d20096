-- The log of acts is append-only: no act is changed or deleted.
create or replace function keep_acts() returns trigger language plpgsql as $$
begin
  raise 'acts of operators cannot be changed or deleted';
end $$;

create or replace trigger acts_kept before update or delete or truncate on operator_act
  for each statement execute function keep_acts();
