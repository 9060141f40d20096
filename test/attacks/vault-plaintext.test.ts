import { createHash } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { encodingsOf, leaksIn } from "../support/encodings.ts";
import { type RunningProcess, startProcess } from "../support/process.ts";
import { scoreOf } from "../support/score.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { storedBytes } from "../support/snapshot.ts";
import { newMasterKey, newSecret, usageAt, vaultNode } from "../support/vault.ts";

// An attacker who reads the disk, a dump, the logs or every answer finds no value in any encoding.

const KEK = newMasterKey("k1");
const VALUES = [
  'plain "quoted" value/with+signs=&?é€',
  "hunter2-hunter2-hunter2",
  "sk_live_first_value_of_the_suite",
  "sk_live_second_value_of_the_suite",
  "short-1!",
  "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END KEY-----",
];

const score = scoreOf("stored, answered and logged", "leaks");
/** One search for each encoding of each value. */
function searched(bytes: Buffer, values = VALUES) {
  const leaks = leaksIn(bytes, values);
  for (const value of values) score.tried(encodingsOf(value).size);
  score.slipped(...leaks);
  return leaks;
}

let database: TestDatabase;
let service: RunningProcess;
let url: string;
const answers: string[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  const { data_dir, database_url } = database;
  service = startProcess({
    PORT: "0",
    DATA_DIR: data_dir,
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PURSER_KEK: KEK,
    LOG_LEVEL: "debug",
    ...(database_url === null ? {} : { DATABASE_URL: database_url }),
  });
  url = await service.listening;
});
afterAll(async () => {
  service.signal("SIGKILL");
  await service.ended;
  await database.drop();
});

async function call(key: string, method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
  const sent = typeof body === "string" ? body : body === undefined ? null : JSON.stringify(body);
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json", ...headers },
    body: sent,
  });
  const text = await response.text();
  answers.push(JSON.stringify([...response.headers]), text);
  return text === "" ? null : JSON.parse(text);
}

/** Every use of a value through the API, successful or not. */
async function useTheApi(key: string): Promise<void> {
  const path = "/api/v1/secrets";
  for (const [index, value] of VALUES.entries()) {
    const once = { "Idempotency-Key": `store ${index}` };
    const body = { name: `S${index}`, value };
    const { id } = await call(key, "POST", path, body, once);
    await call(key, "POST", path, body, once);
    await call(key, "POST", path, { ...body, description: "another" }, once);
    await call(key, "POST", path, body);
    await call(key, "GET", `${path}/${id}`);
    await call(key, "PATCH", `${path}/${id}`, { allowed_hosts: ["a.example"] });
    await call(key, "PATCH", `${path}/${id}`, { allowed_hosts: null, value });
    await call(key, "PATCH", `${path}/${id}`, { value: VALUES[(index + 1) % VALUES.length], nmae: "x" });
    await call(key, "PATCH", `${path}/${id}`, { value: [value] });
    await call(key, "PATCH", `${path}/none`, { value });
    await call(key, "POST", path, { name: "1 bad name", value });
    await call(key, "POST", path, { value });
    await call(key, "POST", path, `{"name": "BROKEN", "value": ${JSON.stringify(value)}, oops}`);
    await call(key, "POST", `${path}/${id}`, { value });
    await call(key, "PUT", "/api/v1/agents", { value });
    await call("wrong", "POST", path, body);
    await call(key, "GET", `${path}/${id}/uses`);
  }
  await call(key, "GET", path);
}

/** Plain hashes, by which an attacker could test guesses at a stored request's value. */
function hashesOfRequestsWith(value: string, key_ids: string[]): Buffer[] {
  const bodies = VALUES.map((_, index) => JSON.stringify({ name: `S${index}`, value }));
  const heads = ["", ...key_ids.map((id) => `POST\n/api/v1/secrets\n${id}\n`)];
  return bodies.flatMap((body) =>
    heads.map((head) =>
      createHash("sha256")
        .update(head + body)
        .digest(),
    ),
  );
}

/** Keys of every kind. Each is shown once, in the answer that created it. */
async function makeKeys(): Promise<string[]> {
  const { api_key } = await call(ADMIN_KEY, "POST", "/api/v1/admin/users", { email: "bob@example.com" });
  const make = (path: string, body: object) =>
    call(api_key.key, "POST", `/api/v1/${path}`, body, { "Idempotency-Key": path });
  const second = await make("api-keys", { name: "second" });
  const endpoint = await make("webhook-endpoints", { url: "https://a.example/hook", events: ["run.failed"] });
  const agent = await make("agents", { name: "Herald", model_id: "purser/rehearsal" });
  const signing = await call(api_key.key, "GET", `/api/v1/agents/${agent.id}/webhook-key`);
  const rotated = await make(`api-keys/${second.id}/rotate`, { grace_seconds: 60 });
  const keys = [api_key.key, second.key, endpoint.secret, signing.key, rotated.key];
  for (const key of keys) expect(key).toMatch(/^(purser_live_|whsec_).{30,}/);
  answers.length = 0;
  return keys;
}

test("no answer contains a value, and neither the log at debug level nor stored data contains a value or a key", async () => {
  const keys = await makeKeys();
  const made = await call(ADMIN_KEY, "POST", "/api/v1/admin/users", { email: "ada@example.com" });
  await useTheApi(made.api_key.key);
  service.signal("SIGTERM");
  const { stdout, stderr } = await service.ended;

  const db = await database.open();
  const vault = vaultNode(db, KEK);
  const at = usageAt("https://a.example/?q=1");
  const opening = await vault.open(made.user.id, "S1", at);
  expect(opening.status === "opened" && opening.secret.value.reveal()).toBe(VALUES[1]);
  await vault.create(made.user.id, newSecret("DOOMED", VALUES[2] ?? "", []));
  await vault.open(made.user.id, "DOOMED", at);
  const kept = await db.query<{ request_hash: Uint8Array }>({ text: "select request_hash from idempotency_key" });
  expect(kept).toHaveLength(VALUES.length + 4);
  for (const guess of VALUES.flatMap((value) => hashesOfRequestsWith(value, [made.api_key.id]))) {
    expect(kept.some(({ request_hash }) => Buffer.compare(request_hash, guess) === 0)).toBe(false);
  }
  await db.query({ text: "checkpoint" });
  await db.close();

  expect(searched(Buffer.from(answers.join("\n")))).toEqual([]);
  expect(searched(Buffer.from(stdout + stderr), [...VALUES, ...keys])).toEqual([]);
  const stored = await storedBytes({ database });
  expect(stored.includes("DOOMED")).toBe(true); // the search can find text
  expect(searched(stored, [...VALUES, ...keys])).toEqual([]);
}, 120_000);
