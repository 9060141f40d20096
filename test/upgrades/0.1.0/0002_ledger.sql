-- The ledger: what each user has, holds and has spent, in billed tokens. src/ledger/README.md explains the terms.
-- No foreign key leads to users: the ledger outlives an erased person.

create table account (
  user_id uuid primary key,
  -- the last entry's number and hash
  seq bigint not null default 0,
  last_hash bytea not null default '\x0000000000000000000000000000000000000000000000000000000000000000',
  -- Σ remaining and Σ held of the buckets, kept for the audit and for balance_after
  posted bigint not null default 0 check (posted >= 0),
  held bigint not null default 0 check (held between 0 and posted),
  -- on-demand overage of the current period; a null cap means that it is off
  overage bigint not null default 0 check (overage >= 0),
  overage_held bigint not null default 0 check (overage_held >= 0),
  overage_cap bigint check (overage_cap >= 0),
  -- the cap, or what was used and held already when the cap was set below that
  overage_limit bigint not null default 0,
  -- overage of the periods that have ended
  overage_closed bigint not null default 0 check (overage_closed >= 0),
  debt bigint not null default 0 check (debt >= 0),
  -- posted after the last grant, and the highest percentage of it that was told to be used up
  granted bigint not null default 0,
  told_percent integer not null default 0,
  trial_ends_at timestamptz(3),
  -- the first top-up or subscription: from then on no trial restricts the account
  paid_since timestamptz(3),
  opened_at timestamptz(3) not null,
  -- how often there came something new to spend: a grant, a reinstatement, overage that is allowed, raised or begun anew
  refills bigint not null default 0,
  check (overage + overage_held <= overage_limit)
) with (fillfactor = 50);
create index account_by_trial_end on account (trial_ends_at) where paid_since is null;

create table bucket (
  user_id uuid not null references account,
  id uuid not null,
  source text not null check (source in ('subscription', 'top_up', 'bonus')),
  original bigint not null check (original > 0),
  remaining bigint not null,
  held bigint not null default 0,
  -- Σ reversal.amount: what payments that went back have taken of the grant
  clawed_back bigint not null default 0,
  -- of clawed_back: what calls hold as yet. What they do not spend is taken then, what they spend becomes debt.
  recalled bigint not null default 0,
  granted_at timestamptz(3) not null,
  expires_at timestamptz(3) not null check (expires_at > granted_at),
  note text,
  grant_key text,
  closed_reason text check (closed_reason in ('spent', 'expired', 'clawed_back')),
  primary key (user_id, id),
  check (0 <= held and held <= remaining and remaining <= original),
  check (0 <= recalled and recalled <= held and recalled <= clawed_back and clawed_back <= original),
  check ((closed_reason is null) = (remaining > 0))
) with (fillfactor = 50);
create unique index bucket_by_grant_key on bucket (user_id, grant_key) where grant_key is not null;
create index bucket_open on bucket (user_id, granted_at, id) where closed_reason is null;
create index bucket_due on bucket (expires_at) where closed_reason is null;

-- What was taken back of a grant when its payment went back, or (negative) given back again. Once per key.
create table reversal (
  user_id uuid not null,
  key text not null,
  -- null: of overage, which no grant gave
  bucket_id uuid,
  amount bigint not null,
  -- of amount: what became debt, or what debt was let off, at once
  debt bigint not null,
  reason text not null,
  created_at timestamptz(3) not null,
  primary key (user_id, key),
  foreign key (user_id, bucket_id) references bucket
);

-- An open hold. It is deleted when it is settled or let go; usage_event keeps what mattered of it.
create table hold (
  user_id uuid not null,
  id uuid not null,
  api_key_id uuid,
  requested bigint not null check (requested >= 0),
  held bigint not null check (held between 0 and requested),
  -- held = Σ slices + overage; slice n pins slice_tokens[n] of the bucket slice_buckets[n]
  slice_buckets uuid[] not null,
  slice_tokens bigint[] not null,
  overage bigint not null check (overage >= 0),
  -- on the database's real clock: a caller that died must not hold a standing test clock's tokens for ever
  expires_at timestamptz not null,
  request_id text not null,
  agent_id uuid,
  run_id uuid,
  -- what the amount was made from (HoldEstimate), and what the call has come to so far (Charge)
  estimate jsonb,
  progress jsonb,
  primary key (user_id, id)
);
create index hold_by_expiry on hold (expires_at);

create table entry (
  user_id uuid not null,
  seq bigint not null,
  type text not null
    check (type in ('grant', 'usage', 'expiry', 'refund', 'clawback', 'overage', 'absorbed', 'adjustment')),
  amount bigint not null check (amount <> 0),
  -- posted − debt after this entry; overage and absorbed are not taken from the balance and leave it as it was
  balance_after bigint not null,
  -- and its source
  bucket_id uuid,
  source text,
  hold_id uuid,
  model text,
  agent_id uuid,
  run_id uuid,
  request_id text,
  api_key_id uuid,
  description text not null,
  created_at timestamptz(3) not null,
  -- entry_hash of the entry before and this one
  hash bytea not null,
  primary key (user_id, seq)
);
create index entry_by_run on entry (user_id, run_id, seq) where run_id is not null;
create index entry_by_agent on entry (user_id, agent_id, seq) where agent_id is not null;
create index entry_by_time on entry (user_id, created_at, seq);
create index entry_by_type on entry (user_id, type, seq) where type <> 'usage';

-- One settled call: what it used, at which rates, what was held for it and who bore its cost.
create table usage_event (
  user_id uuid not null,
  hold_id uuid not null,
  request_id text not null,
  api_key_id uuid,
  agent_id uuid,
  run_id uuid,
  model text not null,
  input_tokens bigint not null check (input_tokens >= 0),
  cached_input_tokens bigint not null check (cached_input_tokens between 0 and input_tokens),
  output_tokens bigint not null check (output_tokens >= 0),
  -- millionths of a billed token per raw token; null: cached input is billed like the rest
  input_rate_micro bigint not null check (input_rate_micro >= 0),
  cached_input_rate_micro bigint check (cached_input_rate_micro >= 0),
  output_rate_micro bigint not null check (output_rate_micro >= 0),
  -- the hold; all null when it was gone by the time of the settle
  requested bigint,
  held bigint,
  slice_buckets uuid[],
  slice_tokens bigint[],
  cost bigint not null check (cost >= 0),
  charged bigint not null check (charged >= 0),
  overage bigint not null check (overage >= 0),
  absorbed bigint not null check (absorbed >= 0),
  -- its entries are those numbered after entries_after, up to entries_to
  entries_after bigint not null,
  entries_to bigint not null,
  created_at timestamptz(3) not null,
  price_version text,
  -- of the hold (HoldEstimate)
  estimate jsonb,
  -- the hold expired, and this is what was last known of the call: a settle that comes yet adds the rest
  from_progress boolean not null default false,
  primary key (user_id, hold_id),
  check (cost = charged + overage + absorbed)
);
-- Not led by user_id: the planner must have no second choice when it looks up a user's charge by its hold.
create index usage_event_by_request on usage_event (request_id, user_id);

-- Σ of usage_event by UTC day, written with it. The zero uuid stands for "none".
create table usage_daily (
  user_id uuid not null,
  day date not null,
  model text not null,
  agent_id uuid not null,
  api_key_id uuid not null,
  requests bigint not null,
  input_tokens bigint not null,
  cached_input_tokens bigint not null,
  output_tokens bigint not null,
  cost bigint not null,
  primary key (user_id, day, model, agent_id, api_key_id)
) with (fillfactor = 50);

create table key_spend (
  user_id uuid not null,
  api_key_id uuid not null,
  spent bigint not null default 0 check (spent >= 0),
  held bigint not null default 0 check (held >= 0),
  primary key (user_id, api_key_id)
) with (fillfactor = 50);

-- Thresholds that have been crossed, until somebody has been told.
create table crossing (
  user_id uuid not null,
  -- the entry that crossed it, or the last of its charge
  seq bigint not null,
  kind text not null check (kind in ('balance', 'overage', 'key_budget')),
  percent integer not null,
  -- of the charge; null: the balance expired or was clawed back
  hold_id uuid,
  detail jsonb not null,
  primary key (user_id, seq, kind, percent)
);

-- The thresholds, in per cent of `whole`, that lie above `before` and not above `after`.
create function ledger_crossed(before bigint, after bigint, whole bigint) returns setof integer
language sql immutable as $$
  select percent from unnest(array[50, 80, 100]) as percent
    where before::numeric * 100 < whole::numeric * percent and after::numeric * 100 >= whole::numeric * percent
$$;

-- How much of `granted`, the balance after the last grant, is used up or gone: 100, 80, 50 or 0 per cent.
create function ledger_used_percent(granted bigint, posted bigint) returns integer language sql immutable as $$
  select case
    when granted = 0 then 0
    when posted = 0 then 100
    when (granted - posted) * 5 >= granted * 4 then 80
    when (granted - posted) * 2 >= granted then 50
    else 0
  end
$$;

-- Whether a call of the user's can be paid, as far as one look tells: true is sure, false asks for a closer one.
create function ledger_has_tokens(of_user uuid, instant timestamptz) returns boolean language plpgsql stable as $$
begin
  return exists (
      select from account
        where user_id = of_user and (trial_ends_at is null or trial_ends_at > instant or paid_since is not null)
    ) and exists (
      select from bucket
        where user_id = of_user and closed_reason is null and expires_at > instant and remaining > held
    );
end $$;

-- sha256 of the UTF-8 text of a JSON array (elements parted by ", "), so that an export can be checked by its owner:
-- previous hash (hex; of the first entry: 64 zeros), user_id, seq, type, amount, balance_after, bucket_id, source,
-- hold_id, model, agent_id, run_id, request_id, api_key_id, description, created_at (ISO 8601, UTC, three decimals, Z).
create function entry_hash(
  previous bytea, user_id uuid, seq bigint, type text, amount bigint, balance_after bigint, bucket_id uuid, source text,
  hold_id uuid, model text, agent_id uuid, run_id uuid, request_id text, api_key_id uuid, description text, created_at timestamptz
) returns bytea language sql stable as $$
  select sha256(convert_to(json_build_array(
    encode(previous, 'hex'), user_id, seq, type, amount, balance_after, bucket_id, source, hold_id,
    model, agent_id, run_id, request_id, api_key_id, description,
    to_char(created_at::timestamptz(3) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
  )::text, 'UTF8'))
$$;

-- Appends an entry that no call caused, and moves the balance by it. The caller has locked the account.
create function ledger_post(
  of_user uuid, of_type text, of_amount bigint, of_bucket uuid, posted_change bigint, debt_change bigint,
  of_description text, instant timestamptz
) returns void language plpgsql as $$
declare
  a account;
  of_source text;
begin
  select source into of_source from bucket where user_id = of_user and id = of_bucket;
  update account set seq = seq + 1, posted = posted + posted_change, debt = debt + debt_change
    where user_id = of_user returning * into strict a;
  a.last_hash := entry_hash(a.last_hash, of_user, a.seq, of_type, of_amount, a.posted - a.debt, of_bucket, of_source,
    null, null, null, null, null, null, of_description, instant);
  insert into entry (user_id, seq, type, amount, balance_after, bucket_id, source, description, created_at, hash)
    values (of_user, a.seq, of_type, of_amount, a.posted - a.debt, of_bucket, of_source, of_description, instant, a.last_hash);
  update account set last_hash = a.last_hash where user_id = of_user;
end $$;

-- Notes which thresholds of the balance were crossed by what no call did: an expiry or a claw-back.
create function ledger_note_balance(of_user uuid) returns void language plpgsql as $$
declare
  a account;
  reached integer;
begin
  select * into strict a from account where user_id = of_user;
  reached := ledger_used_percent(a.granted, a.posted);
  if reached > a.told_percent then
    insert into crossing
      select of_user, a.seq, 'balance', percent, null,
          jsonb_build_object('granted_tokens', a.granted, 'remaining_tokens', a.posted)
        from unnest(array[50, 80, 100]) as percent where percent > a.told_percent and percent <= reached;
    update account set told_percent = reached where user_id = of_user;
  end if;
end $$;

-- Closes what has expired of one account by `instant`, in the order and at the time it expired. What is held stays.
create function ledger_expire(of_user uuid, instant timestamptz) returns void language plpgsql as $$
declare
  b bucket;
begin
  perform from account where user_id = of_user for update;
  for b in
    select * from bucket
      where user_id = of_user and closed_reason is null and expires_at <= instant and remaining > held
      order by expires_at, id
  loop
    update bucket set remaining = held, closed_reason = case when held = 0 then 'expired' end
      where user_id = of_user and id = b.id;
    perform ledger_post(of_user, 'expiry', b.held - b.remaining, b.id, b.held - b.remaining, 0, 'Expired', b.expires_at);
  end loop;
  if found then
    perform ledger_note_balance(of_user);
  end if;
end $$;

-- Closes the expired buckets of at most `most` accounts, in the order of their ids from beyond `after`. Answers which
-- accounts these were; one that fails is left as it was, with its error.
create function ledger_sweep(instant timestamptz, after uuid, most integer) returns table (account_id uuid, failure text)
language plpgsql as $$
begin
  for account_id in
    select distinct user_id from bucket
      where closed_reason is null and expires_at <= instant and remaining > held
        and (after is null or user_id > after)
      order by user_id limit most
  loop
    failure := null;
    begin
      perform ledger_expire(account_id, instant);
    exception when others then
      failure := sqlerrm;
    end;
    return next;
  end loop;
end $$;

-- Adds a bucket, once per grant_key, and repays debt from it first. Returns the id of the bucket that stands.
create function ledger_grant(
  of_user uuid, bucket_id uuid, of_source text, amount bigint, granted timestamptz, expires timestamptz,
  of_note text, of_key text
) returns uuid language plpgsql as $$
declare
  a account;
  known uuid;
  repaid bigint;
begin
  select * into strict a from account where user_id = of_user for update;
  select id into known from bucket where user_id = of_user and grant_key = of_key;
  if found then
    return known;
  end if;
  perform ledger_expire(of_user, granted);
  repaid := least(a.debt, amount);
  insert into bucket (user_id, id, source, original, remaining, granted_at, expires_at, note, grant_key, closed_reason)
    values (of_user, bucket_id, of_source, amount, amount - repaid, granted, expires, of_note, of_key,
      case when repaid = amount then 'clawed_back' end);
  perform ledger_post(of_user, 'grant', amount, bucket_id, amount, 0, coalesce(of_note, 'Granted'), granted);
  if repaid > 0 then
    perform ledger_post(of_user, 'adjustment', -repaid, bucket_id, -repaid, 0, 'Debt repaid from this grant', granted);
    perform ledger_post(of_user, 'adjustment', repaid, null, 0, -repaid, 'Debt repaid', granted);
  end if;
  update account set granted = posted, told_percent = 0, refills = refills + 1,
      paid_since = coalesce(paid_since, case when of_source <> 'bonus' then ledger_grant.granted end)
    where user_id = of_user;
  return bucket_id;
end $$;

-- Takes back up to `amount` of a grant, once per key: first what is free, then what expired unspent (which is gone
-- already, and is only called by its new name), then what calls hold, as soon as they let go of it. What was spent
-- becomes debt; so does all of what was used as overage, which no grant gave (no bucket).
create function ledger_claw_back(
  of_user uuid, of_bucket uuid, asked bigint, of_reason text, of_key text, instant timestamptz
) returns setof reversal language plpgsql as $$
declare
  b bucket;
  taken bigint;
  free bigint;
  lapsed bigint;
  recall bigint;
  owed bigint;
begin
  perform from account where user_id = of_user for update;
  return query select * from reversal where user_id = of_user and key = of_key;
  if found then
    return;
  end if;
  perform ledger_expire(of_user, instant);
  if of_bucket is null then
    perform ledger_post(of_user, 'clawback', -asked, null, 0, asked, of_reason, instant);
    return query insert into reversal values (of_user, of_key, null, asked, asked, of_reason, instant) returning *;
    return;
  end if;
  select * into strict b from bucket where user_id = of_user and id = of_bucket;
  taken := least(asked, b.original - b.clawed_back);
  free := least(taken, b.remaining - b.held);
  select least(taken - free, coalesce(-sum(e.amount), 0)) into lapsed
    from entry e where e.user_id = of_user and e.type = 'expiry' and e.bucket_id = of_bucket;
  recall := least(taken - free - lapsed, b.held - b.recalled);
  owed := taken - free - lapsed - recall;
  update bucket
    set remaining = remaining - free, clawed_back = clawed_back + taken, recalled = recalled + recall,
      closed_reason = case when remaining = free then coalesce(closed_reason, 'clawed_back') end
    where user_id = of_user and id = of_bucket;
  if lapsed > 0 then
    perform ledger_post(of_user, 'expiry', lapsed, of_bucket, lapsed, 0, 'Expired unspent, now clawed back', instant);
  end if;
  if free + lapsed > 0 then
    perform ledger_post(of_user, 'clawback', -free - lapsed, of_bucket, -free - lapsed, 0, of_reason, instant);
  end if;
  if owed > 0 then
    perform ledger_post(of_user, 'clawback', -owed, null, 0, owed, of_reason, instant);
  end if;
  perform ledger_note_balance(of_user);
  return query insert into reversal values (of_user, of_key, of_bucket, taken, owed, of_reason, instant) returning *;
end $$;

-- Gives back up to `amount` of what was clawed back of a grant, once per key: first calls may keep what they hold, then
-- debt is let off, and the rest returns to the bucket, where it expires at once if the bucket has. Of overage, only what
-- debt is let off is given back.
create function ledger_reinstate(
  of_user uuid, of_bucket uuid, asked bigint, of_reason text, of_key text, instant timestamptz
) returns setof reversal language plpgsql as $$
declare
  b bucket;
  given bigint;
  kept bigint;
  let_off bigint;
  back bigint;
  is_expired boolean;
begin
  select debt into strict let_off from account where user_id = of_user for update;
  return query select * from reversal where user_id = of_user and key = of_key;
  if found then
    return;
  end if;
  update account set refills = refills + 1 where user_id = of_user;
  perform ledger_expire(of_user, instant);
  if of_bucket is null then
    let_off := least(asked, let_off);
    if let_off > 0 then
      perform ledger_post(of_user, 'adjustment', let_off, null, 0, -let_off, of_reason, instant);
    end if;
    return query insert into reversal values (of_user, of_key, null, -let_off, -let_off, of_reason, instant) returning *;
    return;
  end if;
  select * into strict b from bucket where user_id = of_user and id = of_bucket;
  is_expired := b.expires_at <= instant;
  given := least(asked, b.clawed_back);
  kept := least(given, b.recalled);
  let_off := least(given - kept, let_off);
  back := given - kept - let_off;
  update bucket
    set remaining = remaining + case when is_expired then 0 else back end,
      clawed_back = clawed_back - given, recalled = recalled - kept,
      closed_reason = case when is_expired or back = 0 then closed_reason end
    where user_id = of_user and id = of_bucket;
  if let_off > 0 then
    perform ledger_post(of_user, 'adjustment', let_off, null, 0, -let_off, of_reason, instant);
  end if;
  if back > 0 then
    perform ledger_post(of_user, 'adjustment', back, of_bucket, back, 0, of_reason, instant);
    if is_expired then
      perform ledger_post(of_user, 'expiry', -back, of_bucket, -back, 0, 'Expired', instant);
    end if;
  end if;
  return query insert into reversal values (of_user, of_key, of_bucket, -given, -let_off, of_reason, instant) returning *;
end $$;

-- Renews the leases of calls that live, and notes what they have come to. A lease that has run out is renewed as well,
-- as long as nothing has ended the hold: who notes this lives. It waits for nobody, so that it can stand in
-- no deadlock: a hold that is being ended at this moment needs nothing. Nor does it wait for the disk.
create function ledger_progress(calls json, hold_seconds integer) returns void language plpgsql as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  update hold set expires_at = clock_timestamp() + make_interval(secs => hold_seconds),
      progress = coalesce(living.charge, hold.progress)
    from (
      select h.user_id, h.id, call.charge
        from json_to_recordset(calls) as call(user_id uuid, hold_id uuid, charge jsonb)
        join hold h on h.user_id = call.user_id and h.id = call.hold_id
        for update of h skip locked
    ) as living
    where hold.user_id = living.user_id and hold.id = living.id;
end $$;

-- Replaces what was last known of a call by what it really came to. `rest` has its counts and rates whole, and of its
-- cost what is charged now. The usage of the day on which it was first charged follows.
create function ledger_amend(rest usage_event) returns void language plpgsql as $$
declare
  none constant uuid := '00000000-0000-0000-0000-000000000000';
  known usage_event;
begin
  select * into strict known from usage_event where user_id = rest.user_id and hold_id = rest.hold_id;
  update usage_event set
      input_tokens = rest.input_tokens, cached_input_tokens = rest.cached_input_tokens,
      output_tokens = rest.output_tokens, input_rate_micro = rest.input_rate_micro,
      cached_input_rate_micro = rest.cached_input_rate_micro, output_rate_micro = rest.output_rate_micro,
      price_version = rest.price_version, cost = known.cost + rest.cost, charged = known.charged + rest.charged,
      overage = known.overage + rest.overage, absorbed = known.absorbed + rest.absorbed,
      entries_to = rest.entries_to, from_progress = false
    where user_id = rest.user_id and hold_id = rest.hold_id;
  update usage_daily set
      input_tokens = input_tokens + rest.input_tokens - known.input_tokens,
      cached_input_tokens = cached_input_tokens + rest.cached_input_tokens - known.cached_input_tokens,
      output_tokens = output_tokens + rest.output_tokens - known.output_tokens, cost = cost + rest.cost
    where user_id = known.user_id and day = (known.created_at at time zone 'UTC')::date and model = known.model
      and agent_id = coalesce(known.agent_id, none) and api_key_id = coalesce(known.api_key_id, none);
end $$;

-- Does a batch of holds, settles, releases and expiries of holds, each whole, and returns one JSON outcome for each, in order.
--
-- Reads what is concerned under the accounts' locks into variables, goes through the operations one by one (what one may
-- take depends on what those before it took), and writes each table once at the end. A batch with two operations on one
-- hold fails, since the second would not see the first: it is sent again in parts.
--
-- The planner's settings make each join look up its rows by primary key, whatever the tables' sizes were when a session
-- planned it, and keep it from planning anew for every batch.
create function ledger_apply(operations json, instant timestamptz, hold_seconds integer) returns json
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  none constant uuid := '00000000-0000-0000-0000-000000000000';
  op record;
  outcomes json[];
  -- the accounts of the batch, and that of the operation at hand: a = accounts[a_place]
  account_ids uuid[];
  is_twice boolean;
  accounts account[];
  a account;
  a_place integer := 0;
  -- their open buckets, each bucket at the same place of every array, oldest first; those of a are first to last
  bucket_owners uuid[];
  bucket_ids uuid[];
  bucket_sources text[];
  bucket_remaining bigint[];
  bucket_held bigint[];
  bucket_recalled bigint[];
  bucket_live boolean[];
  bucket_ends text[];
  is_due boolean;
  first integer;
  last integer;
  i integer;
  -- a hold: what it asks for, what is still to be found, what it pins
  amount bigint;
  minimum bigint;
  refusal text;
  key_left bigint;
  agent_left bigint;
  agent_held bigint;
  posted_live bigint;
  held_live bigint;
  slice_places integer[];
  slice_buckets uuid[];
  slice_tokens bigint[];
  -- a settle: what it costs now, what of that is still to be paid, and its entries to be
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
  -- riders: whether there are any, those of one procedure by their operations, and what was answered to each operation
  is_ridden boolean;
  rider_places integer[];
  rider_arguments jsonb;
  rider_answers jsonb;
  answers jsonb[];
  spent_before bigint;
  -- what is written at the end
  new_holds hold[];
  ended_users uuid[];
  ended_holds uuid[];
  entries entry[];
  events usage_event[];
  crossings crossing[];
  key_users uuid[];
  key_ids uuid[];
  key_spent bigint[];
  key_held bigint[];
begin
  -- Lock the accounts, in one order everywhere, and read them and their open buckets. What has expired is closed first:
  -- from there on an expired bucket has nothing but what is held.
  select array_agg(distinct o.user_id), count(*) > count(distinct o.hold_id), bool_or(o.rider is not null)
    into account_ids, is_twice, is_ridden
    from json_to_recordset(operations) as o(user_id uuid, hold_id uuid, rider json);
  if is_twice then
    raise exception 'two operations on one hold in one batch';
  end if;
  loop
    select array_agg(mine), array_agg((mine).user_id) into accounts, account_ids
      from (select account as mine from account where user_id = any (account_ids) order by user_id for update) as locked;
    select array_agg(user_id), array_agg(id), array_agg(source), array_agg(remaining), array_agg(held),
        array_agg(recalled), array_agg(expires_at > instant), array_agg(case when expires_at > instant then 'spent' else 'expired' end),
        bool_or(expires_at <= instant and remaining > held)
      into bucket_owners, bucket_ids, bucket_sources, bucket_remaining, bucket_held, bucket_recalled, bucket_live,
        bucket_ends, is_due
      from (
        select * from bucket where user_id = any (account_ids) and closed_reason is null order by user_id, granted_at, id
      ) as open_ones;
    exit when is_due is not true;
    perform ledger_expire(user_id, instant) from unnest(account_ids) as user_id;
  end loop;

  -- The riders of what is going to be done for the first time, all of a procedure at once.
  if is_ridden then
    for calling, rider_places, rider_arguments in
      select o.rider ->> 'procedure', array_agg(o.ordinality order by o.ordinality),
          jsonb_agg(o.rider -> 'argument' order by o.ordinality)
        from rows from (json_to_recordset(operations) as (
          kind text, user_id uuid, hold_id uuid, cost_tokens bigint, rider jsonb
        )) with ordinality as o
        left join hold h on h.user_id = o.user_id and h.id = o.hold_id
        left join usage_event e on e.user_id = o.user_id and e.hold_id = o.hold_id
        where o.rider is not null and case o.kind
          when 'hold' then h.id is null and e.hold_id is null
          else e.hold_id is null or (e.from_progress and o.cost_tokens > e.cost)
        end
        group by 1
    loop
      execute format('select %I($1)', calling) into strict rider_answers using rider_arguments;
      for i in 1 .. cardinality(rider_places) loop
        answers[rider_places[i]] := rider_answers -> (i - 1);
      end loop;
    end loop;
  end if;

  for op in
    select o.*,
        h.id is not null as is_held, h.api_key_id as held_for_key, h.requested, h.held, h.slice_buckets,
        h.slice_tokens, h.overage as overage_held, h.expires_at <= clock_timestamp() as is_dead,
        h.estimate as estimated,
        e.hold_id is not null as is_settled, e.cost, e.charged, e.overage, e.absorbed, e.held as settled_hold,
        e.from_progress
      from rows from (json_to_recordset(operations) as (
        kind text, user_id uuid, hold_id uuid, request_id text, api_key_id uuid, agent_id uuid, run_id uuid,
        key_budget_tokens bigint, agent_budget jsonb, amount_tokens bigint, minimum_tokens bigint,
        model text, cost_tokens bigint, input_tokens bigint, cached_input_tokens bigint, output_tokens bigint,
        input_rate_micro bigint, cached_input_rate_micro bigint, output_rate_micro bigint, price_version text,
        estimate jsonb, rider jsonb
      )) with ordinality as o
      left join hold h on h.user_id = o.user_id and h.id = o.hold_id
      left join usage_event e on e.user_id = o.user_id and e.hold_id = o.hold_id
      order by o.ordinality
  loop
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

    if op.kind = 'hold' then
      if op.is_held or op.is_settled then
        outcomes := outcomes || json_build_object('status', 'held', 'hold_id', op.hold_id,
          'held_tokens', coalesce(op.held, op.settled_hold, 0));
        continue;
      end if;
      if op.rider is not null and not (answers[op.ordinality] ->> 'done')::boolean then
        outcomes := outcomes || json_build_object('status', 'superseded', 'rider', answers[op.ordinality]);
        continue;
      end if;
      amount := op.amount_tokens;
      minimum := greatest(op.minimum_tokens, least(1, amount));
      refusal := null;
      key_left := null;
      if op.key_budget_tokens is not null then
        select greatest(0, op.key_budget_tokens - coalesce(sum(used), 0)) into key_left from (
          select spent + held from key_spend where user_id = op.user_id and api_key_id = op.api_key_id
          union all
          select spent + held from unnest(key_ids, key_spent, key_held) as pending(id, spent, held)
            where id = op.api_key_id
        ) as key_use(used);
        amount := least(amount, key_left);
        if amount < minimum then
          refusal := 'key_budget_exceeded';
        end if;
      end if;
      if op.agent_budget is not null then
        select coalesce(sum(spent), 0), coalesce(sum(held_now), 0) into agent_left, agent_held from (
          select cost, 0 from usage_daily where user_id = op.user_id and agent_id = op.agent_id
            and day >= (op.agent_budget ->> 'from_day')::date
          union all
          select e.cost, 0 from unnest(events) as e where e.user_id = op.user_id and e.agent_id = op.agent_id
          union all
          select 0, h.held from hold h where h.user_id = op.user_id and h.agent_id = op.agent_id
            and h.id <> all (coalesce(ended_holds, '{}'))
          union all
          select 0, h.held from unnest(new_holds) as h where h.user_id = op.user_id and h.agent_id = op.agent_id
        ) as agent_use(spent, held_now);
        agent_left := greatest(0, (op.agent_budget ->> 'cap_tokens')::bigint - agent_left);
        amount := least(amount, agent_left - least(agent_left, agent_held));
        if amount < minimum then
          refusal := coalesce(refusal, case
            when agent_left >= minimum and agent_held > 0 then 'in_flight_exhausted' else 'agent_budget_exceeded' end);
        end if;
      end if;
      if a.trial_ends_at <= instant and a.paid_since is null then
        refusal := 'trial_ended';
      end if;

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

      if refusal is not null or amount < minimum then
        select coalesce(sum(b.remaining), 0), coalesce(sum(b.held), 0) into posted_live, held_live
          from unnest(bucket_owners, bucket_live, bucket_remaining, bucket_held) as b(owner, live, remaining, held)
          where b.owner = op.user_id and b.live;
        refusal := coalesce(refusal, case
          when posted_live + greatest(0, a.overage_cap - a.overage) >= minimum then 'in_flight_exhausted'
          when a.overage_cap is not null then 'overage_cap_reached'
          when posted_live = 0 then 'out_of_tokens'
          else 'insufficient_balance'
        end);
        outcomes := outcomes || json_build_object('status', 'refused', 'code', refusal,
          'available', least(posted_live - held_live, key_left), 'held', held_live);
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
        op.run_id, op.estimate, null)::hold;
      if op.api_key_id is not null then
        key_users := key_users || op.user_id;
        key_ids := key_ids || op.api_key_id;
        key_spent := key_spent || 0::bigint;
        key_held := key_held || amount;
      end if;
      outcomes := outcomes || json_build_object('status', 'held', 'hold_id', op.hold_id, 'held_tokens', amount);
      continue;
    end if;

    -- A settle pays its cost out of the hold first; a release, or a settle that its rider refuses, pays nothing. A hold
    -- that has expired is settled as what was last known of its call, when anything was; a settle that comes after that
    -- pays the rest. What was last known may have been an estimate above the real cost: that charge stands.
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
    if is_charge and op.is_settled and not is_rest then
      outcomes := outcomes || json_build_object('status', 'settled', 'replayed', true, 'cost_tokens', op.cost,
        'charged_tokens', op.charged, 'overage_tokens', op.overage, 'absorbed_tokens', op.absorbed);
      continue;
    end if;
    if is_charge and op.rider is not null then
      is_charge := (answers[op.ordinality] ->> 'done')::boolean;
    end if;
    payable := case when not is_charge then 0 when is_rest then op.cost_tokens - op.cost else op.cost_tokens end;
    unmet := payable;
    overage := 0;
    entries_after := a.seq;
    leg_types := '{}';
    leg_places := '{}';
    leg_tokens := '{}';

    -- 1. held slices; what is left of a slice goes to who has clawed it back, or expires with its bucket
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
        key_users := key_users || op.user_id;
        key_ids := key_ids || op.held_for_key;
        key_spent := key_spent || 0::bigint;
        key_held := key_held || -op.held;
      end if;
    end if;
    -- 3. free tokens, in one entry with those of the same bucket that were held
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
      -- 4. what overage the cap still allows
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
    -- 5. what nobody can pay is borne by the operator, and said
    if unmet > 0 then
      leg_types := leg_types || 'absorbed'::text;
      leg_places := leg_places || null::integer;
      leg_tokens := leg_tokens || unmet;
    end if;

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

    -- What thresholds of the balance that has crossed. They are remembered, since more than charges moves it.
    reached := ledger_used_percent(a.granted, a.posted);
    if reached > a.told_percent then
      crossings := crossings || (
        select array_agg(row(op.user_id, a.seq, 'balance', percent, case when is_charge then op.hold_id end,
            jsonb_build_object('granted_tokens', a.granted, 'remaining_tokens', a.posted))::crossing)
          from unnest(array[50, 80, 100]) as percent where percent > a.told_percent and percent <= reached);
      a.told_percent := reached;
    end if;
    if is_charge then
      charge := row(op.user_id, op.hold_id, op.request_id, op.api_key_id, op.agent_id, op.run_id, op.model,
        op.input_tokens, op.cached_input_tokens, op.output_tokens, op.input_rate_micro, op.cached_input_rate_micro,
        op.output_rate_micro, op.requested, op.held, op.slice_buckets, op.slice_tokens, payable,
        payable - overage - unmet, overage, unmet, entries_after, a.seq, instant, op.price_version, op.estimated,
        op.kind = 'expire')::usage_event;
      if is_rest then
        perform ledger_amend(charge);
      else
        events := events || charge;
      end if;
      if overage > 0 and a.overage_cap > 0 then
        crossings := crossings || (
          select array_agg(row(op.user_id, a.seq, 'overage', percent, op.hold_id,
              jsonb_build_object('cap_tokens', a.overage_cap, 'used_tokens', a.overage))::crossing)
            from ledger_crossed(a.overage - overage, a.overage, a.overage_cap) as percent);
      end if;
      if payable > 0 and op.key_budget_tokens > 0 then
        select coalesce(sum(used), 0) into spent_before from (
          select spent from key_spend where user_id = op.user_id and api_key_id = op.api_key_id
          union all
          select spent from unnest(key_ids, key_spent) as pending(id, spent) where id = op.api_key_id
        ) as key_use(used);
        crossings := crossings || (
          select array_agg(row(op.user_id, a.seq, 'key_budget', percent, op.hold_id,
              jsonb_build_object('api_key_id', op.api_key_id, 'budget_tokens', op.key_budget_tokens,
                'spent_tokens', spent_before + payable))::crossing)
            from ledger_crossed(spent_before, spent_before + payable, op.key_budget_tokens) as percent);
      end if;
      if op.api_key_id is not null then
        key_users := key_users || op.user_id;
        key_ids := key_ids || op.api_key_id;
        key_spent := key_spent || payable;
        key_held := key_held || 0::bigint;
      end if;
      settled := jsonb_build_object('status', 'settled', 'replayed', false, 'cost_tokens', op.cost_tokens,
        'charged_tokens', charge.charged + case when is_rest then op.charged else 0 end,
        'overage_tokens', overage + case when is_rest then op.overage else 0 end,
        'absorbed_tokens', unmet + case when is_rest then op.absorbed else 0 end);
      if op.rider is not null then
        settled := settled || jsonb_build_object('rider', answers[op.ordinality]);
      end if;
      outcomes := outcomes || settled::json;
    else
      outcomes := outcomes || json_build_object('status', case op.kind when 'settle' then 'superseded' else 'released' end);
    end if;
  end loop;
  accounts[a_place] := a;

  -- Write what has become of it.
  update account set seq = changed.seq, last_hash = changed.last_hash, posted = changed.posted, held = changed.held,
      overage = changed.overage, overage_held = changed.overage_held, debt = changed.debt,
      told_percent = changed.told_percent
    from unnest(accounts) as changed where account.user_id = changed.user_id;
  update bucket set remaining = changed.remaining, held = changed.held, recalled = changed.recalled,
      closed_reason = case when changed.remaining = 0 then changed.ending end
    from unnest(bucket_owners, bucket_ids, bucket_remaining, bucket_held, bucket_recalled, bucket_ends)
      as changed(user_id, id, remaining, held, recalled, ending)
    where bucket.user_id = changed.user_id and bucket.id = changed.id
      and (bucket.remaining, bucket.held) is distinct from (changed.remaining, changed.held);
  if new_holds is not null then
    insert into hold select * from unnest(new_holds);
  end if;
  if ended_holds is not null then
    delete from hold using unnest(ended_users, ended_holds) as ended(user_id, id)
      where hold.user_id = ended.user_id and hold.id = ended.id;
  end if;
  if entries is not null then
    insert into entry select * from unnest(entries);
  end if;
  if events is not null then
    insert into usage_event select * from unnest(events);
    insert into usage_daily as known
      select user_id, (instant at time zone 'UTC')::date, model, coalesce(agent_id, none), coalesce(api_key_id, none),
          count(*), sum(input_tokens), sum(cached_input_tokens), sum(output_tokens), sum(cost)
        from unnest(events) group by 1, 2, 3, 4, 5
      on conflict (user_id, day, model, agent_id, api_key_id) do update set
        requests = known.requests + excluded.requests,
        input_tokens = known.input_tokens + excluded.input_tokens,
        cached_input_tokens = known.cached_input_tokens + excluded.cached_input_tokens,
        output_tokens = known.output_tokens + excluded.output_tokens,
        cost = known.cost + excluded.cost;
  end if;
  if crossings is not null then
    insert into crossing select * from unnest(crossings);
  end if;
  if key_ids is not null then
    insert into key_spend
      select change.user_id, change.id,
          coalesce(known.spent, 0) + sum(change.spent), coalesce(known.held, 0) + sum(change.held)
        from unnest(key_users, key_ids, key_spent, key_held) as change(user_id, id, spent, held)
        left join key_spend known on known.user_id = change.user_id and known.api_key_id = change.id
        group by 1, 2, known.spent, known.held
      on conflict (user_id, api_key_id) do update set spent = excluded.spent, held = excluded.held;
  end if;
  -- A lost hold costs nobody anything, so a batch of holds alone need not wait for the disk.
  if entries is null and events is null and ended_holds is null then
    perform set_config('synchronous_commit', 'off', true);
  end if;
  return array_to_json(outcomes);
end $$;
