-- Takes requests from the windows of limited subjects for one node, and records tokens that calls have used. A window
-- is the last minute, in quarters of a second, by the database's clock. The answer has one object per subject.
--
-- A node gets the requests that wait (needed), and ahead of time as many as it expects (wanted), at most an eighth of
-- the free ones. So little stays unused at one node when the window is almost full. It returns the rest.
create or replace function limit_take(asks jsonb) returns jsonb language plpgsql as $$
declare
  ask record;
  w limit_window;
  now_slot bigint;
  used bigint;
  free bigint;
  granted bigint;
  frees_at bigint;
  answers jsonb := '[]';
begin
  perform set_config('synchronous_commit', 'off', true);
  for ask in
    select * from jsonb_to_recordset(asks) as asked(
      place integer, subject text, most bigint, needed bigint, wanted bigint, spent bigint, returned bigint, slot bigint
    ) order by asked.subject
  loop
    insert into limit_window (subject, slots, amounts, used_at) values (ask.subject, '{}', '{}', clock_timestamp())
      on conflict (subject) do nothing;
    select * into strict w from limit_window where subject = ask.subject for update;
    now_slot := floor(extract(epoch from clock_timestamp()) * 4);
    select coalesce(array_agg(slot order by slot), '{}'), coalesce(array_agg(amount order by slot), '{}'), coalesce(sum(amount), 0)
      into w.slots, w.amounts, used
      from (
        select slot, amount - case when slot = ask.slot then least(amount, ask.returned) else 0 end as amount
          from unnest(w.slots, w.amounts) as kept(slot, amount) where slot > now_slot - 241
      ) as kept where amount > 0;
    free := greatest(0, ask.most - used);
    granted := least(free, greatest(ask.needed, least(ask.wanted, free / 8)));
    if granted + ask.spent > 0 then
      if w.slots[cardinality(w.slots)] = now_slot then
        w.amounts[cardinality(w.slots)] := w.amounts[cardinality(w.slots)] + granted + ask.spent;
      else
        w.slots := w.slots || now_slot;
        w.amounts := w.amounts || granted + ask.spent;
      end if;
      used := used + granted + ask.spent;
    end if;
    update limit_window set slots = w.slots, amounts = w.amounts, used_at = clock_timestamp() where subject = ask.subject;
    -- the first slot whose end leaves something free
    select min(slot) into frees_at from (
      select slot, sum(amount) over (order by slot) as gone from unnest(w.slots, w.amounts) as kept(slot, amount)
    ) as ending where used - gone < ask.most;
    answers := answers || jsonb_build_object('place', ask.place, 'granted', granted, 'used', used, 'slot', now_slot,
      'frees_in_ms', greatest(0, ceil((coalesce(frees_at, now_slot - 241) + 241) * 250 - extract(epoch from clock_timestamp()) * 1000)));
  end loop;
  return answers;
end $$;
