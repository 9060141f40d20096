-- The actions of a run, the open or the decided ones, oldest first, with instants as the contract has them.
create or replace function run_actions(of_user uuid, of_run uuid, are_open boolean) returns jsonb language sql stable as $$
  select coalesce(jsonb_agg(jsonb_build_object(
      'id', id, 'type', type, 'step', step, 'tool', tool, 'arguments', arguments, 'destination', destination, 'budget', budget, 'reason', reason,
      'untrusted_sources', untrusted_sources, 'spent_tokens', spent_tokens,
      'requested_at', to_char(requested_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'expires_at', to_char(expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'decision', decision, 'reason_given', reason_given, 'arguments_sent', arguments_sent,
      'decided_at', to_char(decided_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'decided_by', decided_by
    ) order by requested_at, id), '[]')
  from run_action where user_id = of_user and run_id = of_run and (decision is null) = are_open
$$;
