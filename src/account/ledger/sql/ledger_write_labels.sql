-- Adds the usage events of a batch that have labels to the day of each label.
create or replace function ledger_write_labels(events usage_event[], instant timestamptz) returns void language plpgsql as $$
begin
  insert into usage_label_daily as known (user_id, name, value, day, requests, input_tokens, output_tokens, cost)
    select user_id, label.key, label.value, (instant at time zone 'UTC')::date, count(*), sum(input_tokens),
        sum(output_tokens), sum(cost)
      from unnest(events) as event cross join jsonb_each_text(event.labels) as label group by 1, 2, 3, 4
    on conflict (user_id, name, value, day) do update set
      requests = known.requests + excluded.requests,
      input_tokens = known.input_tokens + excluded.input_tokens,
      output_tokens = known.output_tokens + excluded.output_tokens,
      cost = known.cost + excluded.cost;
end $$;
