import type { Sql } from "../../platform/db/db.ts";

/** One JSON Lines file of an export: the statement takes the user, the key of the last row, and the page's size. */
interface ExportFile {
  name: string;
  page: number;
  text: string;
}

/** Rows of small tables, and of tables with whole conversations. */
const MANY = 500;
const FEW = 20;

const byId = (name: string, columns: string, { page = MANY, table = name, owner = "user_id" } = {}): ExportFile => ({
  name,
  page,
  text: `select id::text as export_key, ${columns} from ${table}
    where ${owner} = $1 and ($2::text is null or id > $2::uuid) order by id limit $3`,
});

/** The one row of a user, from these tables. */
const single = (name: string, columns: string, from: string): ExportFile => ({
  name,
  page: MANY,
  text: `select user_id::text as export_key, ${columns} from ${from}
    where user_id = $1 and ($2::text is null or user_id > $2::uuid) limit $3`,
});

/** All that is kept of a user, without secret values, hashes of keys, and what providers need to go on. */
const FILES: readonly ExportFile[] = [
  byId("profile", "id, email, created_at, suspended_at, limits, operator_role", { table: "users", owner: "id" }),
  single(
    "account",
    "posted, held, overage, overage_held, debt, trial_ends_at, paid_since, opened_at, overage_enabled, overage_cap_tokens",
    "account left join billing_account using (user_id)",
  ),
  byId(
    "api_keys",
    `id, name, prefix, last_four, scopes, budget_tokens, budget_interval, allowed_models, limits, created_at, expires_at,
      last_used_at, revoked_at`,
    { table: "api_key" },
  ),
  byId(
    "agents",
    `id, version, name, description, system_prompt, run_prompt, model_id, auto_route, is_active, tools_config,
      input_schema, output_schema, limits, model_settings, client_tools, deliveries, approval_hours, on_budget, created_at, updated_at, deleted_at`,
    { table: "agent" },
  ),
  {
    name: "agent_versions",
    page: MANY,
    text: `select agent_id || ':' || version as export_key, agent_id, version, config, created_at from agent_version
      where user_id = $1 and ($2::text is null
        or (agent_id, version) > (split_part($2, ':', 1)::uuid, split_part($2, ':', 2)::integer))
      order by agent_id, version limit $3`,
  },
  byId(
    "schedules",
    `id, agent_id, name, spec, input, run_prompt, deliveries, enabled, next_run_at, paused_reason, paused_at, api_key_id,
      consecutive_failures, created_at, updated_at`,
    { table: "schedule" },
  ),
  {
    name: "occurrences",
    page: MANY,
    text: `select schedule_id || to_char(at at time zone 'UTC', ' YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as export_key, schedule_id,
        agent_id, at, state, reason, run_id, recorded_at
      from occurrence where user_id = $1 and ($2::text is null
        or (schedule_id, at) > (split_part($2, ' ', 1)::uuid, split_part($2, ' ', 2)::timestamptz))
      order by schedule_id, at limit $3`,
  },
  byId(
    "triggers_without_secrets",
    `id, agent_id, name, verify, filter, input_map, run_prompt, enabled, api_key_id, rejected_count, last_rejected_at,
      last_rejected_reason, created_at, updated_at`,
    { table: "agent_trigger" },
  ),
  byId(
    "trigger_deliveries",
    `id, trigger_id, delivery_id, resent_from, received_at, outcome, run_id, error, content, bytes, attempts`,
    { table: "trigger_delivery", page: FEW },
  ),
  byId(
    "runs",
    `id, agent_id, agent_version, trigger, status, schedule_id, trigger_id, trigger_name, scheduled_for, queued_at, started_at,
      finished_at, model_id, routing,
      input_tokens, output_tokens, cost_tokens, steps_count, failed_steps, failed_calls, api_key_id, end_user, error, metadata, input, run_prompt,
      output, output_json,
      engine_input -> 'messages' as messages, engine_input -> 'draft' as draft`,
    { table: "run", page: FEW },
  ),
  {
    name: "run_steps",
    page: FEW,
    text: `select run_id || ':' || index as export_key, run_id, index, type, name, status, arguments, result, error, safety,
        usage, started_at, finished_at
      from run_step where user_id = $1 and ($2::text is null
        or (run_id, index) > (split_part($2, ':', 1)::uuid, split_part($2, ':', 2)::integer))
      order by run_id, index limit $3`,
  },
  {
    name: "run_actions",
    page: MANY,
    text: `select run_id || ':' || id as export_key, run_id, id, type, step, tool, arguments, destination, budget, reason,
        untrusted_sources, spent_tokens, requested_at, expires_at, decision, reason_given, arguments_sent, decided_at, decided_by
      from run_action where user_id = $1 and ($2::text is null
        or (run_id, id) > (split_part($2, ':', 1)::uuid, split_part($2, ':', 2)::uuid))
      order by run_id, id limit $3`,
  },
  {
    name: "responses",
    page: FEW,
    text: `select id as export_key, id, previous_id, input, body, created_at, used_at from response
      where user_id = $1 and ($2::text is null or id > $2) order by id limit $3`,
  },
  {
    name: "threads",
    page: MANY,
    text: `select uid::text as export_key, id, agent_id, title, created_at, updated_at from thread
      where user_id = $1 and ($2::text is null or uid > $2::uuid) order by uid limit $3`,
  },
  {
    name: "thread_turns",
    page: MANY,
    text: `select thread_uid || ':' || turn as export_key, thread.agent_id, thread.id as thread_id, turn, run_id
      from thread_turn join thread on thread.user_id = thread_turn.user_id and uid = thread_uid
      where thread_turn.user_id = $1 and ($2::text is null
        or (thread_uid, turn) > (split_part($2, ':', 1)::uuid, split_part($2, ':', 2)::integer))
      order by thread_uid, turn limit $3`,
  },
  byId(
    "secrets_without_values",
    `id, name, case when oauth is null then 'value' else 'oauth' end as type, description, allowed_hosts, created_at,
      updated_at, last_used_at, oauth ->> 'server' as server, oauth ->> 'grant' as "grant", oauth ->> 'issuer' as issuer,
      oauth ->> 'scope' as scope, oauth ->> 'status' as status`,
    { table: "secret" },
  ),
  {
    name: "secret_uses",
    page: MANY,
    text: `select secret_id || ':' || id as export_key, id, secret_id, secret_version, agent_id, run_id, tool, host, outcome,
        used_at
      from secret_use where user_id = $1 and ($2::text is null
        or (secret_id, id) > (split_part($2, ':', 1)::uuid, split_part($2, ':', 2)::uuid))
      order by secret_id, id limit $3`,
  },
  byId(
    "payments",
    `id, purpose, automatic, status, provider, reference, amount_cents, currency, tokens, bucket_id, paid_cents,
      refunded_cents, created_at`,
    { table: "payment" },
  ),
  {
    name: "disputes",
    page: MANY,
    text: `select provider || ':' || reference as export_key, provider, reference, payment_id, disputed_cents, state
      from payment_dispute where user_id = $1 and ($2::text is null
        or (provider, reference) > (split_part($2, ':', 1), substr($2, strpos($2, ':') + 1)))
      order by provider, reference limit $3`,
  },
  byId(
    "subscriptions",
    "id, provider, status, plan, pending_plan, current_period_start, current_period_end, cancel_at_period_end, created_at",
    { table: "subscription" },
  ),
  single(
    "auto_topup",
    "enabled, threshold_tokens, amount_cents, monthly_cap_cents, paused_reason, paused_at",
    "auto_topup",
  ),
  byId("buckets", "id, source, original, remaining, held, granted_at, expires_at, note, closed_reason", {
    table: "bucket",
  }),
  {
    // Tokens that refunds and disputes took back or returned.
    name: "reversals",
    page: MANY,
    text: `select key as export_key, bucket_id, amount, debt, reason, created_at from reversal
      where user_id = $1 and ($2::text is null or key > $2) order by key limit $3`,
  },
  byId("webhook_endpoints", "id, url, events, created_at, disabled_at", { table: "webhook_endpoint" }),
  byId("notices", "id, event, data, created_at", { table: "notice" }),
  {
    name: "deliveries",
    page: MANY,
    text: `select id || ':' || destination_id as export_key, id, notice_id, endpoint_id, run_id, address, unless_unchanged,
        status, attempts, queued_at, last_attempt_at, last_status, last_error, delivered_at
      from delivery where user_id = $1 and ($2::text is null
        or (id, destination_id) > (split_part($2, ':', 1)::uuid, split_part($2, ':', 2)::uuid))
      order by id, destination_id limit $3`,
  },
  {
    name: "usage_events",
    page: MANY,
    text: `select hold_id::text as export_key, hold_id, request_id, api_key_id, agent_id, run_id, model, input_tokens,
        cached_input_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens, cost, charged, overage, absorbed,
        labels, api, duration_ms, first_token_ms, created_at
      from usage_event where user_id = $1 and ($2::text is null or hold_id > $2::uuid) order by hold_id limit $3`,
  },
  byId(
    "failed_requests",
    `id, request_id, api, api_key_id, end_user, model, http_status, error_code, error_message, param, duration_ms,
      created_at`,
    { table: "failed_request" },
  ),
  {
    name: "usage_by_label",
    page: MANY,
    text: `select jsonb_build_array(name, value, day)::text as export_key, name, value, day::text as day, requests,
        input_tokens, output_tokens, cost
      from usage_label_daily where user_id = $1 and ($2::text is null
        or (name, value, day) > ($2::jsonb ->> 0, $2::jsonb ->> 1, ($2::jsonb ->> 2)::date))
      order by name, value, day limit $3`,
  },
  {
    // Entries and usage events of before this instant are in files of the operator.
    name: "archived",
    page: MANY,
    text: `select s.user_id::text as export_key, max(m.before) as archived_before, max(s.seq) as archived_entries
      from archived_account s join archive_month m on m.before <= s.before
      where s.user_id = $1 and m.phase <> 'planned' and ($2::text is null or s.user_id > $2::uuid)
      group by s.user_id limit $3`,
  },
  {
    name: "end_user_budgets",
    page: MANY,
    text: `select end_user as export_key, end_user as "user", budget_tokens, budget_interval from end_user_budget
      where user_id = $1 and ($2::text is null or end_user > $2) order by end_user limit $3`,
  },
];

/** The files of a user's export, each in parts of JSON Lines; only one page of rows is in memory. */
export function* exportFiles(sql: Sql, user_id: string): Generator<{ name: string; parts: AsyncIterable<string> }> {
  for (const file of FILES) yield { name: `${file.name}.jsonl`, parts: linesOf(sql, user_id, file) };
}

async function* linesOf(sql: Sql, user_id: string, { text, page }: ExportFile): AsyncGenerator<string> {
  let after: string | null = null;
  for (;;) {
    const rows: { export_key: string }[] = await sql.query<{ export_key: string }>({
      text,
      values: [user_id, after, page],
    });
    if (rows.length > 0) yield rows.map(({ export_key: _, ...row }) => `${JSON.stringify(row)}\n`).join("");
    if (rows.length < page) return;
    after = rows.at(-1)?.export_key ?? null;
  }
}
