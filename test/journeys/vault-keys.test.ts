import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type RunningProcess, startProcess } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { newMasterKey } from "../support/vault.ts";

// A master key from its first use to its removal: docs/operating/keys.md.

const [FIRST, SECOND] = [newMasterKey("first"), newMasterKey("second")];

let database: TestDatabase;
const running: RunningProcess[] = [];
beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(() => stop());
afterAll(() => database.drop());

function start(kek: string): RunningProcess {
  const { data_dir, database_url } = database;
  const child = startProcess({
    PORT: "0",
    DATA_DIR: data_dir,
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PURSER_KEK: kek,
    ...(database_url === null ? {} : { DATABASE_URL: database_url }),
  });
  running.push(child);
  return child;
}

async function stop(): Promise<void> {
  for (const child of running.splice(0)) {
    child.signal("SIGTERM");
    await child.ended;
  }
}

async function call(url: string, key: string, method: string, path: string, body?: object) {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json", "Idempotency-Key": path };
  const response = await fetch(`${url}/api/v1${path}`, { method, headers, body: body ? JSON.stringify(body) : null });
  return { replayed: response.headers.has("idempotent-replayed"), body: await response.json() };
}

test("a start without the right master key fails and names the key's id; after a rotation the former key is not needed", async () => {
  let url = await start(FIRST).listening;
  const { body: made } = await call(url, ADMIN_KEY, "POST", "/admin/users", { email: "ada@example.com" });
  const { key } = made.api_key;
  const store = () => call(url, key, "POST", "/secrets", { name: "TOKEN", value: "a value of the vault" });
  const { body: secret } = await store();
  expect(secret).toMatchObject({ name: "TOKEN", masked_value: "••••••••ault" });
  await stop();

  const missing = await start(SECOND).ended;
  expect([missing.code, missing.stdout]).toEqual([2, ""]);
  expect(missing.stderr).toMatch(/^PURSER_KEK: the key first is missing, [^\n]*\n$/);
  const other = await start(`first:${Buffer.alloc(32).toString("base64")}`).ended;
  expect([other.code, other.stdout]).toEqual([2, ""]);
  expect(other.stderr).toMatch(/^PURSER_KEK: the key first does not open what [^\n]*\n$/);

  url = await start(`${SECOND},${FIRST}`).listening;
  const changed = await call(url, key, "PATCH", `/secrets/${secret.id}`, { allowed_hosts: ["a.example"] });
  expect(changed.body).toMatchObject({ version: 1, allowed_hosts: ["a.example"] });
  await stop();

  // The start and the write have wrapped all keys again, as rotate-keys does for many users.
  url = await start(SECOND).listening;
  expect((await call(url, key, "GET", `/secrets/${secret.id}`)).body).toMatchObject({ id: secret.id });
  // The service's own sealed data is wrapped again, too: an answer that was stored under the first key.
  expect(await store()).toMatchObject({ replayed: true, body: { id: secret.id } });
});
