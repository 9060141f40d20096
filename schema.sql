-- Written by `npm run schema`. The schema of a database: its tables; its functions are in src/<module>/sql.

create table account (
  user_id uuid not null,
  seq bigint default 0 not null,
  last_hash bytea default '\x0000000000000000000000000000000000000000000000000000000000000000'::bytea not null,
  posted bigint default 0 not null,
  held bigint default 0 not null,
  overage bigint default 0 not null,
  overage_held bigint default 0 not null,
  overage_cap bigint,
  overage_limit bigint default 0 not null,
  overage_closed bigint default 0 not null,
  debt bigint default 0 not null,
  granted bigint default 0 not null,
  notified_percent integer default 0 not null,
  trial_ends_at timestamp(3) with time zone,
  paid_since timestamp(3) with time zone,
  opened_at timestamp(3) with time zone not null,
  refills bigint default 0 not null
) with (fillfactor=50);
alter table account add constraint account_check CHECK (((held >= 0) AND (held <= posted)));
alter table account add constraint account_check1 CHECK (((overage + overage_held) <= overage_limit));
alter table account add constraint account_debt_check CHECK ((debt >= 0));
alter table account add constraint account_overage_cap_check CHECK ((overage_cap >= 0));
alter table account add constraint account_overage_check CHECK ((overage >= 0));
alter table account add constraint account_overage_closed_check CHECK ((overage_closed >= 0));
alter table account add constraint account_overage_held_check CHECK ((overage_held >= 0));
alter table account add constraint account_posted_check CHECK ((posted >= 0));
alter table account add constraint account_pkey PRIMARY KEY (user_id);
CREATE INDEX account_by_trial_end ON public.account USING btree (trial_ends_at) WHERE (paid_since IS NULL);

create table agent (
  user_id uuid not null,
  id uuid not null,
  version integer not null,
  name text not null,
  description text,
  system_prompt text,
  run_prompt text,
  model_id text,
  auto_route boolean not null,
  is_active boolean not null,
  tools_config jsonb not null,
  input_schema json,
  output_schema json,
  limits jsonb not null,
  created_at timestamp(3) with time zone not null,
  updated_at timestamp(3) with time zone not null,
  deleted_at timestamp(3) with time zone,
  model_settings jsonb default '{"top_p": null, "temperature": null, "reasoning_effort": null, "max_output_tokens": null}'::jsonb not null,
  client_tools text default 'ignore'::text not null,
  deliveries jsonb default '[]'::jsonb not null,
  approval_hours integer default 24 not null,
  on_budget text default 'fail'::text not null
);
alter table agent add constraint agent_check CHECK (((model_id IS NOT NULL) OR auto_route));
alter table agent add constraint agent_client_tools_check CHECK ((client_tools = ANY (ARRAY['ignore'::text, 'pass'::text])));
alter table agent add constraint agent_on_budget_check CHECK ((on_budget = ANY (ARRAY['fail'::text, 'ask'::text])));
alter table agent add constraint agent_version_check CHECK ((version > 0));
alter table agent add constraint agent_pkey PRIMARY KEY (user_id, id);
CREATE INDEX agent_deleted ON public.agent USING btree (deleted_at, user_id, id) WHERE (deleted_at IS NOT NULL);
CREATE INDEX agent_of_user ON public.agent USING btree (user_id, id DESC) WHERE (deleted_at IS NULL);
CREATE TRIGGER agent_of_erased BEFORE INSERT ON public.agent FOR EACH ROW EXECUTE FUNCTION refuse_erased('fail');

create table agent_trigger (
  user_id uuid not null,
  id uuid not null,
  agent_id uuid not null,
  name text not null,
  verify jsonb not null,
  secret bytea not null,
  former_secret bytea,
  former_secret_until timestamp(3) with time zone,
  filter jsonb,
  input_map jsonb,
  run_prompt text,
  enabled boolean not null,
  api_key_id uuid,
  rejected_count bigint default 0 not null,
  last_rejected_at timestamp(3) with time zone,
  last_rejected_reason text,
  created_at timestamp(3) with time zone not null,
  updated_at timestamp(3) with time zone not null,
  older_secrets jsonb default '[]'::jsonb not null
);
alter table agent_trigger add constraint agent_trigger_check CHECK (((former_secret IS NULL) = (former_secret_until IS NULL)));
alter table agent_trigger add constraint agent_trigger_pkey PRIMARY KEY (user_id, id);
alter table agent_trigger add constraint agent_trigger_id_key UNIQUE (id);
alter table agent_trigger add constraint agent_trigger_user_id_agent_id_name_key UNIQUE (user_id, agent_id, name);

create table agent_version (
  user_id uuid not null,
  agent_id uuid not null,
  version integer not null,
  config json not null,
  created_at timestamp(3) with time zone not null
);
alter table agent_version add constraint agent_version_user_id_agent_id_fkey FOREIGN KEY (user_id, agent_id) REFERENCES agent(user_id, id);
alter table agent_version add constraint agent_version_pkey PRIMARY KEY (user_id, agent_id, version);

create table agent_webhook_key (
  user_id uuid not null,
  agent_id uuid not null,
  sealed bytea not null,
  created_at timestamp(3) with time zone not null
);
alter table agent_webhook_key add constraint agent_webhook_key_pkey PRIMARY KEY (user_id, agent_id);
CREATE TRIGGER webhook_key_of_erased BEFORE INSERT ON public.agent_webhook_key FOR EACH ROW EXECUTE FUNCTION refuse_erased('drop');

create table api_key (
  id uuid not null,
  user_id uuid not null,
  name text not null,
  key_hash bytea not null,
  previous_key_hash bytea,
  previous_valid_until timestamp(3) with time zone,
  prefix text not null,
  last_four text not null,
  scopes text[] not null,
  budget_tokens bigint,
  created_at timestamp(3) with time zone not null,
  expires_at timestamp(3) with time zone,
  last_used_at timestamp(3) with time zone,
  revoked_at timestamp(3) with time zone,
  budget_interval text,
  allowed_models jsonb,
  limits jsonb
);
alter table api_key add constraint api_key_budget_interval_check CHECK ((budget_interval = ANY (ARRAY['day'::text, 'week'::text, 'month'::text])));
alter table api_key add constraint api_key_budget_tokens_check CHECK ((budget_tokens >= 0));
alter table api_key add constraint api_key_check CHECK (((budget_interval IS NULL) OR (budget_tokens IS NOT NULL)));
alter table api_key add constraint api_key_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id);
alter table api_key add constraint api_key_pkey PRIMARY KEY (id);
alter table api_key add constraint api_key_key_hash_key UNIQUE (key_hash);
alter table api_key add constraint api_key_previous_key_hash_key UNIQUE (previous_key_hash);
CREATE INDEX api_key_by_user ON public.api_key USING btree (user_id, id);
CREATE TRIGGER api_key_changed AFTER DELETE OR UPDATE OF key_hash, revoked_at, expires_at, scopes, budget_tokens, budget_interval, allowed_models, limits ON public.api_key FOR EACH ROW EXECUTE FUNCTION tell_api_key_changed();
CREATE TRIGGER api_key_of_erased BEFORE INSERT ON public.api_key FOR EACH ROW EXECUTE FUNCTION refuse_erased('fail');

create table archive_month (
  month date not null,
  before timestamp(3) with time zone not null,
  phase text not null,
  entries bigint not null,
  usage_events bigint not null,
  files jsonb,
  moved_at timestamp(3) with time zone
);
alter table archive_month add constraint archive_month_phase_check CHECK ((phase = ANY (ARRAY['planned'::text, 'written'::text, 'moved'::text])));
alter table archive_month add constraint archive_month_pkey PRIMARY KEY (month);
CREATE UNIQUE INDEX archive_month_at_work ON public.archive_month USING btree ((true)) WHERE (phase <> 'moved'::text);

create table archived_account (
  user_id uuid not null,
  seq bigint default 0 not null,
  hash bytea default decode(repeat('00'::text, 32), 'hex'::text) not null,
  balance bigint default 0 not null,
  planned_seq bigint not null,
  planned_events bigint not null,
  before timestamp(3) with time zone not null,
  sealed_before timestamp(3) with time zone
);
alter table archived_account add constraint archived_account_check CHECK ((planned_seq >= seq));
alter table archived_account add constraint archived_account_pkey PRIMARY KEY (user_id);

create table archived_entry_daily (
  user_id uuid not null,
  day date not null,
  type text not null,
  model text not null,
  bucket_id uuid not null,
  amount bigint not null,
  granted bigint not null
);
alter table archived_entry_daily add constraint archived_entry_daily_pkey PRIMARY KEY (user_id, day, type, model, bucket_id);
CREATE INDEX archived_entry_daily_by_bucket ON public.archived_entry_daily USING btree (user_id, bucket_id);

create table archived_label_daily (
  user_id uuid not null,
  name text not null,
  value text not null,
  day date not null,
  requests bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cost bigint not null
);
alter table archived_label_daily add constraint archived_label_daily_pkey PRIMARY KEY (user_id, name, value, day);

create table archived_usage_daily (
  user_id uuid not null,
  day date not null,
  model text not null,
  agent_id uuid not null,
  api_key_id uuid not null,
  requests bigint not null,
  input_tokens bigint not null,
  cached_input_tokens bigint not null,
  cache_write_tokens bigint not null,
  output_tokens bigint not null,
  cost bigint not null,
  upstream_cost_micro_usd bigint not null,
  requests_of_unknown_cost bigint not null
);
alter table archived_usage_daily add constraint archived_usage_daily_pkey PRIMARY KEY (user_id, day, model, agent_id, api_key_id);

create table auto_topup (
  user_id uuid not null,
  enabled boolean not null,
  threshold_tokens bigint not null,
  amount_cents bigint not null,
  monthly_cap_cents bigint not null,
  paused_reason text,
  paused_at timestamp(3) with time zone
);
alter table auto_topup add constraint auto_topup_amount_cents_check CHECK ((amount_cents > 0));
alter table auto_topup add constraint auto_topup_check CHECK ((monthly_cap_cents >= amount_cents));
alter table auto_topup add constraint auto_topup_check1 CHECK (((paused_reason IS NULL) = (paused_at IS NULL)));
alter table auto_topup add constraint auto_topup_paused_reason_check CHECK ((paused_reason = ANY (ARRAY['payment_declined'::text, 'payment_mismatch'::text, 'payment_returned'::text])));
alter table auto_topup add constraint auto_topup_threshold_tokens_check CHECK ((threshold_tokens > 0));
alter table auto_topup add constraint auto_topup_pkey PRIMARY KEY (user_id);
CREATE INDEX auto_topup_at_work ON public.auto_topup USING btree (user_id) WHERE (enabled AND (paused_reason IS NULL));
CREATE TRIGGER auto_topup_of_erased BEFORE INSERT ON public.auto_topup FOR EACH ROW EXECUTE FUNCTION refuse_erased('fail');

create table billing_account (
  user_id uuid not null,
  customer_provider text,
  customer_reference text,
  overage_enabled boolean default false not null,
  overage_cap_tokens bigint,
  overage_invoiced_cents bigint default 0 not null
);
alter table billing_account add constraint billing_account_check CHECK (((customer_provider IS NULL) = (customer_reference IS NULL)));
alter table billing_account add constraint billing_account_overage_cap_tokens_check CHECK ((overage_cap_tokens >= 0));
alter table billing_account add constraint billing_account_overage_invoiced_cents_check CHECK ((overage_invoiced_cents >= 0));
alter table billing_account add constraint billing_account_pkey PRIMARY KEY (user_id);

create table bucket (
  user_id uuid not null,
  id uuid not null,
  source text not null,
  original bigint not null,
  remaining bigint not null,
  held bigint default 0 not null,
  clawed_back bigint default 0 not null,
  recalled bigint default 0 not null,
  granted_at timestamp(3) with time zone not null,
  expires_at timestamp(3) with time zone not null,
  note text,
  grant_key text,
  closed_reason text,
  adjusted bigint default 0 not null,
  by_adjustment boolean default false not null
) with (fillfactor=50);
alter table bucket add constraint bucket_check CHECK ((expires_at > granted_at));
alter table bucket add constraint bucket_check1 CHECK (((0 <= held) AND (held <= remaining) AND (remaining <= original)));
alter table bucket add constraint bucket_check2 CHECK (((0 <= recalled) AND (recalled <= held) AND (recalled <= clawed_back) AND (clawed_back <= original)));
alter table bucket add constraint bucket_check3 CHECK (((closed_reason IS NULL) = (remaining > 0)));
alter table bucket add constraint bucket_closed_reason_check CHECK ((closed_reason = ANY (ARRAY['spent'::text, 'expired'::text, 'clawed_back'::text, 'closed'::text])));
alter table bucket add constraint bucket_original_check CHECK ((original > 0));
alter table bucket add constraint bucket_source_check CHECK ((source = ANY (ARRAY['subscription'::text, 'top_up'::text, 'bonus'::text])));
alter table bucket add constraint bucket_user_id_fkey FOREIGN KEY (user_id) REFERENCES account(user_id);
alter table bucket add constraint bucket_pkey PRIMARY KEY (user_id, id);
CREATE UNIQUE INDEX bucket_by_grant_key ON public.bucket USING btree (user_id, grant_key) WHERE (grant_key IS NOT NULL);
CREATE INDEX bucket_due ON public.bucket USING btree (expires_at) WHERE (closed_reason IS NULL);
CREATE INDEX bucket_open ON public.bucket USING btree (user_id, granted_at, id) WHERE (closed_reason IS NULL);

create table crossing (
  user_id uuid not null,
  seq bigint not null,
  kind text not null,
  percent integer not null,
  hold_id uuid,
  detail jsonb not null
);
alter table crossing add constraint crossing_kind_check CHECK ((kind = ANY (ARRAY['balance'::text, 'overage'::text, 'key_budget'::text])));
alter table crossing add constraint crossing_pkey PRIMARY KEY (user_id, seq, kind, percent);

create table delivered_output (
  user_id uuid not null,
  agent_id uuid not null,
  schedule_id uuid not null,
  destination_id uuid not null,
  output_hash text not null
);
alter table delivered_output add constraint delivered_output_pkey PRIMARY KEY (user_id, agent_id, schedule_id, destination_id);
CREATE TRIGGER output_of_erased BEFORE INSERT ON public.delivered_output FOR EACH ROW EXECUTE FUNCTION refuse_erased('drop');

create table delivery (
  user_id uuid not null,
  id uuid not null,
  destination_id uuid not null,
  notice_id uuid,
  endpoint_id uuid,
  run_id uuid,
  address text,
  unless_unchanged boolean default false not null,
  status text default 'pending'::text not null,
  attempts integer default 0 not null,
  queued_at timestamp(3) with time zone default clock_timestamp() not null,
  next_attempt_at timestamp(3) with time zone default clock_timestamp(),
  last_attempt_at timestamp(3) with time zone,
  last_status integer,
  last_error text,
  delivered_at timestamp(3) with time zone
);
alter table delivery add constraint delivery_check CHECK (((run_id IS NULL) = (notice_id IS NOT NULL)));
alter table delivery add constraint delivery_check1 CHECK (((notice_id IS NULL) = (endpoint_id IS NULL)));
alter table delivery add constraint delivery_check2 CHECK (((run_id IS NULL) = (address IS NULL)));
alter table delivery add constraint delivery_check3 CHECK (((next_attempt_at IS NOT NULL) = (status = 'pending'::text)));
alter table delivery add constraint delivery_check4 CHECK (((delivered_at IS NOT NULL) = (status = 'delivered'::text)));
alter table delivery add constraint delivery_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text, 'skipped'::text])));
alter table delivery add constraint delivery_user_id_endpoint_id_fkey FOREIGN KEY (user_id, endpoint_id) REFERENCES webhook_endpoint(user_id, id) ON DELETE CASCADE;
alter table delivery add constraint delivery_user_id_notice_id_fkey FOREIGN KEY (user_id, notice_id) REFERENCES notice(user_id, id) ON DELETE CASCADE;
alter table delivery add constraint delivery_pkey PRIMARY KEY (user_id, id, destination_id);
CREATE INDEX delivery_due ON public.delivery USING btree (destination_id, next_attempt_at) WHERE (status = 'pending'::text);
CREATE INDEX delivery_of_endpoint ON public.delivery USING btree (user_id, endpoint_id) WHERE (endpoint_id IS NOT NULL);
CREATE INDEX delivery_of_notice ON public.delivery USING btree (user_id, notice_id) WHERE (notice_id IS NOT NULL);
CREATE INDEX delivery_of_run ON public.delivery USING btree (user_id, run_id) WHERE (run_id IS NOT NULL);
CREATE TRIGGER delivery_of_erased BEFORE INSERT ON public.delivery FOR EACH ROW EXECUTE FUNCTION refuse_erased('drop');
CREATE TRIGGER delivery_queued AFTER INSERT ON public.delivery FOR EACH STATEMENT EXECUTE FUNCTION tell_delivery_due();

create table end_user_budget (
  user_id uuid not null,
  end_user text not null,
  budget_tokens bigint not null,
  budget_interval text
);
alter table end_user_budget add constraint end_user_budget_budget_interval_check CHECK ((budget_interval = ANY (ARRAY['day'::text, 'week'::text, 'month'::text])));
alter table end_user_budget add constraint end_user_budget_budget_tokens_check CHECK ((budget_tokens >= 0));
alter table end_user_budget add constraint end_user_budget_pkey PRIMARY KEY (user_id, end_user);

create table entry (
  user_id uuid not null,
  seq bigint not null,
  type text not null,
  amount bigint not null,
  balance_after bigint not null,
  bucket_id uuid,
  source text,
  hold_id uuid,
  model text,
  agent_id uuid,
  run_id uuid,
  request_id text,
  api_key_id uuid,
  description text not null,
  created_at timestamp(3) with time zone not null,
  hash bytea not null
);
alter table entry add constraint entry_amount_check CHECK ((amount <> 0));
alter table entry add constraint entry_type_check CHECK ((type = ANY (ARRAY['grant'::text, 'usage'::text, 'expiry'::text, 'refund'::text, 'clawback'::text, 'overage'::text, 'absorbed'::text, 'adjustment'::text])));
alter table entry add constraint entry_pkey PRIMARY KEY (user_id, seq);
CREATE INDEX entry_by_agent ON public.entry USING btree (user_id, agent_id, seq) WHERE (agent_id IS NOT NULL);
CREATE INDEX entry_by_run ON public.entry USING btree (user_id, run_id, seq) WHERE (run_id IS NOT NULL);
CREATE INDEX entry_by_time ON public.entry USING btree (user_id, created_at, seq);
CREATE INDEX entry_by_type ON public.entry USING btree (user_id, type, seq) WHERE (type <> 'usage'::text);
CREATE INDEX entry_written ON public.entry USING brin (created_at) WITH (autosummarize='on');

create table entry_reason (
  user_id uuid not null,
  seq bigint not null,
  reason text not null
);
alter table entry_reason add constraint entry_reason_pkey PRIMARY KEY (user_id, seq);
CREATE TRIGGER reason_of_erased BEFORE INSERT ON public.entry_reason FOR EACH ROW EXECUTE FUNCTION refuse_erased('drop');

create table failed_request (
  user_id uuid not null,
  id uuid not null,
  request_id text not null,
  api text not null,
  api_key_id uuid,
  end_user text,
  model text,
  http_status integer not null,
  error_code text not null,
  error_message text,
  param text,
  duration_ms integer not null,
  created_at timestamp(3) with time zone not null
);
alter table failed_request add constraint failed_request_pkey PRIMARY KEY (user_id, id);
CREATE INDEX failed_request_by_age ON public.failed_request USING btree (created_at);
CREATE INDEX failed_request_by_request ON public.failed_request USING btree (request_id, user_id);
CREATE TRIGGER failed_request_of_erased BEFORE INSERT ON public.failed_request FOR EACH ROW EXECUTE FUNCTION refuse_erased('drop');

create table free_label_day (
  user_id uuid not null,
  day date not null,
  new_values bigint not null,
  bytes bigint not null
);
alter table free_label_day add constraint free_label_day_pkey PRIMARY KEY (user_id);

create table free_run (
  user_id uuid not null,
  run_id uuid not null,
  ended_at timestamp(3) with time zone not null,
  bytes bigint not null
);
alter table free_run add constraint free_run_pkey PRIMARY KEY (user_id, run_id);
CREATE INDEX free_run_by_age ON public.free_run USING btree (ended_at);

create table hold (
  user_id uuid not null,
  id uuid not null,
  api_key_id uuid,
  requested bigint not null,
  held bigint not null,
  slice_buckets uuid[] not null,
  slice_tokens bigint[] not null,
  overage bigint not null,
  expires_at timestamp with time zone not null,
  request_id text not null,
  agent_id uuid,
  run_id uuid,
  estimate jsonb,
  progress jsonb,
  end_user text
);
alter table hold add constraint hold_check CHECK (((held >= 0) AND (held <= requested)));
alter table hold add constraint hold_overage_check CHECK ((overage >= 0));
alter table hold add constraint hold_requested_check CHECK ((requested >= 0));
alter table hold add constraint hold_pkey PRIMARY KEY (user_id, id);
CREATE INDEX hold_by_end_user ON public.hold USING btree (user_id, end_user) WHERE (end_user IS NOT NULL);
CREATE INDEX hold_by_expiry ON public.hold USING btree (expires_at);

create table idempotency_key (
  user_id uuid not null,
  key text not null,
  request_hash bytea not null,
  status integer,
  headers jsonb,
  body bytea,
  created_at timestamp with time zone not null,
  locked_until timestamp with time zone not null,
  cost_nothing boolean default true not null
);
alter table idempotency_key add constraint idempotency_key_pkey PRIMARY KEY (user_id, key);
CREATE INDEX idempotency_about_user ON public.idempotency_key USING btree (((headers ->> 'about-user'::text))) WHERE ((headers ->> 'about-user'::text) IS NOT NULL);
CREATE INDEX idempotency_free ON public.idempotency_key USING btree (user_id) WHERE cost_nothing;
CREATE INDEX idempotency_key_by_age ON public.idempotency_key USING btree (created_at);
CREATE TRIGGER answer_of_erased BEFORE INSERT ON public.idempotency_key FOR EACH ROW EXECUTE FUNCTION refuse_erased('fail');

create table key_spend (
  user_id uuid not null,
  api_key_id uuid not null,
  spent bigint default 0 not null,
  held bigint default 0 not null
) with (fillfactor=50);
alter table key_spend add constraint key_spend_held_check CHECK ((held >= 0));
alter table key_spend add constraint key_spend_spent_check CHECK ((spent >= 0));
alter table key_spend add constraint key_spend_pkey PRIMARY KEY (user_id, api_key_id);

create table limit_window (
  subject text not null,
  slots bigint[] not null,
  amounts bigint[] not null,
  used_at timestamp with time zone not null
) with (fillfactor=50);
alter table limit_window add constraint limit_window_pkey PRIMARY KEY (subject);
CREATE INDEX limit_window_by_use ON public.limit_window USING btree (used_at);

create table mail (
  id uuid not null,
  user_id uuid,
  email text not null,
  sealed bytea not null,
  attempts integer default 0 not null,
  queued_at timestamp(3) with time zone default clock_timestamp() not null,
  next_attempt_at timestamp(3) with time zone default clock_timestamp() not null,
  give_up_at timestamp(3) with time zone not null
);
alter table mail add constraint mail_pkey PRIMARY KEY (id);
CREATE INDEX mail_by_email ON public.mail USING btree (email);
CREATE INDEX mail_due ON public.mail USING btree (next_attempt_at);

create table notice (
  user_id uuid not null,
  id uuid not null,
  event text not null,
  dedupe_key text not null,
  data jsonb not null,
  created_at timestamp(3) with time zone not null
);
alter table notice add constraint notice_pkey PRIMARY KEY (user_id, id);
alter table notice add constraint notice_user_id_event_dedupe_key_key UNIQUE (user_id, event, dedupe_key);
CREATE INDEX notice_by_age ON public.notice USING btree (created_at);
CREATE INDEX notice_by_event ON public.notice USING btree (user_id, event, id);
CREATE TRIGGER notice_of_erased BEFORE INSERT ON public.notice FOR EACH ROW EXECUTE FUNCTION refuse_erased('drop');

create table occurrence (
  user_id uuid not null,
  schedule_id uuid not null,
  at timestamp(3) with time zone not null,
  agent_id uuid not null,
  state text not null,
  reason text,
  run_id uuid,
  recorded_at timestamp(3) with time zone not null
);
alter table occurrence add constraint occurrence_check CHECK (((run_id IS NOT NULL) = (state = 'run'::text)));
alter table occurrence add constraint occurrence_state_check CHECK ((state = ANY (ARRAY['run'::text, 'skipped'::text, 'missed'::text])));
alter table occurrence add constraint occurrence_pkey PRIMARY KEY (user_id, schedule_id, at);
CREATE INDEX occurrence_of_agent ON public.occurrence USING btree (user_id, agent_id, at, schedule_id);
CREATE INDEX occurrence_recorded ON public.occurrence USING btree (recorded_at);

create table operator_act (
  seq bigint not null,
  id uuid not null,
  operator_id uuid,
  operator_name text not null,
  what text not null,
  target_type text not null,
  target_id text,
  user_id uuid,
  before json,
  after json,
  reason text,
  request_id text not null,
  created_at timestamp(3) with time zone not null,
  hash bytea not null
);
alter table operator_act add constraint operator_act_pkey PRIMARY KEY (seq);
alter table operator_act add constraint operator_act_id_key UNIQUE (id);
CREATE INDEX operator_act_of_user ON public.operator_act USING btree (user_id, seq) WHERE (user_id IS NOT NULL);
CREATE TRIGGER acts_kept BEFORE DELETE OR UPDATE OR TRUNCATE ON public.operator_act FOR EACH STATEMENT EXECUTE FUNCTION keep_acts();

create table operator_act_chain (
  is_only boolean default true not null,
  seq bigint not null,
  last_hash bytea not null
);
alter table operator_act_chain add constraint operator_act_chain_is_only_check CHECK (is_only);
alter table operator_act_chain add constraint operator_act_chain_pkey PRIMARY KEY (is_only);

create table operator_act_email (
  seq bigint not null,
  user_id uuid not null,
  salt text not null,
  email_before text,
  email_after text,
  reason text
);
alter table operator_act_email add constraint operator_act_email_seq_fkey FOREIGN KEY (seq) REFERENCES operator_act(seq);
alter table operator_act_email add constraint operator_act_email_pkey PRIMARY KEY (seq);
CREATE INDEX operator_act_email_of_user ON public.operator_act_email USING btree (user_id);

create table operator_key (
  id uuid not null,
  name text not null,
  role text not null,
  key_hash bytea not null,
  previous_key_hash bytea,
  previous_valid_until timestamp(3) with time zone,
  last_four text not null,
  created_at timestamp(3) with time zone not null,
  expires_at timestamp(3) with time zone,
  last_used_at timestamp(3) with time zone,
  revoked_at timestamp(3) with time zone
);
alter table operator_key add constraint operator_key_role_check CHECK ((role = ANY (ARRAY['read'::text, 'support'::text, 'admin'::text])));
alter table operator_key add constraint operator_key_pkey PRIMARY KEY (id);
alter table operator_key add constraint operator_key_key_hash_key UNIQUE (key_hash);
alter table operator_key add constraint operator_key_previous_key_hash_key UNIQUE (previous_key_hash);
CREATE TRIGGER operator_key_changed AFTER DELETE OR UPDATE OF key_hash, previous_valid_until, revoked_at, expires_at, role ON public.operator_key FOR EACH ROW EXECUTE FUNCTION tell_operator_key_changed();

create table password (
  user_id uuid not null,
  hash text not null,
  changed_at timestamp(3) with time zone not null,
  proven_email text
);
alter table password add constraint password_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id);
alter table password add constraint password_pkey PRIMARY KEY (user_id);
CREATE TRIGGER password_of_erased BEFORE INSERT ON public.password FOR EACH ROW EXECUTE FUNCTION refuse_erased('fail');

create table password_reset (
  token_hash bytea not null,
  user_id uuid not null,
  expires_at timestamp(3) with time zone not null
);
alter table password_reset add constraint password_reset_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id);
alter table password_reset add constraint password_reset_pkey PRIMARY KEY (token_hash);
CREATE INDEX password_reset_by_expiry ON public.password_reset USING btree (expires_at);
CREATE INDEX password_reset_by_user ON public.password_reset USING btree (user_id);

create table payment (
  user_id uuid not null,
  id uuid not null,
  purpose text not null,
  status text not null,
  provider text not null,
  reference text,
  amount_cents bigint not null,
  currency text not null,
  tokens bigint not null,
  subscription_id uuid,
  period_start timestamp(3) with time zone,
  plan jsonb,
  checkout_url text,
  bucket_id uuid,
  paid_cents bigint default 0 not null,
  refunded_cents bigint default 0 not null,
  refund_failed_cents bigint default 0 not null,
  clawed_back_tokens bigint default 0 not null,
  send_at timestamp with time zone,
  created_at timestamp(3) with time zone not null,
  mismatch_cents bigint,
  mismatch_currency text,
  automatic boolean default false not null,
  undoes_cancellation boolean default false not null
);
alter table payment add constraint payment_amount_cents_check CHECK ((amount_cents >= 0));
alter table payment add constraint payment_automatic_check CHECK (((NOT automatic) OR (purpose = 'top_up'::text)));
alter table payment add constraint payment_check CHECK (((clawed_back_tokens >= 0) AND (clawed_back_tokens <= tokens)));
alter table payment add constraint payment_check1 CHECK (((purpose = 'top_up'::text) = (subscription_id IS NULL)));
alter table payment add constraint payment_check2 CHECK (((purpose = 'period'::text) = (period_start IS NOT NULL)));
alter table payment add constraint payment_check3 CHECK (((purpose = 'upgrade'::text) = (plan IS NOT NULL)));
alter table payment add constraint payment_check4 CHECK (((status <> 'void'::text) OR (purpose = 'overage'::text)));
alter table payment add constraint payment_mismatch_cents_check CHECK ((mismatch_cents >= 0));
alter table payment add constraint payment_mismatch_check CHECK ((((status = 'mismatch'::text) = (mismatch_cents IS NOT NULL)) AND ((mismatch_cents IS NULL) = (mismatch_currency IS NULL)) AND ((status <> 'mismatch'::text) OR ((bucket_id IS NULL) AND (purpose <> 'overage'::text)))));
alter table payment add constraint payment_paid_cents_check CHECK ((paid_cents >= 0));
alter table payment add constraint payment_provider_check CHECK ((provider = ANY (ARRAY['operator'::text, 'sandbox'::text, 'stripe'::text])));
alter table payment add constraint payment_purpose_check CHECK ((purpose = ANY (ARRAY['top_up'::text, 'period'::text, 'upgrade'::text, 'overage'::text])));
alter table payment add constraint payment_refund_failed_cents_check CHECK ((refund_failed_cents >= 0));
alter table payment add constraint payment_refunded_cents_check CHECK ((refunded_cents >= 0));
alter table payment add constraint payment_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'succeeded'::text, 'failed'::text, 'void'::text, 'mismatch'::text])));
alter table payment add constraint payment_tokens_check CHECK ((tokens >= 0));
alter table payment add constraint payment_undoes_cancellation_check CHECK (((NOT undoes_cancellation) OR (purpose = 'upgrade'::text)));
alter table payment add constraint payment_pkey PRIMARY KEY (user_id, id);
CREATE INDEX payment_automatic ON public.payment USING btree (user_id, created_at) WHERE automatic;
CREATE UNIQUE INDEX payment_automatic_pending ON public.payment USING btree (user_id, provider) WHERE (automatic AND (status = 'pending'::text));
CREATE UNIQUE INDEX payment_by_id ON public.payment USING btree (id);
CREATE UNIQUE INDEX payment_by_reference ON public.payment USING btree (provider, reference) WHERE (reference IS NOT NULL);
CREATE INDEX payment_created ON public.payment USING btree (created_at);
CREATE INDEX payment_invoices ON public.payment USING btree (id) WHERE (purpose = 'overage'::text);
CREATE INDEX payment_mismatched ON public.payment USING btree (id) WHERE (status = 'mismatch'::text);
CREATE UNIQUE INDEX payment_of_period ON public.payment USING btree (user_id, subscription_id, period_start) WHERE (purpose = 'period'::text);
CREATE INDEX payment_of_user ON public.payment USING btree (user_id, purpose, id);
CREATE INDEX payment_to_send ON public.payment USING btree (send_at) WHERE (send_at IS NOT NULL);
CREATE INDEX payment_unpaid ON public.payment USING btree (user_id, created_at) WHERE (status = ANY (ARRAY['pending'::text, 'failed'::text]));

create table payment_dispute (
  provider text not null,
  reference text not null,
  user_id uuid not null,
  payment_id uuid not null,
  disputed_cents bigint not null,
  state text not null
);
alter table payment_dispute add constraint payment_dispute_disputed_cents_check CHECK ((disputed_cents >= 0));
alter table payment_dispute add constraint payment_dispute_state_check CHECK ((state = ANY (ARRAY['open'::text, 'won'::text, 'lost'::text])));
alter table payment_dispute add constraint payment_dispute_pkey PRIMARY KEY (provider, reference);
CREATE INDEX payment_dispute_of_payment ON public.payment_dispute USING btree (user_id, payment_id);

create table payment_event (
  provider text not null,
  event_id text not null,
  kind text not null,
  reference text,
  event jsonb not null,
  outcome text not null,
  received_at timestamp(3) with time zone not null
);
alter table payment_event add constraint payment_event_outcome_check CHECK ((outcome = ANY (ARRAY['applied'::text, 'waiting'::text, 'ignored'::text])));
alter table payment_event add constraint payment_event_pkey PRIMARY KEY (provider, event_id);
CREATE INDEX payment_event_waiting ON public.payment_event USING btree (provider, reference) WHERE (outcome = 'waiting'::text);

create table payment_event_reading (
  provider text not null,
  read_from timestamp(3) with time zone not null,
  read_to timestamp(3) with time zone,
  after_event text,
  retry_from timestamp(3) with time zone,
  failures integer default 0 not null,
  next_read_at timestamp with time zone not null
);
alter table payment_event_reading add constraint payment_event_reading_check CHECK (((read_to IS NOT NULL) OR ((after_event IS NULL) AND (retry_from IS NULL))));
alter table payment_event_reading add constraint payment_event_reading_provider_check CHECK ((provider = ANY (ARRAY['operator'::text, 'sandbox'::text, 'stripe'::text])));
alter table payment_event_reading add constraint payment_event_reading_pkey PRIMARY KEY (provider);

create table response (
  user_id uuid not null,
  id text not null,
  previous_id text,
  body jsonb not null,
  input jsonb not null,
  bytes integer not null,
  created_at timestamp(3) with time zone not null,
  used_at timestamp(3) with time zone not null
);
alter table response add constraint response_bytes_check CHECK ((bytes > 0));
alter table response add constraint response_pkey PRIMARY KEY (user_id, id);
CREATE INDEX response_by_age ON public.response USING btree (used_at);
CREATE INDEX response_of_day ON public.response USING btree (user_id, created_at) INCLUDE (bytes);
CREATE TRIGGER response_of_erased BEFORE INSERT ON public.response FOR EACH ROW EXECUTE FUNCTION refuse_erased('drop');

create table response_item (
  user_id uuid not null,
  id text not null,
  item bytea not null,
  created_at timestamp with time zone not null
);
alter table response_item add constraint response_item_pkey PRIMARY KEY (user_id, id);
CREATE INDEX response_item_by_age ON public.response_item USING btree (created_at);
CREATE TRIGGER item_of_erased BEFORE INSERT ON public.response_item FOR EACH ROW EXECUTE FUNCTION refuse_erased('drop');

create table reversal (
  user_id uuid not null,
  key text not null,
  bucket_id uuid,
  amount bigint not null,
  debt bigint not null,
  reason text not null,
  created_at timestamp(3) with time zone not null
);
alter table reversal add constraint reversal_user_id_bucket_id_fkey FOREIGN KEY (user_id, bucket_id) REFERENCES bucket(user_id, id);
alter table reversal add constraint reversal_pkey PRIMARY KEY (user_id, key);

create table run (
  user_id uuid not null,
  id uuid not null,
  agent_id uuid not null,
  agent_version integer not null,
  trigger text not null,
  status text default 'queued'::text not null,
  phase text generated always as (
CASE status
    WHEN 'queued'::text THEN 'queued'::text
    WHEN 'requires_action'::text THEN 'waiting'::text
    WHEN 'running'::text THEN 'working'::text
    WHEN 'cancelling'::text THEN 'working'::text
    WHEN 'succeeded'::text THEN 'ended'::text
    WHEN 'failed'::text THEN 'ended'::text
    WHEN 'cancelled'::text THEN 'ended'::text
    ELSE NULL::text
END) stored not null,
  schedule_id uuid,
  trigger_id uuid,
  trigger_name text,
  scheduled_for timestamp(3) with time zone,
  queued_at timestamp(3) with time zone not null,
  started_at timestamp(3) with time zone,
  finished_at timestamp(3) with time zone,
  attempt integer default 1 not null,
  model_id text,
  routing jsonb,
  input_tokens bigint default 0 not null,
  output_tokens bigint default 0 not null,
  cost_tokens bigint default 0 not null,
  steps_count integer default 0 not null,
  error jsonb,
  output text,
  output_json jsonb,
  input jsonb,
  metadata jsonb,
  run_prompt text,
  engine_input jsonb not null,
  priority smallint not null,
  cancel_requested_at timestamp(3) with time zone,
  worker_id text,
  lease_until timestamp with time zone,
  epoch integer default 0 not null,
  claimed_at timestamp with time zone,
  worked_ms bigint default 0 not null,
  losses integer default 0 not null,
  started_by_own_node boolean default false not null,
  limited_key uuid,
  key_limit integer,
  failed_steps integer default 0 not null,
  failed_calls integer default 0 not null,
  api_key_id uuid,
  end_user text
) with (fillfactor=70);
alter table run add constraint run_check CHECK (((trigger_id IS NOT NULL) = (trigger = 'webhook'::text)));
alter table run add constraint run_check1 CHECK (((scheduled_for IS NOT NULL) = (trigger = 'schedule'::text)));
alter table run add constraint run_check2 CHECK (((finished_at IS NOT NULL) = (phase = 'ended'::text)));
alter table run add constraint run_check3 CHECK (((phase <> 'working'::text) OR ((worker_id IS NOT NULL) AND (lease_until IS NOT NULL))));
alter table run add constraint run_check4 CHECK (((phase <> 'waiting'::text) OR ((worker_id IS NULL) AND (lease_until IS NULL))));
alter table run add constraint run_error_check CHECK (
CASE
    WHEN (error IS NULL) THEN (status <> 'failed'::text)
    ELSE (status = ANY (ARRAY['failed'::text, 'cancelling'::text, 'cancelled'::text]))
END);
alter table run add constraint run_trigger_check CHECK ((trigger = ANY (ARRAY['schedule'::text, 'manual'::text, 'chat'::text, 'webhook'::text, 'test'::text])));
alter table run add constraint run_pkey PRIMARY KEY (user_id, id);
CREATE INDEX run_by_agent ON public.run USING btree (user_id, agent_id, id);
CREATE INDEX run_cancelling ON public.run USING btree (id) WHERE (status = 'cancelling'::text);
CREATE INDEX run_ended ON public.run USING btree (finished_at, user_id, id) WHERE (finished_at IS NOT NULL);
CREATE INDEX run_ended_agent ON public.run USING btree (user_id, agent_id, queued_at, id) WHERE (finished_at IS NOT NULL);
CREATE INDEX run_ended_api_key ON public.run USING btree (user_id, api_key_id, queued_at, id) WHERE ((finished_at IS NOT NULL) AND (api_key_id IS NOT NULL));
CREATE INDEX run_ended_end_user ON public.run USING btree (user_id, end_user, queued_at, id) WHERE ((finished_at IS NOT NULL) AND (end_user IS NOT NULL));
CREATE INDEX run_ended_of_user ON public.run USING btree (user_id, queued_at, id) WHERE (finished_at IS NOT NULL);
CREATE INDEX run_ended_schedule ON public.run USING btree (user_id, schedule_id, queued_at, id) WHERE ((finished_at IS NOT NULL) AND (schedule_id IS NOT NULL));
CREATE INDEX run_ended_status ON public.run USING btree (user_id, status, queued_at, id) WHERE (finished_at IS NOT NULL);
CREATE INDEX run_ended_trigger ON public.run USING btree (user_id, trigger, queued_at, id) WHERE (finished_at IS NOT NULL);
CREATE INDEX run_ended_with_errors ON public.run USING btree (user_id, queued_at, id) WHERE ((finished_at IS NOT NULL) AND ((status = 'failed'::text) OR (failed_calls > 0)));
CREATE INDEX run_failed ON public.run USING btree (id) WHERE (status = 'failed'::text);
CREATE INDEX run_leased ON public.run USING btree (lease_until) WHERE ((phase <> 'ended'::text) AND (lease_until IS NOT NULL));
CREATE INDEX run_metadata ON public.run USING gin (((((('["'::text || (user_id)::text) || '"]'::text))::jsonb || metadata)) jsonb_path_ops) WITH (gin_pending_list_limit='16384') WHERE ((finished_at IS NOT NULL) AND (metadata IS NOT NULL));
CREATE INDEX run_newest ON public.run USING btree (id);
CREATE INDEX run_of_limited_key ON public.run USING btree (user_id, limited_key) WHERE ((limited_key IS NOT NULL) AND (phase = 'working'::text));
CREATE INDEX run_open ON public.run USING btree (user_id, agent_id) WHERE (phase <> 'ended'::text);
CREATE INDEX run_queue_order ON public.run USING btree (priority, id) WHERE (phase = 'queued'::text);
CREATE INDEX run_queued ON public.run USING btree (user_id, priority, id) WHERE (phase = 'queued'::text);
CREATE INDEX run_unsuccessful ON public.run USING btree (user_id, id) WHERE ((finished_at IS NOT NULL) AND (status <> 'succeeded'::text) AND (trigger <> 'schedule'::text));
CREATE INDEX run_waiting ON public.run USING btree (user_id) WHERE (phase = 'waiting'::text);
CREATE INDEX run_with_errors ON public.run USING btree (id) WHERE ((status = 'failed'::text) OR (failed_calls > 0));
CREATE INDEX run_words ON public.run USING gin (((to_tsvector('simple'::regconfig, translate((((((("left"(COALESCE(output, ''::text), 8000) || ' '::text) || COALESCE((error ->> 'code'::text), ''::text)) || ' '::text) || "left"(COALESCE((error ->> 'message'::text), ''::text), 1000)) || ' '::text) || replace("left"(COALESCE((input)::text, ''::text), 2000), '\n'::text, ' '::text)), '-_/.:@+<>&'::text, '          '::text)) || array_to_tsvector(ARRAY[(user_id)::text])))) WITH (gin_pending_list_limit='16384') WHERE (finished_at IS NOT NULL);
CREATE TRIGGER run_at_work_changed AFTER UPDATE OF status ON public.run FOR EACH ROW WHEN (((old.phase = 'working'::text) <> (new.phase = 'working'::text))) EXECUTE FUNCTION note_run_at_work();
CREATE TRIGGER run_begun AFTER INSERT ON public.run FOR EACH ROW WHEN ((new.phase = 'working'::text)) EXECUTE FUNCTION note_run_at_work();
CREATE TRIGGER run_changed AFTER UPDATE OF status ON public.run FOR EACH ROW WHEN (((new.status <> old.status) AND (new.status <> 'running'::text))) EXECUTE FUNCTION notify_run_changed();
CREATE TRIGGER run_deleted_at_work AFTER DELETE ON public.run FOR EACH ROW WHEN ((old.phase = 'working'::text)) EXECUTE FUNCTION note_run_at_work();
CREATE TRIGGER run_ended_free AFTER UPDATE OF status ON public.run FOR EACH ROW WHEN (((new.finished_at IS NOT NULL) AND (old.finished_at IS NULL) AND (new.cost_tokens = 0))) EXECUTE FUNCTION count_free_run();
CREATE TRIGGER run_ended_unpaid BEFORE UPDATE OF status ON public.run FOR EACH ROW WHEN (((new.status <> 'succeeded'::text) AND (new.finished_at IS NOT NULL) AND (old.finished_at IS NULL) AND (new.cost_tokens = 0) AND (new.trigger <> 'schedule'::text))) EXECUTE FUNCTION forget_unpaid_input();

create table run_action (
  user_id uuid not null,
  run_id uuid not null,
  id uuid not null,
  type text not null,
  turn integer,
  call integer,
  step integer,
  tool text,
  arguments jsonb,
  parameters json,
  destination text,
  budget jsonb,
  reason text not null,
  untrusted_sources jsonb default '[]'::jsonb not null,
  spent_tokens bigint not null,
  requested_at timestamp(3) with time zone not null,
  expires_at timestamp(3) with time zone not null,
  decision text,
  reason_given text,
  arguments_sent jsonb,
  decided_at timestamp(3) with time zone,
  decided_by jsonb
);
alter table run_action add constraint run_action_check CHECK (((decided_at IS NULL) = (decision IS NULL)));
alter table run_action add constraint run_action_check1 CHECK (((budget IS NOT NULL) = (type = 'budget'::text)));
alter table run_action add constraint run_action_check2 CHECK (((type <> 'tool_approval'::text) OR ((turn IS NOT NULL) AND (call IS NOT NULL) AND (tool IS NOT NULL))));
alter table run_action add constraint run_action_check3 CHECK (((arguments_sent IS NOT NULL) = ((type = 'tool_approval'::text) AND (decision IS NOT NULL) AND (decision = ANY (ARRAY['approved'::text, 'edited'::text])))));
alter table run_action add constraint run_action_decision_check CHECK ((decision = ANY (ARRAY['approved'::text, 'edited'::text, 'rejected'::text, 'expired'::text, 'cancelled'::text])));
alter table run_action add constraint run_action_type_check CHECK ((type = ANY (ARRAY['tool_approval'::text, 'budget'::text])));
alter table run_action add constraint run_action_user_id_run_id_fkey FOREIGN KEY (user_id, run_id) REFERENCES run(user_id, id) ON DELETE CASCADE;
alter table run_action add constraint run_action_pkey PRIMARY KEY (user_id, run_id, id);
alter table run_action add constraint run_action_user_id_run_id_turn_call_key UNIQUE (user_id, run_id, turn, call);
CREATE INDEX run_action_budget ON public.run_action USING btree (user_id, run_id, id) WHERE ((type = 'budget'::text) AND (decision IS NULL));
CREATE INDEX run_action_due ON public.run_action USING btree (expires_at) WHERE (decision IS NULL);

create table run_step (
  user_id uuid not null,
  run_id uuid not null,
  index integer not null,
  type text not null,
  name text not null,
  status text not null,
  arguments jsonb,
  result jsonb,
  error jsonb,
  safety jsonb,
  usage jsonb,
  started_at timestamp(3) with time zone not null,
  finished_at timestamp(3) with time zone,
  internal jsonb,
  call integer
);
alter table run_step add constraint run_step_check CHECK (((finished_at IS NULL) = (status = 'running'::text)));
alter table run_step add constraint run_step_status_check CHECK ((status = ANY (ARRAY['running'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text])));
alter table run_step add constraint run_step_type_check CHECK ((type = ANY (ARRAY['model'::text, 'tool'::text])));
alter table run_step add constraint run_step_user_id_run_id_fkey FOREIGN KEY (user_id, run_id) REFERENCES run(user_id, id) ON DELETE CASCADE;
alter table run_step add constraint run_step_pkey PRIMARY KEY (user_id, run_id, index);

create table run_turn (
  only_one boolean default true not null,
  user_id uuid not null
);
alter table run_turn add constraint run_turn_only_one_check CHECK (only_one);
alter table run_turn add constraint run_turn_pkey PRIMARY KEY (only_one);

create table runs_at_work (
  user_id uuid not null,
  runs integer not null
) with (fillfactor=50);
alter table runs_at_work add constraint runs_at_work_pkey PRIMARY KEY (user_id);

create table runs_at_work_change (
  user_id uuid not null,
  change integer not null
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000);

create table schedule (
  user_id uuid not null,
  id uuid not null,
  agent_id uuid not null,
  name text not null,
  spec jsonb not null,
  input jsonb,
  run_prompt text,
  deliveries jsonb,
  enabled boolean not null,
  next_run_at timestamp(3) with time zone,
  paused_reason text,
  resume_above bigint,
  paused_at timestamp(3) with time zone,
  api_key_id uuid,
  consecutive_failures integer default 0 not null,
  created_at timestamp(3) with time zone not null,
  updated_at timestamp(3) with time zone not null
);
alter table schedule add constraint schedule_check CHECK (((resume_above IS NULL) OR (paused_reason IS NOT NULL)));
alter table schedule add constraint schedule_check1 CHECK ((enabled OR ((next_run_at IS NULL) AND (api_key_id IS NULL))));
alter table schedule add constraint schedule_check2 CHECK (((NOT enabled) OR (spec ? 'interval'::text)));
alter table schedule add constraint schedule_check3 CHECK (((paused_at IS NULL) OR (paused_reason IS NOT NULL)));
alter table schedule add constraint schedule_pkey PRIMARY KEY (user_id, id);
alter table schedule add constraint schedule_user_id_agent_id_name_key UNIQUE (user_id, agent_id, name);
CREATE INDEX schedule_due ON public.schedule USING btree (next_run_at) WHERE (next_run_at IS NOT NULL);
CREATE INDEX schedule_failing ON public.schedule USING btree (user_id, agent_id) WHERE (consecutive_failures > 0);
CREATE INDEX schedule_of_key ON public.schedule USING btree (user_id, api_key_id) WHERE (api_key_id IS NOT NULL);
CREATE INDEX schedule_waiting ON public.schedule USING btree (user_id, id) WHERE (resume_above IS NOT NULL);

create table schema_migration (
  name text not null,
  sha256 text not null,
  applied_at timestamp with time zone default now() not null
);
alter table schema_migration add constraint schema_migration_pkey PRIMARY KEY (name);

create table secret (
  user_id uuid not null,
  id uuid not null,
  name text not null,
  description text not null,
  masked_value text not null,
  allowed_hosts text[],
  version integer not null,
  sealed bytea storage e not null,
  created_at timestamp(3) with time zone not null,
  updated_at timestamp(3) with time zone not null,
  last_used_at timestamp(3) with time zone,
  reflected_at timestamp(3) with time zone,
  oauth jsonb,
  refreshing_version integer,
  refreshing_until timestamp(3) with time zone
);
alter table secret add constraint secret_version_check CHECK ((version > 0));
alter table secret add constraint secret_user_id_fkey FOREIGN KEY (user_id) REFERENCES vault_key(user_id);
alter table secret add constraint secret_pkey PRIMARY KEY (user_id, id);
alter table secret add constraint secret_user_id_name_key UNIQUE (user_id, name);

create table secret_use (
  user_id uuid not null,
  secret_id uuid not null,
  id uuid not null,
  secret_version integer not null,
  agent_id uuid,
  run_id uuid,
  tool text not null,
  host text not null,
  outcome text not null,
  used_at timestamp(3) with time zone not null
);
alter table secret_use add constraint secret_use_outcome_check CHECK ((outcome = ANY (ARRAY['opened'::text, 'host_refused'::text, 'reflected'::text, 'unreadable'::text, 'no_token'::text])));
alter table secret_use add constraint secret_use_pkey PRIMARY KEY (user_id, secret_id, id);
CREATE INDEX secret_use_by_age ON public.secret_use USING btree (used_at);

create table sent_mail (
  user_id uuid not null,
  delivery_id uuid not null,
  sent_at timestamp(3) with time zone default clock_timestamp() not null
);
alter table sent_mail add constraint sent_mail_pkey PRIMARY KEY (user_id, delivery_id);
CREATE INDEX sent_mail_by_age ON public.sent_mail USING btree (sent_at);
CREATE TRIGGER mail_of_erased BEFORE INSERT ON public.sent_mail FOR EACH ROW EXECUTE FUNCTION refuse_erased('drop');

create table session (
  token_hash bytea not null,
  user_id uuid not null,
  created_at timestamp(3) with time zone not null,
  expires_at timestamp(3) with time zone not null,
  password_confirmed_at timestamp(3) with time zone
);
alter table session add constraint session_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id);
alter table session add constraint session_pkey PRIMARY KEY (token_hash);
CREATE INDEX session_by_expiry ON public.session USING btree (expires_at);
CREATE INDEX session_by_user ON public.session USING btree (user_id);
CREATE TRIGGER session_ended AFTER DELETE ON public.session FOR EACH ROW EXECUTE FUNCTION tell_session_ended();

create table sign_up (
  token_hash bytea not null,
  email text not null,
  expires_at timestamp(3) with time zone not null
);
alter table sign_up add constraint sign_up_pkey PRIMARY KEY (token_hash);
CREATE INDEX sign_up_by_email ON public.sign_up USING btree (email);
CREATE INDEX sign_up_by_expiry ON public.sign_up USING btree (expires_at);

create table sql_definition (
  name text not null,
  sha256 text not null,
  release text not null,
  applied_at timestamp with time zone default now() not null
);
alter table sql_definition add constraint sql_definition_pkey PRIMARY KEY (name);

create table subscription (
  user_id uuid not null,
  id uuid not null,
  provider text not null,
  reference text,
  checkout_reference text,
  checkout_url text,
  opening_until timestamp with time zone,
  status text not null,
  plan jsonb not null,
  pending_plan jsonb,
  anchor timestamp(3) with time zone,
  periods integer default 0 not null,
  current_period_start timestamp(3) with time zone,
  current_period_end timestamp(3) with time zone,
  cancel_at_period_end boolean default false not null,
  end_at_provider boolean default false not null,
  created_at timestamp(3) with time zone not null
);
alter table subscription add constraint subscription_check CHECK ((current_period_start < current_period_end));
alter table subscription add constraint subscription_check1 CHECK (((status = ANY (ARRAY['incomplete'::text, 'ended'::text])) OR (current_period_start IS NOT NULL)));
alter table subscription add constraint subscription_periods_check CHECK ((periods >= 0));
alter table subscription add constraint subscription_provider_check CHECK ((provider = ANY (ARRAY['operator'::text, 'sandbox'::text, 'stripe'::text])));
alter table subscription add constraint subscription_status_check CHECK ((status = ANY (ARRAY['incomplete'::text, 'active'::text, 'past_due'::text, 'ended'::text])));
alter table subscription add constraint subscription_pkey PRIMARY KEY (user_id, id);
CREATE UNIQUE INDEX subscription_by_id ON public.subscription USING btree (id);
CREATE UNIQUE INDEX subscription_current ON public.subscription USING btree (user_id) WHERE (status <> 'ended'::text);
CREATE INDEX subscription_due ON public.subscription USING btree (current_period_end) WHERE (status = 'active'::text);
CREATE INDEX subscription_to_end ON public.subscription USING btree (id) WHERE end_at_provider;
CREATE TRIGGER limits_of_plan_changed AFTER INSERT OR UPDATE OF plan, status ON public.subscription FOR EACH ROW EXECUTE FUNCTION tell_limits_changed();

create table test_clock (
  id integer default 1 not null,
  now timestamp(3) with time zone not null
);
alter table test_clock add constraint test_clock_id_check CHECK ((id = 1));
alter table test_clock add constraint test_clock_pkey PRIMARY KEY (id);

create table thread (
  user_id uuid not null,
  uid uuid not null,
  agent_id uuid not null,
  id text not null,
  last_turn integer default 0 not null,
  last_run_id uuid,
  created_at timestamp(3) with time zone not null,
  updated_at timestamp(3) with time zone not null,
  title text,
  title_run_id uuid
);
alter table thread add constraint thread_check CHECK (((last_turn = 0) = (last_run_id IS NULL)));
alter table thread add constraint thread_id_check CHECK ((id ~ '^[A-Za-z0-9_.:-]{1,128}$'::text));
alter table thread add constraint thread_pkey PRIMARY KEY (user_id, uid);
alter table thread add constraint thread_user_id_agent_id_id_key UNIQUE (user_id, agent_id, id);
CREATE INDEX thread_empty ON public.thread USING btree (user_id) WHERE (last_turn = 0);
CREATE INDEX thread_of_agent ON public.thread USING btree (user_id, agent_id, uid DESC);
CREATE INDEX thread_words ON public.thread USING gin (((to_tsvector('simple'::regconfig, translate(title, '-_/.:@+<>&'::text, '          '::text)) || array_to_tsvector(ARRAY[(user_id)::text])))) WITH (fastupdate=off);
CREATE TRIGGER thread_of_erased BEFORE INSERT ON public.thread FOR EACH ROW EXECUTE FUNCTION refuse_erased('fail');

create table thread_turn (
  user_id uuid not null,
  thread_uid uuid not null,
  turn integer not null,
  run_id uuid not null,
  turns_left_out integer default 0 not null
);
alter table thread_turn add constraint thread_turn_turn_check CHECK ((turn > 0));
alter table thread_turn add constraint thread_turn_user_id_thread_uid_fkey FOREIGN KEY (user_id, thread_uid) REFERENCES thread(user_id, uid) ON DELETE CASCADE;
alter table thread_turn add constraint thread_turn_pkey PRIMARY KEY (user_id, thread_uid, turn);
alter table thread_turn add constraint thread_turn_user_id_run_id_key UNIQUE (user_id, run_id);

create table trial_mailbox (
  hash bytea not null
);
alter table trial_mailbox add constraint trial_mailbox_pkey PRIMARY KEY (hash);

create table trigger_day (
  user_id uuid not null,
  day date not null,
  deliveries integer not null,
  bytes bigint not null
);
alter table trigger_day add constraint trigger_day_pkey PRIMARY KEY (user_id, day);

create table trigger_delivery (
  user_id uuid not null,
  id uuid not null,
  trigger_id uuid not null,
  delivery_id text,
  key text,
  resent_from uuid,
  received_at timestamp(3) with time zone not null,
  outcome text not null,
  run_id uuid,
  error jsonb,
  content jsonb not null,
  bytes integer not null,
  attempts integer default 1 not null
);
alter table trigger_delivery add constraint trigger_delivery_check CHECK (((run_id IS NOT NULL) = (outcome = 'run'::text)));
alter table trigger_delivery add constraint trigger_delivery_check1 CHECK (((error IS NOT NULL) = (outcome = 'failed'::text)));
alter table trigger_delivery add constraint trigger_delivery_outcome_check CHECK ((outcome = ANY (ARRAY['run'::text, 'filtered'::text, 'failed'::text])));
alter table trigger_delivery add constraint trigger_delivery_user_id_trigger_id_fkey FOREIGN KEY (user_id, trigger_id) REFERENCES agent_trigger(user_id, id) ON DELETE CASCADE;
alter table trigger_delivery add constraint trigger_delivery_pkey PRIMARY KEY (user_id, id);
alter table trigger_delivery add constraint trigger_delivery_trigger_id_key_key UNIQUE (trigger_id, key);
CREATE INDEX trigger_delivery_by_age ON public.trigger_delivery USING btree (received_at);
CREATE INDEX trigger_delivery_of_trigger ON public.trigger_delivery USING btree (user_id, trigger_id, id);

create table upkeep (
  kind text not null,
  ended_at timestamp(3) with time zone not null,
  problem text,
  succeeded_at timestamp(3) with time zone
);
alter table upkeep add constraint upkeep_kind_check CHECK ((kind = ANY (ARRAY['audit'::text, 'backup'::text])));
alter table upkeep add constraint upkeep_pkey PRIMARY KEY (kind);

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
  cache_write_tokens bigint default 0 not null,
  upstream_cost_micro_usd bigint default 0 not null
) with (fillfactor=50);
alter table usage_daily add constraint usage_daily_pkey PRIMARY KEY (user_id, day, model, agent_id, api_key_id);
CREATE INDEX usage_daily_by_key ON public.usage_daily USING btree (user_id, api_key_id, day);
CREATE INDEX usage_daily_written ON public.usage_daily USING brin (day) WITH (autosummarize='on');

create table usage_event (
  user_id uuid not null,
  hold_id uuid not null,
  request_id text not null,
  api_key_id uuid,
  agent_id uuid,
  run_id uuid,
  model text not null,
  input_tokens bigint not null,
  cached_input_tokens bigint not null,
  output_tokens bigint not null,
  input_rate_micro bigint not null,
  cached_input_rate_micro bigint,
  output_rate_micro bigint not null,
  requested bigint,
  held bigint,
  slice_buckets uuid[],
  slice_tokens bigint[],
  cost bigint not null,
  charged bigint not null,
  overage bigint not null,
  absorbed bigint not null,
  entries_after bigint not null,
  entries_to bigint not null,
  created_at timestamp(3) with time zone not null,
  price_version text,
  estimate jsonb,
  from_progress boolean default false not null,
  cache_write_tokens bigint default 0 not null,
  cache_write_1h_tokens bigint default 0 not null,
  cache_write_rate_micro bigint,
  cache_write_1h_rate_micro bigint,
  upstream_cost_micro_usd bigint,
  labels jsonb,
  api text,
  duration_ms integer,
  first_token_ms integer
);
alter table usage_event add constraint usage_event_absorbed_check CHECK ((absorbed >= 0));
alter table usage_event add constraint usage_event_cache_write_1h_rate_micro_check CHECK ((cache_write_1h_rate_micro >= 0));
alter table usage_event add constraint usage_event_cache_write_rate_micro_check CHECK ((cache_write_rate_micro >= 0));
alter table usage_event add constraint usage_event_cache_write_tokens_check CHECK ((cache_write_tokens >= 0));
alter table usage_event add constraint usage_event_cached_input_rate_micro_check CHECK ((cached_input_rate_micro >= 0));
alter table usage_event add constraint usage_event_charged_check CHECK ((charged >= 0));
alter table usage_event add constraint usage_event_check CHECK (((cached_input_tokens >= 0) AND (cached_input_tokens <= input_tokens)));
alter table usage_event add constraint usage_event_check1 CHECK ((cost = ((charged + overage) + absorbed)));
alter table usage_event add constraint usage_event_check2 CHECK (((cache_write_1h_tokens >= 0) AND (cache_write_1h_tokens <= cache_write_tokens)));
alter table usage_event add constraint usage_event_cost_check CHECK ((cost >= 0));
alter table usage_event add constraint usage_event_input_parts_check CHECK (((cached_input_tokens + cache_write_tokens) <= input_tokens));
alter table usage_event add constraint usage_event_input_rate_micro_check CHECK ((input_rate_micro >= 0));
alter table usage_event add constraint usage_event_input_tokens_check CHECK ((input_tokens >= 0));
alter table usage_event add constraint usage_event_output_rate_micro_check CHECK ((output_rate_micro >= 0));
alter table usage_event add constraint usage_event_output_tokens_check CHECK ((output_tokens >= 0));
alter table usage_event add constraint usage_event_overage_check CHECK ((overage >= 0));
alter table usage_event add constraint usage_event_upstream_cost_micro_usd_check CHECK ((upstream_cost_micro_usd >= 0));
alter table usage_event add constraint usage_event_pkey PRIMARY KEY (user_id, hold_id);
CREATE INDEX usage_event_by_request ON public.usage_event USING btree (request_id, user_id);
CREATE INDEX usage_event_by_time ON public.usage_event USING btree (user_id, created_at);
CREATE INDEX usage_event_written ON public.usage_event USING brin (created_at) WITH (autosummarize='on');

create table usage_label_daily (
  user_id uuid not null,
  name text not null,
  value text not null,
  day date not null,
  requests bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cost bigint not null
) with (fillfactor=50);
alter table usage_label_daily add constraint usage_label_daily_pkey PRIMARY KEY (user_id, name, value, day);
CREATE INDEX usage_label_daily_by_day ON public.usage_label_daily USING btree (user_id, name, day);

create table users (
  id uuid not null,
  email text,
  created_at timestamp(3) with time zone not null,
  suspended_at timestamp(3) with time zone,
  erased_at timestamp(3) with time zone,
  limits jsonb,
  operator_role text,
  routing_bucket text
);
alter table users add constraint users_check CHECK (((email IS NULL) = (erased_at IS NOT NULL)));
alter table users add constraint users_operator_role_check CHECK ((operator_role = ANY (ARRAY['read'::text, 'support'::text, 'admin'::text])));
alter table users add constraint users_pkey PRIMARY KEY (id);
alter table users add constraint users_email_key UNIQUE (email);
CREATE TRIGGER limits_of_user_changed AFTER UPDATE OF limits ON public.users FOR EACH ROW EXECUTE FUNCTION tell_limits_changed();
CREATE TRIGGER user_changed AFTER UPDATE OF suspended_at, erased_at ON public.users FOR EACH ROW EXECUTE FUNCTION tell_user_changed();
CREATE TRIGGER user_sessions_changed AFTER UPDATE OF suspended_at, erased_at, operator_role ON public.users FOR EACH ROW EXECUTE FUNCTION tell_sessions_of_user();

create table vault_key (
  user_id uuid not null,
  version integer not null,
  kek_id text not null,
  wrapped bytea,
  manifest bytea
);
alter table vault_key add constraint vault_key_pkey PRIMARY KEY (user_id);
CREATE INDEX vault_key_by_kek ON public.vault_key USING btree (kek_id, user_id) WHERE (wrapped IS NOT NULL);

create table webhook_endpoint (
  user_id uuid not null,
  id uuid not null,
  url text not null,
  events text[] not null,
  secret bytea not null,
  created_at timestamp(3) with time zone not null,
  disabled_at timestamp(3) with time zone,
  former_secrets jsonb default '[]'::jsonb not null
);
alter table webhook_endpoint add constraint webhook_endpoint_events_check CHECK ((cardinality(events) > 0));
alter table webhook_endpoint add constraint webhook_endpoint_pkey PRIMARY KEY (user_id, id);
CREATE TRIGGER endpoint_of_erased BEFORE INSERT ON public.webhook_endpoint FOR EACH ROW EXECUTE FUNCTION refuse_erased('fail');

-- function act_hash(previous bytea, seq bigint, id uuid, operator_id uuid, operator_name text, what text, target_type text, target_id text, user_id uuid, before json, after json, reason text, request_id text, created_at timestamp with time zone) returns bytea
-- function add_step_usage(calls jsonb) returns jsonb
-- function append_act(of_id uuid, of_operator uuid, of_name text, of_what text, of_type text, of_target text, of_user uuid, of_before json, of_after json, of_reason text, of_request text, instant timestamp with time zone) returns bigint
-- function begin_runs(runs jsonb, refusals text[], domain_now timestamp with time zone, claimer text, most integer, total_limit integer, user_limit integer, lease_ms integer, of_plans jsonb) returns json
-- function claim_runs(claimer text, most integer, total_limit integer, user_limit integer, lease_ms integer, domain_now timestamp with time zone, reserved_only boolean, of_plans jsonb) returns SETOF run
-- function count_free_run() returns trigger
-- function count_queued_run_nows(of_user uuid, most integer) returns bigint
-- function count_runs_at_work() returns integer
-- function entry_hash(previous bytea, user_id uuid, seq bigint, type text, amount bigint, balance_after bigint, bucket_id uuid, source text, hold_id uuid, model text, agent_id uuid, run_id uuid, request_id text, api_key_id uuid, description text, created_at timestamp with time zone) returns bytea
-- function expired_leases(before timestamp with time zone) returns TABLE(user_id uuid, id uuid)
-- function finish_steps(steps jsonb) returns jsonb
-- function forget_unpaid_input() returns trigger
-- function has_queued_runs() returns boolean
-- function keep_acts() returns trigger
-- function leave_ends_with_effects(steps jsonb) returns jsonb
-- function ledger_adjust_down(of_user uuid, asked bigint, of_bucket uuid, of_reason text, instant timestamp with time zone) returns bigint
-- function ledger_adjust_up(of_user uuid, bucket_id uuid, amount bigint, of_reason text, instant timestamp with time zone, expires timestamp with time zone) returns void
-- function ledger_agent_use(of_user uuid, of_agent uuid, from_day date, charges usage_event[], holds hold[], ended uuid[], OUT spent bigint, OUT held bigint) returns record
-- function ledger_amend(rest usage_event) returns void
-- function ledger_apply_batch(operations json, user_ids uuid[], instant timestamp with time zone, hold_seconds integer, verdicts jsonb) returns json
-- function ledger_balance_crossings(of_user uuid, seq bigint, of_hold uuid, told integer, reached integer, granted bigint, posted bigint) returns crossing[]
-- function ledger_charge_crossings(of_user uuid, seq bigint, of_kind text, of_hold uuid, before bigint, after bigint, whole bigint, detail jsonb) returns crossing[]
-- function ledger_claw_back(of_user uuid, of_bucket uuid, asked bigint, of_reason text, of_key text, instant timestamp with time zone) returns SETOF reversal
-- function ledger_close_bucket(of_user uuid, of_bucket uuid, of_reason text, instant timestamp with time zone) returns bigint
-- function ledger_crossed(before bigint, after bigint, whole bigint) returns SETOF integer
-- function ledger_end_user_left(of_user uuid, of_end_user text, instant timestamp with time zone, charges usage_event[], holds hold[], ended uuid[]) returns bigint
-- function ledger_expire(of_user uuid, instant timestamp with time zone) returns void
-- function ledger_grant(of_user uuid, bucket_id uuid, of_source text, amount bigint, granted timestamp with time zone, expires timestamp with time zone, of_note text, of_key text) returns uuid
-- function ledger_has_tokens(of_user uuid, instant timestamp with time zone) returns boolean
-- function ledger_is_archived(of_user uuid, of_hold uuid, last_entry bigint) returns boolean
-- function ledger_keep_labels(events usage_event[], instant timestamp with time zone) returns usage_event[]
-- function ledger_keep_reason(of_user uuid, of_reason text) returns void
-- function ledger_key_budget_use(of_user uuid, of_key uuid, budget_interval text, instant timestamp with time zone, OUT spent bigint, OUT held bigint) returns record
-- function ledger_lock(user_ids uuid[], instant timestamp with time zone) returns account[]
-- function ledger_lock_hooks(operations json, user_ids uuid[], hooks jsonb, instant timestamp with time zone) returns jsonb
-- function ledger_note_balance(of_user uuid) returns void
-- function ledger_post(of_user uuid, of_type text, of_amount bigint, of_bucket uuid, posted_change bigint, debt_change bigint, of_description text, instant timestamp with time zone) returns void
-- function ledger_progress(calls json, hold_seconds integer) returns void
-- function ledger_refusal(posted bigint, overage_cap bigint, overage bigint, least_tokens bigint) returns text
-- function ledger_reinstate(of_user uuid, of_bucket uuid, asked bigint, of_reason text, of_key text, instant timestamp with time zone) returns SETOF reversal
-- function ledger_sweep(instant timestamp with time zone, after uuid, most integer) returns TABLE(account_id uuid, failure text)
-- function ledger_thresholds() returns integer[]
-- function ledger_used_percent(granted bigint, posted bigint) returns integer
-- function ledger_write_accounts(accounts account[], owners uuid[], ids uuid[], remaining bigint[], held bigint[], recalled bigint[], endings text[]) returns void
-- function ledger_write_charges(entries entry[], events usage_event[], instant timestamp with time zone) returns void
-- function ledger_write_holds(holds hold[]) returns void
-- function ledger_write_keys(user_ids uuid[], ids uuid[], spent bigint[], held bigint[]) returns void
-- function ledger_write_labels(events usage_event[], instant timestamp with time zone) returns void
-- function limit_take(asks jsonb) returns jsonb
-- function lock_leased_runs(leases jsonb) returns tid[]
-- function note_run_at_work() returns trigger
-- function notify_run_changed() returns trigger
-- function queue_figures(most integer, OUT queued bigint, OUT oldest timestamp with time zone) returns record
-- function refuse_erased() returns trigger
-- function refuse_run_nows(runs jsonb, payers uuid[]) returns text[]
-- function run_actions(of_user uuid, of_run uuid, are_open boolean) returns jsonb
-- function run_deliveries(of_user uuid, of_run uuid) returns jsonb
-- function run_details(of_user uuid, of_run uuid) returns SETOF jsonb
-- function run_user_limit(of_user uuid, most integer, of_plans jsonb) returns integer
-- function runs_past_limited_keys(of_user uuid, claimer text, reserved_only boolean, most integer) returns TABLE(id uuid, priority smallint)
-- function start_steps(steps jsonb) returns jsonb
-- function tell_api_key_changed() returns trigger
-- function tell_delivery_due() returns trigger
-- function tell_limits_changed() returns trigger
-- function tell_operator_key_changed() returns trigger
-- function tell_session_ended() returns trigger
-- function tell_sessions_of_user() returns trigger
-- function tell_user_changed() returns trigger
-- function users_in_turn(after uuid, most integer) returns SETOF uuid
-- function users_to_claim_for(considered integer) returns uuid[]
