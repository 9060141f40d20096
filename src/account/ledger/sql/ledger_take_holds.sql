-- Takes holds. Returns one JSON outcome for each, in order, and the changed accounts and buckets, which ledger_apply_batch
-- writes. A hold that was taken before is answered as before. A hold whose hook is not done is not taken.
--
-- Decides on one hold after the other in memory, so a hold can take only tokens that the ones before it left.
create or replace function ledger_take_holds(
  operations json, instant timestamptz, hold_seconds integer, verdicts jsonb, account_ids uuid[], bucket_owners uuid[],
  inout accounts account[], inout buckets bucket[], out outcomes json
) language plpgsql as $$
declare
  op record;
  done json[];
  new_holds hold[];
  key_changes key_spend[];
  -- the account of the current hold, and its open buckets: first to last
  a account;
  place integer;
  first integer;
  last integer;
  i integer;
  -- a copy of one: an assignment to an element of an array copies the whole array if it reads the array too
  b bucket;
  overage_left bigint;
  -- each API key with a budget once: its charged and held tokens, with those of this batch
  key_ids uuid[];
  key_intervals text[];
  key_used bigint[];
  key integer;
  used bigint;
  -- the hold, and the slices that it pins
  amount bigint;
  minimum bigint;
  refusal text;
  key_left bigint;
  agent record;
  agent_left bigint;
  end_user_left bigint;
  unmet bigint;
  part bigint;
  overage bigint;
  slice_places integer[];
  slice_buckets uuid[];
  slice_tokens bigint[];
  posted_live bigint;
  held_live bigint;
begin
  for op in
    select o.*, verdicts -> o.hold_id::text as verdict,
        h.id is not null or e.hold_id is not null as is_done, coalesce(h.held, e.held, 0) as held_before
      from rows from (json_to_recordset(operations) as (
        user_id uuid, hold_id uuid, request_id text, api_key_id uuid, agent_id uuid, run_id uuid, key_budget_tokens bigint,
        key_budget_interval text, agent_budget jsonb, amount_tokens bigint, minimum_tokens bigint, estimate jsonb, labels jsonb
      )) with ordinality as o
      left join hold h on h.user_id = o.user_id and h.id = o.hold_id
      left join usage_event e on e.user_id = o.user_id and e.hold_id = o.hold_id
      order by o.user_id, o.ordinality
  loop
    if op.user_id is distinct from a.user_id then
      if place is not null then
        accounts[place] := a;
      end if;
      place := array_position(account_ids, op.user_id);
      if place is null then
        raise exception 'the user % has no account', op.user_id;
      end if;
      a := accounts[place];
      first := coalesce(array_position(bucket_owners, op.user_id), 1);
      last := first - 1;
      while bucket_owners[last + 1] = op.user_id loop
        last := last + 1;
      end loop;
    end if;
    if op.is_done then
      done[op.ordinality] := json_build_object('status', 'held', 'hold_id', op.hold_id, 'held_tokens', op.held_before);
      continue;
    end if;
    if not (op.verdict ->> 'done')::boolean then
      done[op.ordinality] := json_build_object('status', 'superseded', 'hook', op.verdict);
      continue;
    end if;

    -- Amount: what the request asks for, and at most the rest of the budgets of its key, its agent and its end user.
    amount := op.amount_tokens;
    minimum := greatest(op.minimum_tokens, least(1, amount));
    refusal := null;
    key_left := null;
    if op.key_budget_tokens is not null then
      key := array_position(key_ids, op.api_key_id);
      if key is null or key_intervals[key] is distinct from op.key_budget_interval then
        key := coalesce(key, cardinality(key_ids) + 1, 1);
        key_ids[key] := op.api_key_id;
        key_intervals[key] := op.key_budget_interval;
        key_used[key] := (select use.spent + use.held + coalesce(sum(taken.held), 0)
          from ledger_key_budget_use(a.user_id, op.api_key_id, op.key_budget_interval, instant) as use
          left join unnest(new_holds) as taken on taken.api_key_id = op.api_key_id group by use.spent, use.held);
      end if;
      key_left := greatest(0, op.key_budget_tokens - key_used[key]);
      amount := least(amount, key_left);
      if amount < minimum then
        refusal := 'key_budget_exceeded';
      end if;
    end if;
    if op.agent_budget is not null then
      agent := ledger_agent_use(a.user_id, op.agent_id, (op.agent_budget ->> 'from_day')::date, new_holds);
      agent_left := greatest(0, (op.agent_budget ->> 'cap_tokens')::bigint - agent.spent);
      amount := least(amount, agent_left - least(agent_left, agent.held));
      if amount < minimum then
        refusal := coalesce(refusal, case
          when agent_left >= minimum and agent.held > 0 then 'in_flight_exhausted' else 'agent_budget_exceeded' end);
      end if;
    end if;
    end_user_left := null;
    if op.labels ? 'user' then
      end_user_left := ledger_end_user_left(a.user_id, op.labels ->> 'user', instant, new_holds);
      amount := least(amount, end_user_left);
      if amount < minimum then
        refusal := coalesce(refusal, 'end_user_budget_exceeded');
      end if;
    end if;
    if a.trial_ends_at <= instant and a.paid_since is null then
      refusal := 'trial_ended';
    end if;

    -- Slices: free tokens of the oldest buckets, then overage.
    unmet := amount;
    slice_places := '{}';
    slice_buckets := '{}';
    slice_tokens := '{}';
    for i in first .. last loop
      exit when unmet = 0;
      b := buckets[i];
      part := least(unmet, b.remaining - b.held);
      if part > 0 then
        slice_places := slice_places || i;
        slice_buckets := slice_buckets || b.id;
        slice_tokens := slice_tokens || part;
        unmet := unmet - part;
      end if;
    end loop;
    overage_left := greatest(0, coalesce(a.overage_cap - a.overage - a.overage_held, 0));
    overage := least(unmet, overage_left);
    amount := amount - unmet + overage;

    -- Refusal, with the figures of the 402. The rest of the overage cap is available too.
    if refusal is not null or amount < minimum then
      select coalesce(sum(open_one.remaining), 0), coalesce(sum(open_one.held), 0) into posted_live, held_live
        from unnest(buckets[first:last]) as open_one where open_one.expires_at > instant;
      refusal := coalesce(refusal, ledger_refusal(posted_live, a.overage_cap, a.overage, minimum));
      done[op.ordinality] := json_build_object('status', 'refused', 'code', refusal,
        'available', least(posted_live - held_live + overage_left, key_left, end_user_left), 'held', held_live);
      continue;
    end if;

    for nth in 1 .. cardinality(slice_places) loop
      i := slice_places[nth];
      b := buckets[i];
      b.held := b.held + slice_tokens[nth];
      buckets[i] := b;
    end loop;
    a.held := a.held + amount - overage;
    a.overage_held := a.overage_held + overage;
    if op.key_budget_tokens is not null then
      used := key_used[key] + amount;
      key_used[key] := used;
    end if;
    new_holds := new_holds || row(a.user_id, op.hold_id, op.api_key_id, op.amount_tokens, amount, slice_buckets, slice_tokens,
      overage, clock_timestamp() + make_interval(secs => hold_seconds), op.request_id, op.agent_id, op.run_id, op.estimate,
      null, op.labels ->> 'user')::hold;
    if op.api_key_id is not null then
      key_changes := key_changes || row(a.user_id, op.api_key_id, 0, amount)::key_spend;
    end if;
    done[op.ordinality] := json_build_object('status', 'held', 'hold_id', op.hold_id, 'held_tokens', amount);
  end loop;
  accounts[place] := a;
  outcomes := array_to_json(done);
  if new_holds is not null then
    perform ledger_write_holds(new_holds);
  end if;
  if key_changes is not null then
    perform ledger_write_keys(key_changes);
  end if;
end $$;
