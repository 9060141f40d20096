import { type BodyRow, invalid, missing, UNSTORABLE } from "./bad-body.ts";

const text = (length: number) => "x".repeat(length);
const invalid_reason = invalid("reason", 5, text(501), "nul \0");
const LONG_REASON: [string, string][] = [[`reason=${text(501)}`, "reason"]];

/** The rows of the operator's endpoints: each body that must be rejected. */
export const OPERATOR_BODIES: Record<string, BodyRow> = {
  "PATCH /api/v1/admin/users/{id}": {
    valid: { reason: "none" },
    bad: [
      ...invalid("email", 5, "nobody"),
      ...invalid("operator_role", "root", 5),
      [{ limits: { allowed_models: "all" } }, "invalid_value", "limits.allowed_models"],
    ],
  },
  "POST /api/v1/admin/users": {
    valid: { email: "new@example.com" },
    bad: [
      ...missing("email"),
      ...invalid("email", 5, "nobody", `${text(250)}@example.com`),
      ...invalid("trial", "no"),
      ...invalid_reason,
    ],
  },
  "POST /api/v1/admin/users/{id}/export": { valid: {}, bad: invalid_reason },
  "POST /api/v1/admin/reload": { valid: {}, bad: invalid_reason },
  "POST /api/v1/admin/backup": { valid: {}, bad: invalid_reason },
  "POST /api/v1/admin/providers/{name}/test": { valid: {}, bad: [] },
  "POST /api/v1/admin/mail/test": {
    valid: { to: "ops@example.com" },
    bad: [...missing("to"), ...invalid("to", 5, "nobody", `${text(250)}@example.com`)],
  },
  "POST /api/v1/admin/payments/test": { valid: {}, bad: [] },
  "POST /api/v1/admin/users/{id}/suspend": { valid: {}, bad: [] },
  "POST /api/v1/admin/users/{id}/resume": { valid: {}, bad: [] },
  "POST /api/v1/admin/users/{id}/grants": {
    valid: { amount_tokens: 1, source: "bonus" },
    bad: [
      ...missing("amount_tokens", "source"),
      ...invalid("amount_tokens", 0, -1, 1.5, "many", 1e16),
      ...invalid("source", "gift"),
      ...invalid("expires_at", "soon", "2020-01-01T00:00:00Z", ...UNSTORABLE),
      ...invalid("note", 5, text(501), "nul \0"),
    ],
  },
  "POST /api/v1/admin/users/{id}/subscription": {
    valid: { plan_id: "starter" },
    bad: [...missing("plan_id"), ...invalid("plan_id", 5, "none", "nul \0")],
  },
  "PUT /api/v1/admin/invoices/{id}": {
    valid: { status: "paid" },
    bad: [...missing("status"), ...invalid("status", 5, "open", "lost")],
  },
  "PUT /api/v1/admin/clock": {
    valid: { now: "2026-01-01T00:00:00Z" },
    bad: [
      ...missing("now"),
      ...invalid("now", "later", 5, "2025-12-31T23:59:59Z", "2200-01-01T00:00:00Z", ...UNSTORABLE),
      ...invalid_reason,
    ],
  },
  "POST /api/v1/admin/users/{id}/adjustments": {
    valid: { amount_tokens: 1, reason: "a correction" },
    bad: [
      ...missing("amount_tokens", "reason"),
      ...invalid("amount_tokens", 0, 1.5, "many", 1e16, -1e16),
      ...invalid_reason,
      ...invalid("reason", ""),
    ],
  },
  "POST /api/v1/admin/users/{id}/buckets/{bucket_id}/close": {
    valid: { reason: "sold twice" },
    bad: [...missing("reason"), ...invalid_reason, ...invalid("reason", "")],
  },
  "POST /api/v1/admin/purchases/{id}/refund": {
    valid: { reason: "asked for" },
    bad: [...missing("reason"), ...invalid_reason, ...invalid("reason", "")],
  },
  "POST /api/v1/admin/users/{id}/api-keys": {
    valid: { name: "spare" },
    bad: [...missing("name"), ...invalid("name", 5, ""), ...invalid("budget_tokens", -1), ...invalid_reason],
  },
  "POST /api/v1/admin/keys": {
    valid: { name: "desk", role: "read" },
    bad: [
      ...missing("name", "role"),
      ...invalid("name", 5, "", text(101)),
      ...invalid("role", "root", 5),
      ...invalid("expires_at", "soon", ...UNSTORABLE),
      ...invalid_reason,
    ],
  },
  "POST /api/v1/admin/keys/{id}/rotate": {
    valid: { grace_seconds: 0 },
    bad: [...invalid("grace_seconds", -1, 604_801, "long"), ...invalid_reason],
  },
};

/** Query values that must be rejected. */
export const OPERATOR_QUERIES: Record<string, [query: string, param: string][]> = {
  "DELETE /api/v1/admin/keys/{id}": LONG_REASON,
  "DELETE /api/v1/admin/users/{id}": LONG_REASON,
  "DELETE /api/v1/admin/users/{id}/api-keys/{key_id}": LONG_REASON,
  "DELETE /api/v1/admin/users/{id}/subscription": LONG_REASON,
  "GET /api/v1/admin/acts": [
    ["what=theft", "what"],
    ["user_id=5", "user_id"],
    ["from=yesterday", "from"],
    ["format=xml", "format"],
  ],
  "GET /api/v1/admin/runs": [
    ["status=done", "status"],
    ["user_id=5", "user_id"],
    ["to=tomorrow", "to"],
  ],
  "GET /api/v1/admin/run-failures": [
    ["user_id=5", "user_id"],
    ["from=x", "from"],
  ],
  "GET /api/v1/admin/usage": [
    ["days=0", "days"],
    ["group_by=price", "group_by"],
    ["format=xml", "format"],
    ["from=yesterday", "from"],
    ["to=2026-02-30", "to"],
    ["from=2026-02-01&to=2026-02-01", "from"],
  ],
  "GET /api/v1/admin/overview": [["window=1h", "window"]],
  "GET /api/v1/admin/requests": [["request_id=", "request_id"]],
  "GET /api/v1/admin/users/{id}/buckets": [["include=all", "include"]],
  "GET /api/v1/admin/users/{id}/runs": [["trigger=cron", "trigger"]],
  "GET /api/v1/admin/users/{id}/requests": [["status=strange", "status"]],
  "GET /api/v1/admin/users/{id}/transactions": [["type=gift", "type"]],
  "GET /api/v1/admin/users/{id}/usage": [["days=366", "days"]],
  "GET /api/v1/admin/purchases": [["status=lost", "status"]],
  "GET /api/v1/admin/users": [[`search=${"x".repeat(255)}`, "search"]],
  "GET /api/v1/admin/invoices": [["status=lost", "status"]],
};
