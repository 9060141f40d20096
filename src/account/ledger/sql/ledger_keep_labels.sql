-- Returns the usage events of a batch with the labels that are stored. Labels of erased users are not: their calls ended
-- after the erasure. One that commits after this waits for the accounts of the batch, before it removes labels.
--
-- Of calls that cost nothing, a user has 10,000 new values of labels and 64 MB of labels a day (FREE_DAY in
-- src/kernel/constants.ts). Beyond that, the event keeps the labels whose value this day has already, or none. Otherwise a user
-- of a free model could fill the disk: each call may have 17 labels with other values than all before.
create or replace function ledger_keep_labels(events usage_event[], instant timestamptz) returns usage_event[]
language plpgsql as $$
declare
  today constant date := (instant at time zone 'UTC')::date;
  erased constant uuid[] := array(
    select id from users where erased_at is not null and id in (select user_id from unnest(events))
  );
  used free_label_day;
  known jsonb;
  added bigint;
begin
  for i in 1 .. cardinality(events) loop
    continue when events[i].labels is null;
    if events[i].user_id = any (erased) then
      events[i].labels := null;
    end if;
    continue when events[i].labels is null or events[i].cost > 0;
    select * into used from free_label_day where user_id = events[i].user_id and day = today;
    select jsonb_object_agg(key, value) filter (where is_known), count(*) filter (where not is_known) into known, added
      from (
        select key, value, exists (
            select from usage_label_daily d
              where d.user_id = events[i].user_id and d.name = key and d.value = label.value and d.day = today
          ) as is_known
          from jsonb_each_text(events[i].labels) as label
      ) as labels;
    if coalesce(used.new_values, 0) + added > 10000 then
      events[i].labels := known;
      added := 0;
    end if;
    if coalesce(used.bytes, 0) + octet_length(events[i].labels::text) > 67108864 then
      events[i].labels := null;
    end if;
    continue when events[i].labels is null;
    insert into free_label_day as of_user (user_id, day, new_values, bytes)
      values (events[i].user_id, today, added, octet_length(events[i].labels::text))
      on conflict (user_id) do update set day = excluded.day,
        new_values = excluded.new_values + case when of_user.day = excluded.day then of_user.new_values else 0 end,
        bytes = excluded.bytes + case when of_user.day = excluded.day then of_user.bytes else 0 end;
  end loop;
  return events;
end $$;
