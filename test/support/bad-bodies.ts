import { AUTO_TOPUP } from "./bad-auto-topup.ts";
import { type BadBody, type BodyRow, invalid, missing, UNSTORABLE } from "./bad-body.ts";
import { OPERATOR_BODIES, OPERATOR_QUERIES } from "./bad-operator-bodies.ts";

const text = (length: number) => "x".repeat(length);
const message = (fields: object) => ({ messages: [{ role: "user", content: "hi", ...fields }] });
const webFetch = (settings: object) => ({ tools_config: { web_fetch: { enabled: true, ...settings } } });
const due = { schedule_enabled: true, run_prompt: "go", schedule_interval: "daily", schedule_time: "09:00" };
const credentials = { email: "new@example.com", password: "correct horse battery" };
const auth = { secret: "STRIPE", hosts: ["api.stripe.com"], inject: { type: "bearer" } };

const agentFields: BadBody[] = [
  ...invalid("name", 5, "", "   ", text(201), null),
  ...invalid("description", 5, text(2001), "nul \0"),
  ...invalid("system_prompt", ["be kind"]),
  ...invalid("run_prompt", {}),
  ...invalid("model_id", 5, "", text(201)),
  [{ model_id: "none/such" }, "model_not_found", "model_id"],
  ...invalid("auto_route", "yes"),
  ...invalid("is_active", 1),
  ...invalid("schedule_enabled", "true"),
  ...invalid("schedule_interval", "hourly"),
  ...invalid("schedule_time", "9:00", "24:00", "09:60", 900),
  ...invalid("schedule_day_of_week", "Monday", "funday", 1),
  ...invalid("schedule_day_of_month", 0, 32, "first", 1.5),
  ...invalid("schedule_timezone", "Mars/Olympus", "+05:30", "utc ", 5, ""),
  ...invalid("tools_config", [], "web_fetch"),
  ...invalid("input_schema", "string", []),
  ...invalid("output_schema", 5),
  [{ input_schema: {} }, "invalid_value", "input_schema.type"],
  [{ system_prompt: "In {{inputs.city}}" }, "invalid_value", "system_prompt"],
  [{ run_prompt: "On {{Date}}" }, "invalid_value", "run_prompt"],
  ...invalid("limits", 5),
  [{ limits: { steps: 5 } }, "unknown_field", "limits.steps"],
  [{ limits: { max_steps: 0 } }, "invalid_value", "limits.max_steps"],
  [{ limits: { max_run_seconds: 1e9 } }, "invalid_value", "limits.max_run_seconds"],
  [{ limits: { max_cost_tokens_per_run: -1 } }, "invalid_value", "limits.max_cost_tokens_per_run"],
  [{ tools_config: { fly: { enabled: true } } }, "unknown_field", "tools_config.fly"],
  [{ tools_config: { web_fetch: {} } }, "missing_field", "tools_config.web_fetch.enabled"],
  [webFetch({ hots: [] }), "unknown_field", "tools_config.web_fetch.hots"],
  [webFetch({ hosts: ["https://a.example/"] }), "invalid_value", "tools_config.web_fetch.hosts[0]"],
  [webFetch({ max_calls: 0 }), "invalid_value", "tools_config.web_fetch.max_calls"],
  [webFetch({ safety: "none" }), "invalid_value", "tools_config.web_fetch.safety"],
  [webFetch({ auth: [{ ...auth, sekret: "x" }] }), "unknown_field", "tools_config.web_fetch.auth[0].sekret"],
  [webFetch({ auth: [{ ...auth, secret: undefined }] }), "missing_field", "tools_config.web_fetch.auth[0].secret"],
  [
    webFetch({ auth: [{ ...auth, inject: { type: "cookie" } }] }),
    "invalid_value",
    "tools_config.web_fetch.auth[0].inject.type",
  ],
  [{ ...due, run_prompt: null }, "missing_field", "run_prompt"],
  [{ ...due, schedule_interval: null }, "missing_field", "schedule_interval"],
  [{ ...due, schedule_time: null }, "missing_field", "schedule_time"],
  [{ ...due, schedule_interval: "weekly" }, "missing_field", "schedule_day_of_week"],
];

const secretFields: BadBody[] = [
  ...invalid("value", 5, "", null, text(65_537), "half \ud800"),
  ...invalid("description", 5, text(2001), "nul \0", null),
  ...invalid("allowed_hosts", "a.example", {}),
  ...["https://a.example", "a.example/path", "*", "*.*.example", "a b", "", "user@a.example", 5].map(
    (host): BadBody => [{ allowed_hosts: [host] }, "invalid_value", "allowed_hosts[0]"],
  ),
];

/** One row for each endpoint that takes a body, by method and path as the OpenAPI document has them. */
export const BODIES: Record<string, BodyRow> = {
  ...OPERATOR_BODIES,
  "POST /api/v1/chat/completions": {
    open: true,
    valid: { model: "purser/rehearsal", ...message({}) },
    bad: [
      ...missing("model", "messages"),
      ...invalid("model", 5, "", text(201)),
      ...invalid("messages", "hi", []),
      [message({ role: "robot" }), "invalid_value", "messages[0].role"],
      [message({ role: undefined }), "missing_field", "messages[0].role"],
      [message({ content: undefined }), "missing_field", "messages[0].content"],
      [message({ content: 5 }), "invalid_value", "messages[0].content"],
      [message({ content: [{ type: "text" }] }), "missing_field", "messages[0].content[0].text"],
      [message({ content: [{ type: "image_url" }] }), "missing_field", "messages[0].content[0].image_url"],
      [message({ content: [{}] }), "missing_field", "messages[0].content[0].type"],
      [message({ role: "tool" }), "missing_field", "messages[0].tool_call_id"],
      ...["max_tokens", "max_completion_tokens"].flatMap((cap) => invalid(cap, 0, -1, 1.5, "many")),
      ...invalid("temperature", 3, "hot"),
      ...invalid("n", "two"),
      [{ n: 2 }, "unsupported_parameter", "n"],
      ...invalid("stream", "yes"),
      ...invalid("stream_options", "all"),
      ...invalid("tools", {}),
      [{ tools: [{ type: "function" }] }, "missing_field", "tools[0].function"],
      [{ tools: [{ type: "function", function: { name: "a b" } }] }, "invalid_value", "tools[0].function.name"],
      [{ response_format: { type: "xml" } }, "invalid_value", "response_format.type"],
      ...invalid("stop", 5),
    ],
  },
  "POST /api/v1/responses": {
    open: true,
    valid: { model: "purser/rehearsal", input: "hi" },
    bad: [
      ...missing("model", "input"),
      ...invalid("model", 5, "", text(201)),
      ...invalid("input", 5, []),
      [{ previous_response_id: "resp_1" }, "previous_response_not_found", "previous_response_id"],
      ...invalid("conversation", "conv_1"),
      ...invalid("background", true),
      ...invalid("max_output_tokens", 0, 1.5, "many"),
      ...invalid("stream", "yes"),
      ...invalid("tools", {}),
      [{ input: [{ type: "message", role: "robot", content: "hi" }] }, "invalid_value", "input[0].role"],
      [{ input: [{ type: "function_call", call_id: "c", name: "f" }] }, "missing_field", "input[0].arguments"],
      [{ input: [{ type: "compaction" }] }, "invalid_value", "input[0].type"],
      [{ input: [{ type: "item_reference", id: "msg_none" }] }, "invalid_value", "input[0].id"],
      [{ tool_choice: { type: "web_search" } }, "invalid_value", "tool_choice"],
    ],
  },
  "POST /api/v1/responses/input_tokens": {
    open: true,
    valid: { model: "purser/rehearsal", input: "hi" },
    bad: [...missing("model", "input"), ...invalid("model", 5, ""), ...invalid("input", 5)],
  },
  "POST /api/v1/messages": {
    open: true,
    valid: { model: "purser/rehearsal", max_tokens: 100, messages: [{ role: "user", content: "hi" }] },
    bad: [
      ...missing("model", "messages", "max_tokens"),
      ...invalid("messages", "hi", []),
      ...invalid("max_tokens", 0, 1.5, "many"),
      ...invalid("temperature", 2, "hot"),
      [{ messages: [{ role: "robot", content: "hi" }] }, "invalid_value", "messages[0].role"],
      [{ messages: [{ role: "user", content: [{ type: "text" }] }] }, "missing_field", "messages[0].content[0].text"],
      [{ messages: [{ role: "user", content: [{ type: "orb" }] }] }, "invalid_value", "messages[0].content[0].type"],
      [{ tools: [{ name: "f" }] }, "invalid_value", "tools[0].input_schema"],
      ...invalid("stream", "yes"),
    ],
  },
  "POST /api/v1/messages/count_tokens": {
    open: true,
    valid: { model: "purser/rehearsal", messages: [{ role: "user", content: "hi" }] },
    bad: [...missing("model", "messages"), ...invalid("messages", "hi", [])],
  },
  "POST /api/v1/embeddings": {
    open: true,
    valid: { model: "lab/none", input: "hi" },
    bad: [
      ...missing("model", "input"),
      ...invalid("model", 5, "", text(201)),
      ...invalid("input", "", [], {}, 5),
      [{ input: ["hi", ""] }, "invalid_value", "input[1]"],
      [{ input: ["hi", 5] }, "invalid_value", "input[1]"],
      ...invalid("dimensions", 0, 1.5, "many"),
      ...invalid("encoding_format", "hex"),
    ],
  },
  "POST /api/v1/agents": {
    valid: { name: "clerk", model_id: "purser/rehearsal" },
    bad: [...missing("name", "model_id"), ...agentFields],
  },
  "PUT /api/v1/agents/{id}": {
    valid: { description: "new" },
    bad: [...agentFields, [{ model_id: null }, "missing_field", "model_id"]],
  },
  "POST /api/v1/agents/{id}/runs": {
    valid: {},
    bad: [
      ...invalid("run_prompt", 5, "", "  ", text(100_001)),
      ...invalid("input", "Oslo", [], { a: text(65_536) }),
      ...invalid("metadata", [], Object.fromEntries(Array.from({ length: 17 }, (_, nth) => [`k${nth}`, "v"]))),
      [{ metadata: { a: 5 } }, "invalid_value", "metadata.a"],
      [{ metadata: { a: text(513) } }, "invalid_value", "metadata.a"],
      [{ metadata: { [text(65)]: "a" } }, "invalid_value", `metadata.${text(65)}`],
    ],
  },
  "POST /api/v1/agents/{id}/resume": { valid: {}, bad: [] },
  "POST /api/v1/agents/{id}/runs/{run_id}/cancel": { valid: {}, bad: [] },
  "POST /api/v1/agents/{id}/chat": {
    valid: message({}),
    bad: [
      ...missing("messages"),
      ...invalid("messages", [], "hi"),
      [message({ role: "tool" }), "invalid_value", "messages[0].role"],
      [message({ content: undefined }), "missing_field", "messages[0].content"],
      [message({ content: "nul \0" }), "invalid_value", "messages[0].content"],
      [message({ name: "x" }), "unknown_field", "messages[0].name"],
      ...invalid("stream", "yes"),
      ...invalid("thread_id", 5, "", "a b", "a/b", text(129)),
      ...invalid("on_disconnect", "finish", true),
    ],
  },
  "POST /api/v1/agents/{id}/threads": { valid: {}, bad: invalid("id", 5, "", "a b", text(129)) },
  "POST /api/v1/safety/sanitize": {
    valid: { content: "hi", kind: "text" },
    bad: [...missing("content", "kind"), ...invalid("content", 5), ...invalid("kind", "pdf")],
  },
  "POST /api/v1/api-keys": {
    valid: { name: "laptop" },
    bad: [
      ...missing("name"),
      ...invalid("name", 5, "", text(101), "nul \0"),
      ...invalid("scopes", [], "chat:read"),
      [{ scopes: ["everything"] }, "invalid_value", "scopes[0]"],
      ...invalid("expires_at", "tomorrow", 5, "2020-01-01T00:00:00Z", "2026-02-30T00:00:00Z", ...UNSTORABLE),
      ...invalid("budget_tokens", -1, 1.5, "all", 2 ** 53),
      ...invalid("budget_interval", "year", 5, "day"),
      ...invalid("allowed_models", "lab/plain", 5),
      [{ allowed_models: [""] }, "invalid_value", "allowed_models[0]"],
      [{ limits: { requests_per_minute: 0 } }, "invalid_value", "limits.requests_per_minute"],
      [{ limits: { burst: 5 } }, "unknown_field", "limits.burst"],
    ],
  },
  "PATCH /api/v1/api-keys/{id}": {
    valid: { name: "laptop" },
    bad: [
      ...invalid("name", 5, "", text(101), "nul \0", null),
      ...invalid("expires_at", "tomorrow", 5, "2020-01-01T00:00:00Z", "2026-02-30T00:00:00Z", ...UNSTORABLE),
      ...invalid("budget_tokens", -1, 1.5, "all", 2 ** 53),
      ...invalid("budget_interval", "year", 5, "day"),
      ...invalid("allowed_models", "lab/plain", 5),
      [{ allowed_models: [""] }, "invalid_value", "allowed_models[0]"],
      [{ limits: { requests_per_minute: 0 } }, "invalid_value", "limits.requests_per_minute"],
      [{ limits: { burst: 5 } }, "unknown_field", "limits.burst"],
    ],
  },
  "POST /api/v1/api-keys/{id}/rotate": {
    valid: { grace_seconds: 60 },
    bad: invalid("grace_seconds", -1, 604_801, 1.5, "long"),
  },
  "POST /api/v1/api-keys/revoke-leaked": {
    valid: { key: "purser_live_nothing" },
    bad: [...missing("key"), ...invalid("key", 5, "", text(501))],
  },
  "POST /api/v1/auth/sign-up/email": {
    valid: credentials,
    bad: [
      ...missing("email"),
      ...invalid("email", 5, "nobody", "a@b@example.com", `${text(250)}@example.com`),
      ...invalid("password", 5, "too short", text(201), `${text(10)}\0`),
      [{ name: "Ada" }, "unknown_field", "name"],
    ],
  },
  "POST /api/v1/auth/sign-in/email": {
    valid: credentials,
    bad: [
      ...missing("email", "password"),
      ...invalid("email", 5, "nobody"),
      ...invalid("password", 5, "", text(201), "nul \0"),
    ],
  },
  "POST /api/v1/auth/verify-email": {
    valid: { token: "used", password: credentials.password },
    bad: [
      ...missing("token", "password"),
      ...invalid("token", 5, "", "used", "x".repeat(43), text(201)),
      ...invalid("password", 5, "too short", text(201)),
    ],
  },
  "POST /api/v1/auth/request-password-reset": {
    valid: { email: "nobody@example.com" },
    bad: [...missing("email"), ...invalid("email", 5, "nobody", ["a@example.com"])],
  },
  "POST /api/v1/auth/reset-password": {
    valid: { token: "used", new_password: credentials.password },
    bad: [
      ...missing("token", "new_password"),
      ...invalid("token", 5, "", "used"),
      ...invalid("new_password", 5, "too short", text(201)),
    ],
  },
  "POST /api/v1/auth/change-password": {
    valid: { current_password: "x", new_password: credentials.password },
    bad: [
      ...missing("current_password", "new_password"),
      ...invalid("current_password", 5, "", text(201)),
      ...invalid("new_password", 5, "too short", text(201)),
    ],
  },
  "POST /api/v1/auth/delete-account": {
    valid: { current_password: "x" },
    bad: [...missing("current_password"), ...invalid("current_password", 5, "", text(201))],
  },
  "POST /api/v1/auth/sign-out": { valid: {}, bad: [] },
  "POST /api/v1/auth/sign-out-everywhere": { valid: {}, bad: [] },
  "POST /api/v1/secrets": {
    valid: { name: "STRIPE", value: "sk_test_abcdefghijklmnop" },
    bad: [
      ...missing("name", "value"),
      ...invalid("name", 5, "", " ", text(65), "two\nlines", "nul \0", "half \ud800"),
      ...secretFields,
    ],
  },
  "PATCH /api/v1/secrets/{id}": {
    valid: { description: "new" },
    bad: [...secretFields, [{ name: "RENAMED" }, "invalid_value", "name"]],
  },
  "POST /api/v1/billing/subscription": {
    valid: { plan_id: "starter" },
    bad: [...missing("plan_id"), ...invalid("plan_id", 5, "none", "nul \0"), ...invalid("success_url", 5, "/back")],
  },
  "POST /api/v1/billing/purchase": {
    valid: { amount_cents: 100 },
    bad: [
      ...missing("amount_cents"),
      ...invalid("amount_cents", 99, -1, 100.5, "100", null, 1e12, 2 ** 53),
      ...invalid("tokens", 625_000),
      ...invalid("success_url", 5, "javascript:alert(1)", `https://a.example/${text(2000)}`),
      ...invalid("cancel_url", "back"),
    ],
  },
  "POST /api/v1/billing/overage/enable": { valid: {}, bad: [] },
  "POST /api/v1/billing/overage/disable": { valid: {}, bad: [] },
  "PUT /api/v1/end-user-budgets/{user}": {
    valid: { budget_tokens: 5 },
    bad: [...missing("budget_tokens"), ...invalid("budget_tokens", -1, "all"), ...invalid("budget_interval", "year")],
  },
  "PUT /api/v1/billing/auto-topup": AUTO_TOPUP,
  "PUT /api/v1/billing/overage": {
    valid: { cap_tokens: 1000 },
    bad: [...missing("cap_tokens"), ...invalid("cap_tokens", -1, 1.5, "all", 624_999_993_751)],
  },
  "POST /api/v1/webhook-endpoints": {
    valid: { url: "https://hooks.example.com/purser", events: ["run.failed"] },
    bad: [
      ...missing("url", "events"),
      ...invalid(
        "url",
        5,
        "",
        "hooks",
        "ftp://hooks.example.com",
        "http://127.0.0.1/",
        `https://a.example/${text(2048)}`,
      ),
      ...invalid("events", [], "run.failed"),
      [{ events: ["run.exploded"] }, "invalid_value", "events[0]"],
    ],
  },
};

/** Query values that must be rejected, for endpoints with more than `limit` and `cursor`. */
export const QUERIES: Record<string, [query: string, param: string][]> = {
  ...OPERATOR_QUERIES,
  "GET /api/v1/users/me/usage": [
    ["days=0", "days"],
    ["days=366", "days"],
    ["days=1.5", "days"],
    ["days=week", "days"],
    ["format=xml", "format"],
    ["group_by=price", "group_by"],
  ],
  "GET /api/v1/users/me/buckets": [["include=all", "include"]],
  "GET /api/v1/responses/{response_id}/input_items": [
    ["limit=0", "limit"],
    ["limit=101", "limit"],
    ["order=newest", "order"],
  ],
  "GET /api/v1/agents": [
    ["sort=name", "sort"],
    [`name=${"x".repeat(201)}`, "name"],
  ],
  "GET /api/v1/users/me/transactions": [
    ["from=2026-02-30", "from"],
    ["from=0001-01-01", "from"],
    ["type=gift", "type"],
    ["format=xml", "format"],
    ["run_id=5", "run_id"],
    ["agent_id=x", "agent_id"],
    ["from=yesterday", "from"],
    ["to=2026-02-30T00:00:00Z", "to"],
    ...UNSTORABLE.map((instant): [string, string] => [`from=${instant}`, "from"]),
  ],
  "GET /api/v1/runs": [
    ["status=done", "status"],
    ["trigger=cron", "trigger"],
    ["agent_id=5", "agent_id"],
    ["api_key_id=mine", "api_key_id"],
    ["metadata=batch", "metadata"],
    [`metadata[batch]=${"x".repeat(513)}`, "metadata.batch"],
    ["q=", "q"],
    ["q=%20-", "q"],
    ["from=yesterday", "from"],
    ["format=xml", "format"],
  ],
  "GET /api/v1/billing/invoices": [["status=lost", "status"]],
  "GET /api/v1/notices": [["event=run.exploded", "event"]],
  "GET /api/v1/agents/{id}/runs": [
    ["status=done", "status"],
    ["trigger=cron", "trigger"],
    ["from=yesterday", "from"],
    ...UNSTORABLE.map((instant): [string, string] => [`to=${instant}`, "to"]),
  ],
};
