-- Does a batch of holds, settles, releases and expiries of holds. Each operation is done whole; the function returns
-- one JSON outcome per operation, in order. `user_ids` has the user of each operation, once. `verdicts` has the hooks'
-- answers by the place of the operation, such as {"1": {"done": true}}; null: no operation has a hook.
--
-- It locks the accounts, reads their rows, decides the operations one by one in memory, and writes each table once. The
-- order matters: an operation can take only tokens that earlier operations left. A batch with two operations on one
-- hold fails, since the second would not see the first: the caller sends it again in halves.
--
-- The decisions stay in one function, with parallel arrays, because a split version was slower. It had a function each
-- for the account, the hold, the settle, the payment and the entries, with composite types between them. With the same
-- rules and tests, it cost 1.75 times the processor time (181 instead of 103 us per hold and settle pair in batches of
-- 128; 3,582 instead of 2,988 us one by one). It did 0.67 to 0.94 of the pairs per second (1 to 256 callers). A call
-- that passes records costs 3 to 5 us, and a settle made seven. Separate functions do work that runs once per batch, or
-- rarely: ledger_lock, ledger_write_*, budgets, refusals, thresholds.
--
-- Sections, each with its name in the body: LOAD; then for each operation ACCOUNT, KEY, and either HOLD (amount, slices,
-- refusal) or END OF A HOLD (sources of the payment, entries, thresholds, outcome); then WRITE.
--
-- The planner settings make each join look up rows by primary key, independent of the table sizes at planning time.
-- They also prevent a new plan for every batch.
create or replace function ledger_apply_batch(
  operations json, user_ids uuid[], instant timestamptz, hold_seconds integer, verdicts jsonb
) returns json language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  op record;
  outcomes json[];
  -- the accounts of the batch, and the account of the current operation: a = accounts[a_place]
  account_ids uuid[];
  accounts account[];
  a account;
  a_place integer := 0;
  -- their open buckets, oldest first; a bucket has the same index in every array; the buckets of a are first to last
  bucket_owners uuid[];
  bucket_ids uuid[];
  bucket_sources text[];
  bucket_remaining bigint[];
  bucket_held bigint[];
  bucket_recalled bigint[];
  bucket_live boolean[];
  bucket_ends text[];
  first integer;
  last integer;
  i integer;
  -- a hold: its amount, its budgets, and the slices that it pins
  amount bigint;
  minimum bigint;
  refusal text;
  key_left bigint;
  agent record;
  agent_left bigint;
  end_user_left bigint;
  posted_live bigint;
  held_live bigint;
  slice_places integer[];
  slice_buckets uuid[];
  slice_tokens bigint[];
  -- a settle: its cost now, the unpaid part of it, and its future entries
  payable bigint;
  unmet bigint;
  part bigint;
  take bigint;
  overage bigint;
  leg_types text[];
  leg_places integer[];
  leg_tokens bigint[];
  leg integer;
  signed bigint;
  description text;
  entries_after bigint;
  is_charge boolean;
  is_rest boolean;
  settled jsonb;
  charge usage_event;
  calling text;
  reached integer;
  spent_before bigint;
  -- the holds of the operations so far
  hold_ids uuid[];
  -- rows to write
  new_holds hold[];
  ended_users uuid[];
  ended_holds uuid[];
  entries entry[];
  events usage_event[];
  is_labelled boolean := false;
  crossings crossing[];
  -- each API key once: the tokens that this batch adds; if it has a budget, also its use before the batch
  key_users uuid[];
  key_ids uuid[];
  key_spent bigint[];
  key_held bigint[];
  key_known bigint[];
  key_known_spent bigint[];
  key_interval text[];
  key integer;
  key_use record;
  changed bigint;
begin
  -- LOAD: lock the accounts in the order of their ids, and read their open buckets, oldest first. The buckets are read
  -- account by account: with a list of accounts the planner read the open buckets of all users (768 us for 1,000).
  accounts := ledger_lock(user_ids, instant);
  account_ids := array(select user_id from unnest(accounts));
  select array_agg(user_id), array_agg(id), array_agg(source), array_agg(remaining), array_agg(held),
      array_agg(recalled), array_agg(expires_at > instant), array_agg(case when expires_at > instant then 'spent' else 'expired' end)
    into bucket_owners, bucket_ids, bucket_sources, bucket_remaining, bucket_held, bucket_recalled, bucket_live, bucket_ends
    from unnest(account_ids) as of_batch(account_id) cross join lateral (
      select * from bucket where user_id = account_id and closed_reason is null order by granted_at, id
    ) as open_ones;

  for op in
    select o.*, verdicts -> o.ordinality::text as verdict,
        h.id is not null as is_held, h.api_key_id as held_for_key, h.requested, h.held, h.slice_buckets,
        h.slice_tokens, h.overage as overage_held, h.expires_at <= clock_timestamp() as is_dead,
        h.estimate as estimated,
        e.hold_id is not null as is_settled, e.cost, e.charged, e.overage, e.absorbed, e.held as settled_hold,
        e.from_progress, e.entries_to
      from rows from (json_to_recordset(operations) as (
        kind text, user_id uuid, hold_id uuid, request_id text, api_key_id uuid, agent_id uuid, run_id uuid,
        key_budget_tokens bigint, agent_budget jsonb, amount_tokens bigint, minimum_tokens bigint,
        model text, cost_tokens bigint, input_tokens bigint, cached_input_tokens bigint, output_tokens bigint,
        input_rate_micro bigint, cached_input_rate_micro bigint, output_rate_micro bigint, price_version text,
        estimate jsonb, cache_write_tokens bigint, cache_write_1h_tokens bigint, cache_write_rate_micro bigint,
        cache_write_1h_rate_micro bigint, upstream_cost_micro_usd bigint, key_budget_interval text,
        labels jsonb, api text, duration_ms integer, first_token_ms integer
      )) with ordinality as o
      left join hold h on h.user_id = o.user_id and h.id = o.hold_id
      left join usage_event e on e.user_id = o.user_id and e.hold_id = o.hold_id
      order by o.ordinality
  loop
    hold_ids := hold_ids || op.hold_id;
    -- ACCOUNT: the account of this operation is in a, its buckets are first to last.
    if op.user_id is distinct from a.user_id then
      if a_place > 0 then
        accounts[a_place] := a;
      end if;
      a_place := array_position(account_ids, op.user_id);
      if a_place is null then
        raise exception 'the user % has no account', op.user_id;
      end if;
      a := accounts[a_place];
      first := coalesce(array_position(bucket_owners, op.user_id), 1);
      last := first - 1 + coalesce(cardinality(array_positions(bucket_owners, op.user_id)), 0);
    end if;

    -- KEY: the place of its API key, with the key's use if it has a budget.
    if op.api_key_id is not null then
      key := array_position(key_ids, op.api_key_id);
      if key is null then
        key_users := key_users || op.user_id;
        key_ids := key_ids || op.api_key_id;
        key_spent := key_spent || 0::bigint;
        key_held := key_held || 0::bigint;
        key := cardinality(key_ids);
      end if;
      if op.key_budget_tokens is not null
          and (key_known[key] is null or key_interval[key] is distinct from op.key_budget_interval) then
        key_use := ledger_key_budget_use(op.user_id, op.api_key_id, op.key_budget_interval, instant);
        key_interval[key] := op.key_budget_interval;
        key_known[key] := key_use.spent + key_use.held;
        key_known_spent[key] := key_use.spent;
      end if;
    end if;

    -- HOLD. Answered as before if it was done before; not done if its hook is not.
    if op.kind = 'hold' then
      if op.is_held or op.is_settled then
        outcomes := outcomes || json_build_object('status', 'held', 'hold_id', op.hold_id,
          'held_tokens', coalesce(op.held, op.settled_hold, 0));
        continue;
      end if;
      if not (op.verdict ->> 'done')::boolean then
        outcomes := outcomes || json_build_object('status', 'superseded', 'hook', op.verdict);
        continue;
      end if;
      -- Amount: what the request asks for, and at most the rest of the budgets of its key and its agent.
      amount := op.amount_tokens;
      minimum := greatest(op.minimum_tokens, least(1, amount));
      refusal := null;
      key_left := null;
      if op.key_budget_tokens is not null then
        key_left := greatest(0, op.key_budget_tokens - key_known[key] - key_spent[key] - key_held[key]);
        amount := least(amount, key_left);
        if amount < minimum then
          refusal := 'key_budget_exceeded';
        end if;
      end if;
      if op.agent_budget is not null then
        agent := ledger_agent_use(op.user_id, op.agent_id, (op.agent_budget ->> 'from_day')::date, events, new_holds, ended_holds);
        agent_left := greatest(0, (op.agent_budget ->> 'cap_tokens')::bigint - agent.spent);
        amount := least(amount, agent_left - least(agent_left, agent.held));
        if amount < minimum then
          refusal := coalesce(refusal, case
            when agent_left >= minimum and agent.held > 0 then 'in_flight_exhausted' else 'agent_budget_exceeded' end);
        end if;
      end if;
      end_user_left := null;
      if op.labels ? 'user' then
        end_user_left := ledger_end_user_left(op.user_id, op.labels ->> 'user', instant, events, new_holds, ended_holds);
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
        part := least(unmet, bucket_remaining[i] - bucket_held[i]);
        if part > 0 then
          slice_places := slice_places || i;
          slice_buckets := slice_buckets || bucket_ids[i];
          slice_tokens := slice_tokens || part;
          unmet := unmet - part;
        end if;
      end loop;
      overage := least(unmet, greatest(0, coalesce(a.overage_cap - a.overage - a.overage_held, 0)));
      amount := amount - unmet + overage;

      -- Refusal, with the figures of the 402. The rest of the overage cap is available too.
      if refusal is not null or amount < minimum then
        select coalesce(sum(b.remaining), 0), coalesce(sum(b.held), 0) into posted_live, held_live
          from unnest(bucket_owners, bucket_live, bucket_remaining, bucket_held) as b(owner, live, remaining, held)
          where b.owner = op.user_id and b.live;
        refusal := coalesce(refusal, ledger_refusal(posted_live, a.overage_cap, a.overage, minimum));
        outcomes := outcomes || json_build_object('status', 'refused', 'code', refusal,
          'available', least(posted_live - held_live + greatest(0, coalesce(a.overage_cap - a.overage - a.overage_held, 0)),
            key_left, end_user_left),
          'held', held_live);
        continue;
      end if;

      for leg in 1 .. cardinality(slice_places) loop
        i := slice_places[leg];
        bucket_held[i] := bucket_held[i] + slice_tokens[leg];
      end loop;
      a.held := a.held + amount - overage;
      a.overage_held := a.overage_held + overage;
      new_holds := new_holds || row(op.user_id, op.hold_id, op.api_key_id, op.amount_tokens, amount, slice_buckets,
        slice_tokens, overage, clock_timestamp() + make_interval(secs => hold_seconds), op.request_id, op.agent_id,
        op.run_id, op.estimate, null, op.labels ->> 'user')::hold;
      if op.api_key_id is not null then
        changed := key_held[key] + amount;
        key_held[key] := changed;
      end if;
      outcomes := outcomes || json_build_object('status', 'held', 'hold_id', op.hold_id, 'held_tokens', amount);
      continue;
    end if;

    -- END OF A HOLD: a settle, a release or an expiry.
    -- A release pays nothing, and neither does a settle whose hook is not done. A hold with an expired lease is
    -- settled at the progress of its call, if any; a later settle pays the rest. If the progress was estimated above
    -- the real cost, nothing is refunded.
    if op.kind = 'expire' and op.is_dead is not true then
      outcomes := outcomes || json_build_object('status', 'released');
      continue;
    end if;
    is_charge := op.kind = 'settle' or (op.kind = 'expire' and op.model is not null);
    is_rest := coalesce(op.kind = 'settle' and op.from_progress and op.cost_tokens > op.cost, false);
    calling := case
      when op.kind = 'expire' then 'Model call, settled as last known'
      when is_rest then 'Model call, the rest of it'
      else 'Model call'
    end;
    if is_charge and (op.is_settled and not is_rest
        or not op.is_held and ledger_is_archived(op.user_id, op.hold_id, op.entries_to)) then
      outcomes := outcomes || json_build_object('status', 'settled', 'replayed', true,
        'cost_tokens', coalesce(op.cost, op.cost_tokens), 'charged_tokens', coalesce(op.charged, 0),
        'overage_tokens', coalesce(op.overage, 0), 'absorbed_tokens', coalesce(op.absorbed, op.cost_tokens));
      continue;
    end if;
    is_charge := is_charge and coalesce((op.verdict ->> 'done')::boolean, true);
    payable := case when not is_charge then 0 when is_rest then op.cost_tokens - op.cost else op.cost_tokens end;
    unmet := payable;
    overage := 0;
    entries_after := a.seq;
    leg_types := '{}';
    leg_places := '{}';
    leg_tokens := '{}';

    -- Sources of the payment, in this order.
    -- 1. held slices; the unspent part of a slice goes to a claw-back that waits for it, or expires with its bucket
    if op.is_held then
      for leg in 1 .. cardinality(op.slice_buckets) loop
        i := array_position(bucket_ids, op.slice_buckets[leg], first);
        part := op.slice_tokens[leg];
        take := least(unmet, part);
        bucket_held[i] := bucket_held[i] - part;
        if take > 0 then
          leg_types := leg_types || 'usage'::text;
          leg_places := leg_places || i;
          leg_tokens := leg_tokens || take;
          bucket_remaining[i] := bucket_remaining[i] - take;
          unmet := unmet - take;
        end if;
        part := part - take;
        if bucket_recalled[i] > 0 then
          take := least(part, bucket_recalled[i]);
          if take > 0 then
            leg_types := leg_types || 'clawback'::text;
            leg_places := leg_places || i;
            leg_tokens := leg_tokens || take;
            bucket_remaining[i] := bucket_remaining[i] - take;
            bucket_recalled[i] := bucket_recalled[i] - take;
            bucket_ends[i] := 'clawed_back';
            part := part - take;
          end if;
          take := bucket_recalled[i] - bucket_held[i];
          if take > 0 then
            leg_types := leg_types || 'clawback'::text;
            leg_places := leg_places || null::integer;
            leg_tokens := leg_tokens || take;
            bucket_recalled[i] := bucket_recalled[i] - take;
          end if;
        end if;
        if part > 0 and not bucket_live[i] then
          leg_types := leg_types || 'expiry'::text;
          leg_places := leg_places || i;
          leg_tokens := leg_tokens || part;
          bucket_remaining[i] := bucket_remaining[i] - part;
        end if;
      end loop;
      -- 2. held overage
      overage := least(unmet, op.overage_held);
      unmet := unmet - overage;
      a.held := a.held - op.held + op.overage_held;
      a.overage_held := a.overage_held - op.overage_held;
      ended_users := ended_users || op.user_id;
      ended_holds := ended_holds || op.hold_id;
      if op.held_for_key is not null then
        i := array_position(key_ids, op.held_for_key);
        if i is null then
          key_users := key_users || op.user_id;
          key_ids := key_ids || op.held_for_key;
          key_spent := key_spent || 0::bigint;
          key_held := key_held || -op.held;
        else
          changed := key_held[i] - op.held;
          key_held[i] := changed;
        end if;
      end if;
    end if;
    -- 3. free tokens, in one entry with the held tokens of the same bucket
    if unmet > 0 then
      for i in first .. last loop
        exit when unmet = 0;
        take := least(unmet, bucket_remaining[i] - bucket_held[i]);
        if take > 0 then
          leg := array_position(leg_places, i);
          if leg is null or leg_types[leg] <> 'usage' then
            leg_types := leg_types || 'usage'::text;
            leg_places := leg_places || i;
            leg_tokens := leg_tokens || take;
          else
            leg_tokens[leg] := leg_tokens[leg] + take;
          end if;
          bucket_remaining[i] := bucket_remaining[i] - take;
          unmet := unmet - take;
        end if;
      end loop;
      -- 4. overage, as far as the cap allows it
      take := least(unmet, greatest(0, coalesce(a.overage_cap - a.overage - overage - a.overage_held, 0)));
      overage := overage + take;
      unmet := unmet - take;
    end if;
    if overage > 0 then
      a.overage := a.overage + overage;
      leg_types := leg_types || 'overage'::text;
      leg_places := leg_places || null::integer;
      leg_tokens := leg_tokens || overage;
    end if;
    -- 5. the operator absorbs the rest, with an entry
    if unmet > 0 then
      leg_types := leg_types || 'absorbed'::text;
      leg_places := leg_places || null::integer;
      leg_tokens := leg_tokens || unmet;
    end if;

    -- Entries: one for each leg, each with the hash of the entry before it.
    for leg in 1 .. cardinality(leg_types) loop
      signed := -leg_tokens[leg];
      a.seq := a.seq + 1;
      if leg_places[leg] is not null then
        a.posted := a.posted + signed;
      elsif leg_types[leg] = 'clawback' then
        a.debt := a.debt - signed;
      end if;
      if leg_types[leg] in ('expiry', 'clawback') then
        description := case leg_types[leg] when 'expiry' then 'Expired' else 'Clawed back' end;
        a.last_hash := entry_hash(a.last_hash, a.user_id, a.seq, leg_types[leg], signed, a.posted - a.debt,
          bucket_ids[leg_places[leg]], bucket_sources[leg_places[leg]], null, null, null, null, null, null, description,
          instant);
        entries := entries || row(a.user_id, a.seq, leg_types[leg], signed, a.posted - a.debt,
          bucket_ids[leg_places[leg]], bucket_sources[leg_places[leg]], null, null, null, null, null, null, description,
          instant, a.last_hash)::entry;
      else
        a.last_hash := entry_hash(a.last_hash, a.user_id, a.seq, leg_types[leg], signed, a.posted - a.debt,
          bucket_ids[leg_places[leg]], bucket_sources[leg_places[leg]], op.hold_id, op.model, op.agent_id, op.run_id,
          op.request_id, op.api_key_id, calling, instant);
        entries := entries || row(a.user_id, a.seq, leg_types[leg], signed, a.posted - a.debt,
          bucket_ids[leg_places[leg]], bucket_sources[leg_places[leg]], op.hold_id, op.model, op.agent_id, op.run_id,
          op.request_id, op.api_key_id, calling, instant, a.last_hash)::entry;
      end if;
    end loop;

    -- Crossed thresholds of the balance. The account remembers them, because not only charges move the balance.
    reached := ledger_used_percent(a.granted, a.posted);
    if reached > a.notified_percent then
      crossings := crossings || ledger_balance_crossings(op.user_id, a.seq, case when is_charge then op.hold_id end,
        a.notified_percent, reached, a.granted, a.posted);
      a.notified_percent := reached;
    end if;
    -- The usage event with its thresholds, and the outcome.
    if is_charge then
      charge := row(op.user_id, op.hold_id, op.request_id, op.api_key_id, op.agent_id, op.run_id, op.model,
        op.input_tokens, op.cached_input_tokens, op.output_tokens, op.input_rate_micro, op.cached_input_rate_micro,
        op.output_rate_micro, op.requested, op.held, op.slice_buckets, op.slice_tokens, payable,
        payable - overage - unmet, overage, unmet, entries_after, a.seq, instant, op.price_version, op.estimated,
        op.kind = 'expire', op.cache_write_tokens, op.cache_write_1h_tokens,
        op.cache_write_rate_micro, op.cache_write_1h_rate_micro, op.upstream_cost_micro_usd, op.labels,
        op.api, op.duration_ms, op.first_token_ms)::usage_event;
      if is_rest then
        perform ledger_amend(charge);
      else
        events := events || charge;
        is_labelled := is_labelled or op.labels is not null;
      end if;
      if overage > 0 and a.overage_cap > 0 then
        crossings := crossings || ledger_charge_crossings(op.user_id, a.seq, 'overage', op.hold_id, a.overage - overage, a.overage,
          a.overage_cap, jsonb_build_object('cap_tokens', a.overage_cap, 'used_tokens', a.overage));
      end if;
      if payable > 0 and op.key_budget_tokens > 0 then
        spent_before := key_known_spent[key] + key_spent[key];
        crossings := crossings || ledger_charge_crossings(op.user_id, a.seq, 'key_budget', op.hold_id, spent_before,
          spent_before + payable, op.key_budget_tokens, jsonb_build_object('api_key_id', op.api_key_id,
            'budget_tokens', op.key_budget_tokens, 'spent_tokens', spent_before + payable));
      end if;
      if op.api_key_id is not null then
        changed := key_spent[key] + payable;
        key_spent[key] := changed;
      end if;
      settled := jsonb_build_object('status', 'settled', 'replayed', false, 'cost_tokens', op.cost_tokens,
        'charged_tokens', charge.charged + case when is_rest then op.charged else 0 end,
        'overage_tokens', overage + case when is_rest then op.overage else 0 end,
        'absorbed_tokens', unmet + case when is_rest then op.absorbed else 0 end);
      if op.verdict is not null then
        settled := settled || jsonb_build_object('hook', op.verdict);
      end if;
      outcomes := outcomes || settled::json;
    else
      outcomes := outcomes || json_build_object('status', case op.kind when 'settle' then 'superseded' else 'released' end);
    end if;
  end loop;
  accounts[a_place] := a;
  if cardinality(hold_ids) > (select count(distinct id) from unnest(hold_ids) as id) then
    raise exception 'two operations on one hold in one batch';
  end if;

  if is_labelled then
    events := ledger_keep_labels(events, instant);
  end if;
  -- WRITE: each table once.
  perform ledger_write_accounts(accounts, bucket_owners, bucket_ids, bucket_remaining, bucket_held, bucket_recalled,
    bucket_ends);
  if new_holds is not null then
    perform ledger_write_holds(new_holds);
  end if;
  if ended_holds is not null then
    delete from hold using unnest(ended_users, ended_holds) as ended(user_id, id)
      where hold.user_id = ended.user_id and hold.id = ended.id;
  end if;
  if entries is not null or events is not null then
    perform ledger_write_charges(entries, events, instant);
  end if;
  if is_labelled then
    perform ledger_write_labels(events, instant);
  end if;
  if crossings is not null then
    insert into crossing (user_id, seq, kind, percent, hold_id, detail)
      select user_id, seq, kind, percent, hold_id, detail from unnest(crossings);
  end if;
  if key_ids is not null then
    perform ledger_write_keys(key_users, key_ids, key_spent, key_held);
  end if;
  -- A lost hold costs nothing, so a batch of holds alone does not wait for the disk.
  if entries is null and events is null and ended_holds is null then
    perform set_config('synchronous_commit', 'off', true);
  end if;
  return array_to_json(outcomes);
end $$;
