-- Ends holds: settles, releases and expiries. Returns one JSON outcome for each, in order, and the changed accounts and
-- buckets, which ledger_apply_batch writes. A settle also charges a call whose hold has ended, and a charge that was made
-- is answered as before.
--
-- Decides on one operation after the other in memory, and writes each table once. The steps of an operation: the sources of
-- the payment, in the order of ../README.md; one entry for each; thresholds; the usage event; the outcome.
create or replace function ledger_end_holds(
  operations json, instant timestamptz, verdicts jsonb, account_ids uuid[], bucket_owners uuid[], bucket_ids uuid[],
  inout accounts account[], inout buckets bucket[], out outcomes json
) language plpgsql as $$
declare
  op record;
  done json[];
  -- the account of the current operation, and its open buckets: first to last
  a account;
  place integer;
  first integer;
  last integer;
  i integer;
  -- a copy of one: an assignment to an element of an array copies the whole array if it reads the array too
  b bucket;
  -- a charge, or the rest of one; its cost now, the unpaid part of it, and the part that overage pays
  is_charge boolean;
  is_rest boolean;
  payable bigint;
  unmet bigint;
  overage bigint;
  part bigint;
  take bigint;
  -- its future entries; without a place, no bucket pays
  leg_types text[];
  leg_places integer[];
  leg_tokens bigint[];
  leg integer;
  is_payment boolean;
  description text;
  entries_after bigint;
  event usage_event;
  reached integer;
  outcome jsonb;
  -- each API key with a budget once, with the tokens that it has spent
  key_ids uuid[];
  key_spent bigint[];
  key integer;
  spent bigint;
  -- rows to write
  ended_users uuid[];
  ended_holds uuid[];
  entries entry[];
  events usage_event[];
  is_labelled boolean := false;
  crossings crossing[];
  key_changes key_spend[];
begin
  for op in
    select o.*, verdicts -> o.hold_id::text as verdict,
        h.id is not null as is_held, h.api_key_id as held_for_key, h.requested, h.held, h.slice_buckets,
        h.slice_tokens, h.overage as overage_held, h.expires_at <= clock_timestamp() as is_dead, h.estimate,
        e.hold_id is not null as is_settled, e.cost, e.charged, e.overage, e.absorbed, e.from_progress, e.entries_to
      from rows from (json_to_recordset(operations) as (
        kind text, user_id uuid, hold_id uuid, request_id text, api_key_id uuid, agent_id uuid, run_id uuid,
        key_budget_tokens bigint, key_budget_interval text, model text, cost_tokens bigint, input_tokens bigint,
        cached_input_tokens bigint, cache_write_tokens bigint, cache_write_1h_tokens bigint, output_tokens bigint,
        input_rate_micro bigint, cached_input_rate_micro bigint, cache_write_rate_micro bigint,
        cache_write_1h_rate_micro bigint, output_rate_micro bigint, price_version text, upstream_cost_micro_usd bigint,
        labels jsonb
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

    -- A release pays nothing, and neither does a settle whose hook is not done. A hold with an expired lease is
    -- settled at the progress of its call, if any; a later settle pays the rest. If the progress was estimated above
    -- the real cost, nothing is refunded.
    if op.kind = 'expire' and op.is_dead is not true then
      done[op.ordinality] := '{"status": "released"}';
      continue;
    end if;
    is_charge := op.kind = 'settle' or (op.kind = 'expire' and op.model is not null);
    is_rest := coalesce(op.kind = 'settle' and op.from_progress and op.cost_tokens > op.cost, false);
    if is_charge and (op.is_settled and not is_rest
        or not op.is_held and ledger_is_archived(a.user_id, op.hold_id, op.entries_to)) then
      done[op.ordinality] := json_build_object('status', 'settled', 'replayed', true,
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

    if op.is_held then
      ended_users := ended_users || a.user_id;
      ended_holds := ended_holds || op.hold_id;
      if op.held_for_key is not null then
        key_changes := key_changes || row(a.user_id, op.held_for_key, 0, -op.held)::key_spend;
      end if;
      a.held := a.held - op.held + op.overage_held;
      a.overage_held := a.overage_held - op.overage_held;
      -- 1. Held slices. The unspent part of a slice goes to a claw-back that waits for it, or expires with its bucket.
      for nth in 1 .. cardinality(op.slice_buckets) loop
        i := array_position(bucket_ids, op.slice_buckets[nth], first);
        b := buckets[i];
        part := op.slice_tokens[nth];
        take := least(unmet, part);
        b.held := b.held - part;
        if take > 0 then
          leg_types := leg_types || 'usage'::text;
          leg_places := leg_places || i;
          leg_tokens := leg_tokens || take;
          b.remaining := b.remaining - take;
          unmet := unmet - take;
        end if;
        part := part - take;
        if b.recalled > 0 then
          take := least(part, b.recalled);
          if take > 0 then
            leg_types := leg_types || 'clawback'::text;
            leg_places := leg_places || i;
            leg_tokens := leg_tokens || take;
            b.remaining := b.remaining - take;
            b.recalled := b.recalled - take;
            b.closed_reason := 'clawed_back';
            part := part - take;
          end if;
          -- What no hold can give back any more is spent: it becomes debt.
          take := b.recalled - b.held;
          if take > 0 then
            leg_types := leg_types || 'clawback'::text;
            leg_places := leg_places || null::integer;
            leg_tokens := leg_tokens || take;
            b.recalled := b.recalled - take;
          end if;
        end if;
        if part > 0 and b.expires_at <= instant then
          leg_types := leg_types || 'expiry'::text;
          leg_places := leg_places || i;
          leg_tokens := leg_tokens || part;
          b.remaining := b.remaining - part;
        end if;
        buckets[i] := b;
      end loop;
      -- 2. Held overage.
      overage := least(unmet, op.overage_held);
      unmet := unmet - overage;
    end if;
    if unmet > 0 then
      -- 3. Free tokens, in one entry with the held tokens of the same bucket.
      for i in first .. last loop
        exit when unmet = 0;
        b := buckets[i];
        take := least(unmet, b.remaining - b.held);
        if take > 0 then
          leg := array_position(leg_places, i);
          if leg is null or leg_types[leg] <> 'usage' then
            leg_types := leg_types || 'usage'::text;
            leg_places := leg_places || i;
            leg_tokens := leg_tokens || take;
          else
            leg_tokens[leg] := leg_tokens[leg] + take;
          end if;
          b.remaining := b.remaining - take;
          buckets[i] := b;
          unmet := unmet - take;
        end if;
      end loop;
      -- 4. Overage, as far as the cap allows it.
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
    -- 5. The operator absorbs the rest.
    if unmet > 0 then
      leg_types := leg_types || 'absorbed'::text;
      leg_places := leg_places || null::integer;
      leg_tokens := leg_tokens || unmet;
    end if;

    -- Entries: one for each leg, each with the hash of the entry before it. Those of a payment name the call.
    for leg in 1 .. cardinality(leg_types) loop
      i := leg_places[leg];
      a.seq := a.seq + 1;
      if i is not null then
        a.posted := a.posted - leg_tokens[leg];
      elsif leg_types[leg] = 'clawback' then
        a.debt := a.debt + leg_tokens[leg];
      end if;
      is_payment := leg_types[leg] not in ('expiry', 'clawback');
      description := case when leg_types[leg] = 'expiry' then 'Expired' when leg_types[leg] = 'clawback' then 'Clawed back'
        when op.kind = 'expire' then 'Model call, settled as last known' when is_rest then 'Model call, the rest of it'
        else 'Model call' end;
      a.last_hash := entry_hash(a.last_hash, a.user_id, a.seq, leg_types[leg], -leg_tokens[leg], a.posted - a.debt,
        bucket_ids[i], buckets[i].source, case when is_payment then op.hold_id end, case when is_payment then op.model end,
        case when is_payment then op.agent_id end, case when is_payment then op.run_id end,
        case when is_payment then op.request_id end, case when is_payment then op.api_key_id end, description, instant);
      entries := entries || row(a.user_id, a.seq, leg_types[leg], -leg_tokens[leg], a.posted - a.debt,
        bucket_ids[i], buckets[i].source, case when is_payment then op.hold_id end, case when is_payment then op.model end,
        case when is_payment then op.agent_id end, case when is_payment then op.run_id end,
        case when is_payment then op.request_id end, case when is_payment then op.api_key_id end, description, instant,
        a.last_hash)::entry;
    end loop;

    -- Thresholds of the balance. The account remembers them, because not only charges move the balance.
    reached := ledger_used_percent(a.granted, a.posted);
    if reached > a.told_percent then
      crossings := crossings || ledger_balance_crossings(a.user_id, a.seq, case when is_charge then op.hold_id end,
        a.told_percent, reached, a.granted, a.posted);
      a.told_percent := reached;
    end if;
    if not is_charge then
      done[op.ordinality] := json_build_object('status', case op.kind when 'settle' then 'superseded' else 'released' end);
      continue;
    end if;

    -- Thresholds of the overage and of the key's budget.
    if overage > 0 and a.overage_cap > 0 then
      crossings := crossings || ledger_charge_crossings(a.user_id, a.seq, 'overage', op.hold_id, a.overage - overage, a.overage,
        a.overage_cap, jsonb_build_object('cap_tokens', a.overage_cap, 'used_tokens', a.overage));
    end if;
    if payable > 0 and op.key_budget_tokens > 0 then
      key := array_position(key_ids, op.api_key_id);
      if key is null then
        key_ids := key_ids || op.api_key_id;
        key := cardinality(key_ids);
        key_spent[key] := (ledger_key_budget_use(a.user_id, op.api_key_id, op.key_budget_interval, instant)).spent;
      end if;
      spent := key_spent[key] + payable;
      key_spent[key] := spent;
      crossings := crossings || ledger_charge_crossings(a.user_id, a.seq, 'key_budget', op.hold_id, spent - payable,
        spent, op.key_budget_tokens, jsonb_build_object('api_key_id', op.api_key_id,
          'budget_tokens', op.key_budget_tokens, 'spent_tokens', spent));
    end if;
    if op.api_key_id is not null then
      key_changes := key_changes || row(a.user_id, op.api_key_id, payable, 0)::key_spend;
    end if;

    event := row(a.user_id, op.hold_id, op.request_id, op.api_key_id, op.agent_id, op.run_id, op.model,
      op.input_tokens, op.cached_input_tokens, op.output_tokens, op.input_rate_micro, op.cached_input_rate_micro,
      op.output_rate_micro, op.requested, op.held, op.slice_buckets, op.slice_tokens, payable,
      payable - overage - unmet, overage, unmet, entries_after, a.seq, instant, op.price_version, op.estimate,
      op.kind = 'expire', op.cache_write_tokens, op.cache_write_1h_tokens, op.cache_write_rate_micro,
      op.cache_write_1h_rate_micro, op.upstream_cost_micro_usd, op.labels)::usage_event;
    if is_rest then
      perform ledger_amend(event);
    else
      events := events || event;
      is_labelled := is_labelled or op.labels is not null;
    end if;
    outcome := jsonb_build_object('status', 'settled', 'replayed', false, 'cost_tokens', op.cost_tokens,
      'charged_tokens', event.charged + case when is_rest then op.charged else 0 end,
      'overage_tokens', overage + case when is_rest then op.overage else 0 end,
      'absorbed_tokens', unmet + case when is_rest then op.absorbed else 0 end);
    if op.verdict is not null then
      outcome := outcome || jsonb_build_object('hook', op.verdict);
    end if;
    done[op.ordinality] := outcome::json;
  end loop;
  accounts[place] := a;
  outcomes := array_to_json(done);

  if is_labelled then
    events := ledger_keep_labels(events, instant);
  end if;
  if entries is not null or events is not null then
    perform ledger_write_charges(entries, events, instant);
  end if;
  if is_labelled then
    perform ledger_write_labels(events, instant);
  end if;
  if ended_holds is not null then
    delete from hold using unnest(ended_users, ended_holds) as ended(user_id, id)
      where hold.user_id = ended.user_id and hold.id = ended.id;
  end if;
  if key_changes is not null then
    perform ledger_write_keys(key_changes);
  end if;
  if crossings is not null then
    insert into crossing (user_id, seq, kind, percent, hold_id, detail)
      select user_id, seq, kind, percent, hold_id, detail from unnest(crossings);
  end if;
end $$;
