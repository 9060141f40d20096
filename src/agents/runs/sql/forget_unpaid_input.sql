-- A run that failed or was cancelled, and cost nothing, loses the conversation of its request when it ends: up to 32 MB
-- without a payment; also its draft, and a long input or run_prompt. 10,000 such runs are kept. The engine's input of a due
-- run stays, because it is small and decides what becomes of the schedule.
create or replace function forget_unpaid_input() returns trigger language plpgsql as $$
begin
  new.engine_input := new.engine_input - array['tools', 'tool_choice', 'allowed_models', 'labels', 'last', 'prompts', 'response_format', 'draft']
    - case when new.engine_input->'messages' = 'null' then '' else 'messages' end;
  if pg_column_size(new.run_prompt) > 8192 then
    new.run_prompt := null;
  end if;
  if pg_column_size(new.input) > 8192 then
    new.input := null;
  end if;
  return new;
end $$;

create or replace trigger run_ended_unpaid before update of status on run for each row
when (new.status <> 'succeeded' and new.finished_at is not null and old.finished_at is null and new.cost_tokens = 0
  and new.trigger <> 'schedule')
execute function forget_unpaid_input();
