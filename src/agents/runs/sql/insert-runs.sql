-- Inserts runs, but run-nows, tests and runs of triggers only while their users have fewer than $3 of them in the queue. Returns the
-- ids of the inserted runs.
-- A run of an API key with a limit has the key and its limit in its row.
with given as materialized (
  select *, row_number() over (partition by user_id, priority order by id) as nth
  from jsonb_to_recordset($1::jsonb) as run(user_id uuid, id uuid, agent_id uuid, agent_version integer, trigger text,
    schedule_id uuid, trigger_id uuid, trigger_name text, scheduled_for timestamptz, model_id text, input jsonb, metadata jsonb, run_prompt text, engine_input jsonb, priority smallint, worker_id text,
    for_ms integer)
), queued as materialized (
  select user_id, count_queued_run_nows(user_id, $3) as run_nows from given where trigger in ('manual', 'test', 'webhook') and nth = 1
)
insert into run (user_id, id, agent_id, agent_version, trigger, schedule_id, trigger_id, trigger_name, scheduled_for, queued_at, model_id, input, metadata, run_prompt, engine_input,
  priority, worker_id, lease_until, limited_key, key_limit, api_key_id, end_user)
select user_id, id, agent_id, agent_version, trigger, schedule_id, trigger_id, trigger_name, scheduled_for, $2::timestamptz, model_id, nullif(input, 'null'), nullif(metadata, 'null'),
  run_prompt, engine_input, priority, worker_id,
  clock_timestamp() + make_interval(secs => for_ms / 1000.0),
  case when engine_input #>> '{key_limits,concurrent_runs}' is not null then (engine_input ->> 'api_key_id')::uuid end,
  (engine_input #>> '{key_limits,concurrent_runs}')::integer,
  (engine_input ->> 'api_key_id')::uuid, engine_input #>> '{labels,user}'
from given left join queued using (user_id)
where trigger not in ('manual', 'test', 'webhook') or queued.run_nows + nth <= $3
returning id
