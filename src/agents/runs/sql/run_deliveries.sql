-- The deliveries of a run's result, in the order of its agent's addresses.
create or replace function run_deliveries(of_user uuid, of_run uuid) returns jsonb language sql stable as $$
  select coalesce(jsonb_agg(jsonb_build_object(
      'id', id, 'to', address, 'status', status, 'attempts', attempts, 'last_attempt_at', last_attempt_at,
      'last_status', last_status, 'last_error', last_error, 'next_attempt_at', next_attempt_at, 'delivered_at', delivered_at
    ) order by id), '[]')
  from delivery where user_id = of_user and run_id = of_run
$$;
