-- Audit: the days of a label whose line in usage_label_daily differs from the sum of their usage events, archived ones included.
select user_id, format('%s %s %s', day, name, value) as detail from (
    select user_id, name, value, day, sum(requests) as requests, sum(input_tokens) as input_tokens,
        sum(output_tokens) as output_tokens, sum(cost) as cost
      from (
        select user_id, name, value, day, requests, input_tokens, output_tokens, cost from usage_label_daily
        union all
        select user_id, label.key, label.value, (created_at at time zone 'UTC')::date, -1, -input_tokens, -output_tokens, -cost
          from usage_event cross join jsonb_each_text(labels) as label where labels is not null
        union all
        select user_id, name, value, day, -requests, -input_tokens, -output_tokens, -cost from archived_label_daily
      ) as both_sides group by 1, 2, 3, 4
  ) as differences where (requests, input_tokens, output_tokens, cost) is distinct from (0, 0, 0, 0)
