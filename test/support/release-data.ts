import { randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { listen } from "../../src/api/http/listen.ts";
import { createApp } from "../../src/app/app.ts";
import { readConfig } from "../../src/config/config.ts";
import { openArchive } from "../../src/operator/backup/archive.ts";
import { changedDefinitions, readDefinitions } from "../../src/platform/db/sql-functions.ts";
import { RELEASE } from "../../src/platform/lib/release.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { openBrowser } from "./browser.ts";
import { LAB_KEY, labConfig } from "./lab.ts";
import { type Receiver, startReceiver } from "./receiver.ts";
import type { Answer } from "./service.ts";
import { deliver } from "./triggers.ts";
import { calling, completion, hanging, json, startUpstream, type Upstream } from "./upstream.ts";

// `npm run release:database` writes test/fixtures/releases/VERSION: what this version stores, for the upgrade tests of all
// later versions. Run it at each release. Its keys and secrets open nothing but the services of these tests.
//   backup.gz         all rows, as `purser backup` writes them, while a run is in flight
//   functions.json.gz the SQL functions and types of this version
//   known.json        the keys, and what the API answered

/** In known.json in place of the service's address. */
export const SERVICE = "http://service.test";
export const RELEASES = join(import.meta.dirname, "../fixtures/releases");
const OPERATOR_KEY = "operator-key-of-the-tests";
export const PASSWORD = "correct horse battery staple";
/** The value of the stored secret CRM_TOKEN. */
export const SECRET = "crm-token-of-the-upgrade-tests";
const BEGIN = "2026-11-28T00:00:00.000Z";
/** After a run of the schedule. Nothing else falls due, because the clock stands still from here on. */
const END = "2026-11-28T12:00:00.000Z";

/** What a later version must still know of this one. */
export interface Known {
  operator_key: string;
  ada: Person;
  bob: Person;
  /** Her run was in flight. */
  eve: Person & { run_id: string };
  /** Of ada: the run that waits for her decision, and the trigger that starts runs. */
  waiting: { agent_id: string; run_id: string };
  trigger: { id: string; secret: string };
  /** By the path of a GET, and whose key asked. */
  answers: { who: "ada" | "bob" | "operator"; path: string; body: unknown }[];
}
interface Person {
  id: string;
  email: string;
  key: string;
}

export interface Running {
  url: string;
  stop(): Promise<void>;
}

/** This version on a database of these tests. */
export async function serveReleaseData(upstream: Upstream, env: Record<string, string>): Promise<Running> {
  const config = join(env.DATA_DIR ?? "", "purser.json");
  writeFileSync(config, JSON.stringify(labConfig(upstream)));
  const fixed = {
    PORT: "0",
    LOG_LEVEL: "silent",
    LAB_KEY,
    PURSER_ADMIN_KEY: OPERATOR_KEY,
    PURSER_KEK: `releases:${Buffer.alloc(32, 26).toString("base64")}`,
    PURSER_CONFIG: config,
    PURSER_PAYMENTS: "sandbox",
    PURSER_TEST_CLOCK: BEGIN,
  };
  const app = await createApp(readConfig({ ...fixed, ...env }), createLog("silent"));
  const server = await listen(app.http, { host: "127.0.0.1", port: 0 });
  app.listeningAt(server.url);
  const stop = async () => {
    app.beginStop();
    app.cutOff();
    await server.stop();
    await app.stop();
  };
  return { url: server.url, stop };
}

/** Sends a request to the API and returns any answer. */
export async function request(url: string, key: string, method: string, path: string, body?: object): Promise<Answer> {
  const headers = {
    Authorization: `Bearer ${key}`,
    "Content-Type": "application/json",
    Prefer: "wait=20",
    ...(method === "POST" && { "Idempotency-Key": randomUUID() }),
  };
  const response = await fetch(`${url}/api/v1/${path}`, { method, headers, body: body ? JSON.stringify(body) : null });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === "" ? null : JSON.parse(text) };
}

/** Stores rows of every kind that needs no provider of payments. */
async function fill(url: string, upstream: Upstream, receiver: Receiver): Promise<Known> {
  const ask = async (key: string, method: string, path: string, body?: object) => {
    const answer = await request(url, key, method, path, body);
    if (answer.status >= 400) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  const operator = (method: string, path: string, body?: object) => ask(OPERATOR_KEY, method, `admin/${path}`, body);
  const newPerson = async (email: string): Promise<Person> => {
    const { user, api_key } = await operator("POST", "users", { email });
    return { id: user.id, email, key: api_key.key };
  };

  // Ada signs up, owns agents, and calls models.
  const browser = openBrowser(url);
  const email = "ada@example.com";
  await browser.post("/auth/sign-up/email", { email, password: PASSWORD });
  await browser.post("/auth/request-password-reset", { email });
  const { id } = (await browser.get("/users/me")).body;
  const scopes = (await browser.post("/api-keys", { name: "first" })).body.scopes;
  const { key } = (await browser.post("/api-keys", { name: "all", scopes: [...scopes, "agents:approve"] })).body;
  const ada: Person = { id, email, key };
  const as = (method: string, path: string, body?: object) => ask(ada.key, method, path, body);
  await operator("POST", `users/${ada.id}/grants`, { amount_tokens: 5_000_000, source: "top_up", note: "a gift" });
  const limited = { name: "limited", scopes: ["chat:write"], budget_tokens: 100_000, budget_interval: "day" };
  const key_limited = await as("POST", "api-keys", { ...limited, limits: { requests_per_minute: 30 } });
  const rotated = await as("POST", `api-keys/${key_limited.id}/rotate`, { grace_seconds: 3600 });
  await as("PUT", "end-user-budgets/customer-7", { budget_tokens: 50_000, budget_interval: "month" });
  await as("POST", "webhook-endpoints", { url: `${receiver.url}/notices`, events: ["run.failed", "run.succeeded"] });
  const said = { model: "lab/plain", messages: [{ role: "user", content: 'Say "héllo" \u{1f600}\n\tand stop' }] };
  await ask(rotated.key, "POST", "chat/completions", { ...said, user: "customer-7", metadata: { team: "north" } });
  await as("POST", "messages", { ...said, max_tokens: 100 });
  const first = await as("POST", "responses", { model: "lab/odd", input: "Begin" });
  await as("POST", "responses", { model: "lab/odd", input: "Go on", previous_response_id: first.id });
  await as("POST", "secrets", { name: "CRM_TOKEN", value: SECRET });
  const auth = [{ secret: "CRM_TOKEN", hosts: [receiver.host], inject: { type: "bearer" } }];
  const agent = await as("POST", "agents", {
    name: "Scout — äöü",
    model_id: "lab/plain",
    system_prompt: "You scout.",
    run_prompt: "Look at {{input.place}}",
    input_schema: { type: "object", properties: { place: { type: "string" } } },
    tools_config: { web_fetch: { enabled: true, auth } },
    deliveries: [{ to: `${receiver.url}/results` }],
    schedule_enabled: true,
    schedule_interval: "daily",
    schedule_time: "09:30",
    schedule_timezone: "Asia/Kathmandu",
  });
  const place = { input: { place: "the harbour" }, metadata: { ticket: "42" } };
  upstream.answer(calling("web_fetch", { url: `${receiver.url}/page` }), completion("It is calm."));
  const run = await as("POST", `agents/${agent.id}/runs`, place);
  upstream.answer(json({ error: { message: "no" } }, 400));
  await as("POST", `agents/${agent.id}/runs`, place);
  upstream.answer(completion("Hello from 1.0."));
  const once = { name: "once", interval: "once", timezone: "Europe/Oslo", run_at: "2027-03-01T09:00" };
  await as("POST", `agents/${agent.id}/schedules`, once);
  await as("PUT", `agents/${agent.id}`, { description: "Looks at places" });
  await as("POST", `agents/${agent.id}/duplicate`);
  const chat = { thread_id: "thread-1", messages: [{ role: "user", content: "Remember the harbour" }] };
  await as("POST", `agents/${agent.id}/chat`, chat);
  await as("POST", `agents/${agent.id}/chat`, chat);
  const trigger = await as("POST", `agents/${agent.id}/triggers`, { name: "Issues", verify: "github" });
  await deliver(trigger, { action: "opened" });
  const careful = await as("POST", "agents", {
    name: "Careful",
    model_id: "lab/plain",
    run_prompt: "Tell them",
    tools_config: {
      send_webhook: { enabled: true, urls: [`${receiver.url}/told`], permission_policy: "always_ask" },
    },
  });
  upstream.answer(calling("send_webhook", { url: `${receiver.url}/told`, payload: { calm: true } }));
  const waiting = await as("POST", `agents/${careful.id}/runs`);
  upstream.answer(completion("Hello again."));

  // Bob pays.
  const bob = await newPerson("bob@example.com");
  const pay = (method: string, path: string, body?: object) => ask(bob.key, method, `billing/${path}`, body);
  const { plans } = await pay("GET", "plans");
  await pay("POST", "subscription", { plan_id: plans[0].id });
  await pay("POST", "overage/enable");
  await pay("PUT", "overage", { cap_tokens: 1_000_000 });
  await pay("POST", "purchase", { amount_cents: 500 });
  const returned = await pay("POST", "purchase", { amount_cents: 700 });
  await operator("POST", `purchases/${returned.id}/refund`, { reason: "a mistake" });
  const automatic = { threshold_tokens: 1_000, amount_cents: 100, monthly_cap_cents: 300 };
  await pay("PUT", "auto-topup", automatic);
  await operator("POST", `users/${bob.id}/adjustments`, { amount_tokens: -250, reason: "a correction" });

  // Others are suspended and erased, and the operator has keys with roles.
  const cleo = await newPerson("cleo@example.com");
  await operator("PATCH", `users/${cleo.id}`, { limits: { requests_per_minute: 5 } });
  await operator("POST", `users/${cleo.id}/suspend`, { reason: "spam" });
  const dan = await newPerson("dan@example.com");
  await ask(dan.key, "POST", "chat/completions", said);
  await operator("DELETE", `users/${dan.id}`);
  await operator("POST", "keys", { name: "desk", role: "support" });
  const eve = await newPerson("eve@example.com");

  await operator("PUT", "clock", { now: END });
  const asked: [Known["answers"][number]["who"], string][] = [
    ...[
      ...["users/me", "users/me/buckets", "users/me/transactions?limit=100", "users/me/requests", "users/me/usage"],
      ...["api-keys", "secrets", "agents", `agents/${agent.id}`, `agents/${agent.id}/versions`, "end-user-budgets"],
      ...[`agents/${agent.id}/versions/1`, `agents/${agent.id}/schedules`, `agents/${agent.id}/occurrences`],
      ...["runs", `runs/${run.id}`, `runs/${waiting.id}`, `agents/${agent.id}/runs/${run.id}/prompt`],
      ...[`agents/${agent.id}/triggers`, `agents/${agent.id}/triggers/${trigger.id}/deliveries`],
      ...[`agents/${agent.id}/threads/thread-1`, `responses/${first.id}`, "webhook-endpoints", "notices"],
    ].map((path): ["ada", string] => ["ada", path]),
    ...[
      ...["users/me", "users/me/transactions?limit=100", "billing/subscription", "billing/purchases"],
      ...["billing/auto-topup", "billing/overage", "billing/invoices"],
    ].map((path): ["bob", string] => ["bob", path]),
    ...[`admin/users/${cleo.id}`, `admin/users/${bob.id}`, "admin/keys", "admin/acts", "admin/purchases"].map(
      (path): ["operator", string] => ["operator", path],
    ),
  ];
  const keys = { ada: ada.key, bob: bob.key, operator: OPERATOR_KEY };
  const answers: Known["answers"] = [];
  for (const [who, path] of asked) answers.push({ who, path, body: await ask(keys[who], "GET", path) });

  // Eve's agent works while the backup is made.
  upstream.answer(hanging());
  const late = await ask(eve.key, "POST", "agents", { name: "Late", model_id: "lab/plain", run_prompt: "Go" });
  const requests = upstream.requests.length;
  const in_flight = await fetch(`${url}/api/v1/agents/${late.id}/runs`, {
    method: "POST",
    headers: { Authorization: `Bearer ${eve.key}` },
  }).then((answer) => answer.json());
  await upstream.until(() => upstream.requests.length > requests);
  return {
    operator_key: OPERATOR_KEY,
    ada,
    bob,
    eve: { ...eve, run_id: in_flight.id },
    waiting: { agent_id: careful.id, run_id: waiting.id },
    trigger: { id: trigger.id, secret: trigger.secret },
    answers,
  };
}

async function write(): Promise<void> {
  const data_dir = mkdtempSync(join(tmpdir(), "purser-release-"));
  const folder = join(RELEASES, RELEASE);
  const upstream = await startUpstream();
  const receiver = await startReceiver();
  const service = await serveReleaseData(upstream, {
    DATA_DIR: data_dir,
    PURSER_EGRESS_ALLOW: `127.0.0.0/8,${receiver.host}`,
  });
  const known = await fill(service.url, upstream, receiver);
  const headers = { Authorization: `Bearer ${OPERATOR_KEY}` };
  const backup = await fetch(`${service.url}/api/v1/admin/backup`, { method: "POST", headers });
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "backup.gz");
  writeFileSync(file, await backup.bytes());
  const { digests } = await openArchive(file);
  const definitions = changedDefinitions(readDefinitions(), [], RELEASE);
  writeFileSync(join(folder, "functions.json.gz"), gzipSync(JSON.stringify(definitions)));
  const text = JSON.stringify(known, null, 1).replaceAll(service.url, SERVICE);
  writeFileSync(join(folder, "known.json"), `${text}\n`);
  await receiver.close();
  await upstream.close();
  await service.stop();
  rmSync(data_dir, { recursive: true });
  const rows = Object.values(digests).reduce((sum, digest) => sum + digest.rows, 0);
  const empty = Object.keys(digests).filter((name) => digests[name]?.rows === 0);
  console.log(`${folder}: ${rows} rows; none in ${empty.join(", ")}`);
}

if (import.meta.main) {
  await write();
  process.exit();
}
