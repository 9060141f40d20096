import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createUserExport } from "../../src/operator/export/user-export.service.ts";
import { exportFiles } from "../../src/operator/export/user-export.store.ts";
import type { Sql } from "../../src/platform/db/db.ts";
import { createSystemClock } from "../../src/platform/lib/clock.ts";
import { createLedgerFixture } from "../properties/ledger-fixture.ts";
import { ask, type Lab, startLab } from "../support/lab.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { completion } from "../support/upstream.ts";

// contract 3.9: a user's data, for the user and the operator.

let lab: Lab;
const folder = mkdtempSync(join(tmpdir(), "purser-export-"));
beforeAll(async () => {
  lab = await startLab();
  lab.upstream.answer(completion());
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await lab.stop();
});

const download = (path: string, key: string) =>
  fetch(`${lab.service.url}${path}`, { method: "POST", headers: { Authorization: `Bearer ${key}` } });
async function filesIn(answer: Response): Promise<{ names: string[]; text(name: string): string; all: string }> {
  const file = join(folder, "export.zip");
  writeFileSync(file, Buffer.from(await answer.arrayBuffer()));
  const read =
    "import zipfile,json,sys\nz=zipfile.ZipFile(sys.argv[1])\nprint(json.dumps({n:z.read(n).decode() for n in z.namelist()}))";
  const files: Record<string, string> = JSON.parse(
    execFileSync("python3", ["-c", read, file], { maxBuffer: 64 * 2 ** 20 }).toString(),
  );
  const names = Object.keys(files);
  const text = (name: string) => files[name] ?? "";
  return { names, text, all: names.map(text).join("\n") };
}

it("is a valid ZIP with the user's own rows, and without any secret value or key", async () => {
  const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const other = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  await user.post("/api/v1/secrets", { name: "github", value: "hunter2-very-secret" });
  await user.post("/api/v1/agents", { name: "Scout", model_id: "lab/plain", run_prompt: "Go." });
  await user.post("/api/v1/chat/completions", ask("lab/plain", { user: "ada" }));
  await user.post("/api/v1/responses", { model: "lab/plain", input: "my plan" });
  await other.post("/api/v1/agents", { name: "Stranger", model_id: "lab/plain", run_prompt: "Go." });
  const { id: secret_id } = (await user.get("/api/v1/secrets")).body.secrets[0];
  const db = await lab.service.database.open();
  const use =
    "insert into secret_use values ($1, $2, $3, 1, null, null, 'web_fetch', 'api.github.com', 'opened', now())";
  await db.query({ text: use, values: [user.user_id, secret_id, crypto.randomUUID()] });
  await db.close();
  const answer = await download("/api/v1/users/me/export", user.key);
  expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "application/zip"]);
  const { names, text, all } = await filesIn(answer);
  expect(names).toEqual(expect.arrayContaining(["profile.jsonl", "runs.jsonl", "transactions.csv", "usage.csv"]));
  expect(JSON.parse(text("agents.jsonl"))).toMatchObject({ name: "Scout" });
  expect(JSON.parse(text("agent_versions.jsonl"))).toMatchObject({ version: 1, config: { model_id: "lab/plain" } });
  expect(JSON.parse(text("secret_uses.jsonl"))).toMatchObject({ secret_id, host: "api.github.com", outcome: "opened" });
  expect(JSON.parse(text("responses.jsonl"))).toMatchObject({ input: [{ content: "my plan" }], body: { store: true } });
  expect(text("usage_events.jsonl")).toMatch(/"lab\/plain".*"ada"/);
  expect(JSON.parse(text("secrets_without_values.jsonl"))).toMatchObject({ name: "github" });
  expect(text("transactions.csv").trim().split("\n")).toHaveLength(4);
  for (const absent of ["hunter2", user.key, "Stranger", "sealed", "key_hash"]) expect(all).not.toContain(absent);
});

/** The tables with a column `user_id` whose rows are in the export, and their files. */
const EXPORTED: Record<string, string> = {
  account: "account.jsonl",
  agent: "agents.jsonl",
  agent_trigger: "triggers_without_secrets.jsonl",
  agent_version: "agent_versions.jsonl",
  api_key: "api_keys.jsonl",
  archived_account: "archived.jsonl",
  auto_topup: "auto_topup.jsonl",
  billing_account: "account.jsonl",
  bucket: "buckets.jsonl",
  delivery: "deliveries.jsonl",
  end_user_budget: "end_user_budgets.jsonl",
  entry: "transactions.csv",
  failed_request: "failed_requests.jsonl",
  notice: "notices.jsonl",
  occurrence: "occurrences.jsonl",
  payment: "payments.jsonl",
  payment_dispute: "disputes.jsonl",
  response: "responses.jsonl",
  reversal: "reversals.jsonl",
  run: "runs.jsonl",
  run_step: "run_steps.jsonl",
  run_action: "run_actions.jsonl",
  schedule: "schedules.jsonl",
  secret: "secrets_without_values.jsonl",
  secret_use: "secret_uses.jsonl",
  subscription: "subscriptions.jsonl",
  thread: "threads.jsonl",
  thread_turn: "thread_turns.jsonl",
  trigger_delivery: "trigger_deliveries.jsonl",
  usage_daily: "usage.csv",
  usage_event: "usage_events.jsonl",
  usage_label_daily: "usage_by_label.jsonl",
  webhook_endpoint: "webhook_endpoints.jsonl",
};
/** The others, each with the reason why its rows are not in the export. */
const LEFT_OUT: Record<string, string> = {
  agent_webhook_key: "a key",
  archived_entry_daily: "sums of entries in the operator's archive, for the audit",
  archived_label_daily: "the archived part of usage_by_label, for the audit",
  archived_usage_daily: "the archived part of usage.csv, for the audit",
  crossing: "a threshold alert until the next sweep makes it a notice",
  delivered_output: "hashes of outputs, to find unchanged ones",
  free_label_day: "counts of a day, for a limit",
  free_run: "sizes of a day's runs, for a limit",
  hold: "an open call: it becomes a usage event",
  idempotency_key: "a copy of an answer for a day, sealed; it may show a new key",
  key_spend: "sums of usage.csv by key",
  operator_act: "the operator's own log",
  operator_act_email: "the operator's own log",
  entry_reason: "in transactions.csv, beside their entries",
  password: "a hash of the password",
  mail: "a mail that waits for the mail server, and its link is for the mailbox only",
  password_reset: "a hash of a mailed link",
  response_item: "a copy of an answer for a day, sealed",
  run_turn: "the queue's cursor",
  runs_at_work: "the queue's counter",
  runs_at_work_change: "the queue's counter",
  sent_mail: "counts of a day, for a limit",
  session: "a hash of the session's token",
  trigger_day: "counts of a day, for a limit",
  vault_key: "a key",
};

it("has each table with users' rows, except those that are omitted for a reason", async () => {
  const user = await lab.service.newUser();
  const { names } = await filesIn(await download("/api/v1/users/me/export", user.key));
  expect(names).toEqual(expect.arrayContaining(Object.values(EXPORTED)));
  const db = await lab.service.database.open();
  const found = await db.query<{ name: string }>({
    text: `select table_name as name from information_schema.columns
      where table_schema = 'public' and column_name = 'user_id' order by table_name`,
  });
  await db.close();
  expect(found.map(({ name }) => name)).toEqual([...Object.keys(EXPORTED), ...Object.keys(LEFT_OUT)].sort());
});

it("has every field of an agent, and every count of tokens of a charge", async () => {
  const statements = new Map<string, string>();
  let text = "";
  const query = async (statement: { text: string }) => {
    text = statement.text;
    return [];
  };
  for (const { name, parts } of exportFiles({ query } as unknown as Sql, "")) {
    for await (const _ of parts);
    statements.set(name, text);
  }
  const db = await lab.service.database.open();
  const columns = await db.query<{ table: string; column: string }>({
    text: `select table_name as table, column_name as column from information_schema.columns
      where table_schema = 'public' and (table_name = 'agent'
        or (table_name = 'usage_event' and column_name like '%tokens' and column_name <> 'slice_tokens'))`,
  });
  await db.close();
  const missing = columns.filter(
    ({ table, column }) => !new RegExp(`\\b${column}\\b`).test(statements.get(EXPORTED[table] ?? "") ?? ""),
  );
  expect(missing).toEqual([]);
});

it("has schedules, turns, oauth servers, overage and usage from more than a year ago, without any credential", async () => {
  const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const daily = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "08:30" };
  const scout = { name: "Scout", model_id: "lab/plain", run_prompt: "Go.", ...daily };
  const { id: agent_id } = (await user.post("/api/v1/agents", scout)).body;
  const turn = { thread_id: "plans", messages: [{ role: "user", content: "Hello" }] };
  const { run_id } = (await user.post(`/api/v1/agents/${agent_id}/chat`, turn)).body;
  const server = "https://berths.example.com/mcp";
  const oauth = { server, grant: "client_credentials", client_id: "robot", client_secret: "hunter3-client-secret" };
  expect((await user.post("/api/v1/secrets", { name: "BERTHS", type: "oauth", oauth })).status).toBe(201);
  const db = await lab.service.database.open();
  for (const text of [
    "insert into billing_account (user_id, customer_provider, customer_reference, overage_enabled, overage_cap_tokens) values ($1, 'stripe', 'cus_hidden', true, 70000)",
    "update usage_daily set day = day - 400 where user_id = $1",
  ]) {
    await db.query({ text, values: [user.user_id] });
  }
  await db.close();
  const { text, all } = await filesIn(await download("/api/v1/users/me/export", user.key));
  expect(JSON.parse(text("schedules.jsonl"))).toMatchObject({
    agent_id,
    name: "default",
    spec: { interval: "daily", times: ["08:30"] },
  });
  expect(JSON.parse(text("thread_turns.jsonl"))).toEqual({ agent_id, thread_id: "plans", turn: 1, run_id });
  expect(JSON.parse(text("threads.jsonl"))).toMatchObject({ agent_id, id: "plans", title: "Hello" });
  const secret = { type: "oauth", server, grant: "client_credentials", status: "not_connected" };
  expect(JSON.parse(text("secrets_without_values.jsonl"))).toMatchObject(secret);
  expect(JSON.parse(text("account.jsonl"))).toMatchObject({ overage_enabled: true, overage_cap_tokens: 70_000 });
  expect(text("usage.csv").trim().split("\n")).toHaveLength(2);
  for (const absent of ["hunter3", "robot", "cus_hidden", "sealed", user.key]) expect(all).not.toContain(absent);
});

it("has every row once, also of lists of several pages", async () => {
  const user = await lab.service.newUser();
  const other = await lab.service.newUser();
  const ROWS = 1_001;
  const numbered = (n: string) => `('01900000-0000-7000-8000-' || lpad((${n})::text, 12, '0'))::uuid`;
  const FILES: Record<string, string> = {
    "occurrences.jsonl": `insert into occurrence (user_id, schedule_id, agent_id, at, state, recorded_at)
      select $1, ${numbered("n % 3")}, ${numbered("0")}, timestamptz '2026-01-01' + make_interval(secs => n / 1000.0), 'missed', now()`,
    "deliveries.jsonl": `insert into delivery (user_id, id, destination_id, notice_id, endpoint_id, status, next_attempt_at)
      select $1, ${numbered("n % 3")}, ${numbered("n")}, ${numbered("n % 3")}, ${numbered("n")}, 'failed', null`,
    "disputes.jsonl": `insert into payment_dispute (provider, reference, user_id, payment_id, disputed_cents, state)
      select 'stripe', $1 || ':' || n, $1, ${numbered("n")}, 0, 'won'`,
    "reversals.jsonl": `insert into reversal (user_id, key, amount, debt, reason, created_at)
      select $1, 'refund:' || n, 0, 0, 'refund ' || n, now()`,
    "usage_by_label.jsonl": `insert into usage_label_daily (user_id, name, value, day, requests, input_tokens, output_tokens, cost)
      select $1, 'user', E'a "b": ' || n % 3, date '2020-01-01' + n::integer, 1, 1, 1, 1`,
    "schedules.jsonl": `insert into schedule (user_id, id, agent_id, name, spec, enabled, created_at, updated_at)
      select $1, ${numbered("n")}, ${numbered("n % 3")}, n::text, '{"interval": "daily", "times": ["08:00"], "timezone": "UTC"}', false,
        now(), now()`,
    "thread_turns.jsonl": `insert into thread_turn (user_id, thread_uid, turn, run_id)
      select $1, ${numbered("n % 3")}, n, ${numbered("n")}`,
  };
  const PARENTS = [
    `insert into thread (user_id, uid, agent_id, id, created_at, updated_at)
      select $1, ${numbered("n")}, ${numbered("0")}, 't' || n, now(), now()`,
    `insert into notice (user_id, id, event, dedupe_key, data, created_at)
      select $1, ${numbered("n")}, 'run.failed', n::text, '{}', now()`,
    `insert into webhook_endpoint (user_id, id, url, events, secret, created_at)
      select $1, ${numbered("n")}, 'https://example.com', '{run.failed}', '', now()`,
  ].map((insert) => `${insert} from generate_series(0, ${ROWS}) as n`);
  const db = await lab.service.database.open();
  for (const owner of [user, other]) {
    for (const text of PARENTS) await db.query({ text: text.replace("$1", "$1::uuid"), values: [owner.user_id] });
    for (const insert of Object.values(FILES)) {
      const text = `${insert.replaceAll("$1", "$1::uuid")} from generate_series(1, ${ROWS}) as n`;
      await db.query({ text, values: [owner.user_id] });
    }
  }
  await db.close();
  const { text } = await filesIn(await download("/api/v1/users/me/export", user.key));
  for (const name of Object.keys(FILES)) {
    const lines = text(name).trim().split("\n");
    expect([name, lines.length, new Set(lines).size]).toEqual([name, ROWS, ROWS]);
  }
});

it("needs every scope to read, and the operator's export is in the log of acts", async () => {
  const user = await lab.service.newUser();
  const narrow = await user.post("/api/v1/api-keys", { name: "billing", scopes: ["billing:read"] });
  expect((await download("/api/v1/users/me/export", narrow.body.key)).status).toBe(403);
  const answer = await download(`/api/v1/admin/users/${user.user_id}/export`, ADMIN_KEY);
  expect(JSON.parse((await filesIn(answer)).text("profile.jsonl"))).toMatchObject({ id: user.user_id });
  expect((await lab.service.admin.get("/api/v1/admin/acts")).body.acts[0]).toMatchObject({ what: "user.export" });
  expect((await download(`/api/v1/admin/users/${crypto.randomUUID()}/export`, ADMIN_KEY)).status).toBe(404);
});

it("is not stored for its Idempotency-Key: a retry makes a new file", async () => {
  const user = await lab.service.newUser();
  const headers = { Authorization: `Bearer ${user.key}`, "Idempotency-Key": "export" };
  for (const _ of [1, 2]) {
    const answer = await fetch(`${lab.service.url}/api/v1/users/me/export`, { method: "POST", headers });
    expect([answer.status, answer.headers.get("idempotent-replayed")]).toEqual([200, null]);
    expect((await filesIn(answer)).names).toContain("profile.jsonl");
  }
});

it("ends after a time if its caller does not read it, so that it does not block other exports", async () => {
  const { user_id } = await lab.service.newUser();
  const db = await lab.service.database.open();
  const { ledger } = createLedgerFixture(db);
  const exportOf = createUserExport({ db, clock: createSystemClock(), ledger, stalled_ms: 50 });
  const unread = exportOf(user_id);
  expect(() => exportOf(user_id)).toThrow(/try again|retry/i);
  const another = () => {
    try {
      return exportOf(user_id);
    } catch {
      return null;
    }
  };
  let second: Response | null = null;
  await expect
    .poll(() => {
      second ??= another();
      return second?.status;
    })
    .toBe(200);
  await expect(unread.arrayBuffer()).rejects.toThrow("stopped reading");
  await db.close();
});
