-- Removes the labels of the first $2 labelled usage events after the hold $3 of an erased user ($1), and subtracts these
-- events from the sums of their labels, so that the audit finds both sides equal after each step.
with due as (
  select hold_id, labels, (created_at at time zone 'UTC')::date as day, input_tokens, output_tokens, cost
    from usage_event where user_id = $1 and hold_id > $3 and labels is not null order by hold_id limit $2
), cleared as (
  update usage_event u set labels = null from due where u.user_id = $1 and u.hold_id = due.hold_id
), sums as (
  select label.key as name, label.value, day, count(*) as requests, sum(input_tokens) as input_tokens,
      sum(output_tokens) as output_tokens, sum(cost) as cost
    from due cross join jsonb_each_text(labels) as label group by 1, 2, 3
), reduced as (
  update usage_label_daily d set requests = d.requests - sums.requests, input_tokens = d.input_tokens - sums.input_tokens,
      output_tokens = d.output_tokens - sums.output_tokens, cost = d.cost - sums.cost
    from sums where d.user_id = $1 and (d.name, d.value, d.day) = (sums.name, sums.value, sums.day) and d.requests > sums.requests
), removed as (
  delete from usage_label_daily d using sums
    where d.user_id = $1 and (d.name, d.value, d.day) = (sums.name, sums.value, sums.day) and d.requests = sums.requests
)
select hold_id from due order by hold_id desc limit 1
