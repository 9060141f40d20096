import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type RunningProcess, startProcess } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { newMasterKey } from "../support/vault.ts";

// Two service processes over one PostgreSQL; embedded storage has one process, which plays both. A change of a key on one
// node takes effect on the other within a second, also for a cached key (contract 3).

const WITHIN_MS = 1000;

let database: TestDatabase;
const processes: RunningProcess[] = [];
let here: string;
let there: string;
beforeAll(async () => {
  database = await createTestDatabase();
  const env: Record<string, string> = {
    PORT: "0",
    DATA_DIR: database.data_dir,
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PURSER_KEK: newMasterKey("k1"),
    ...(database.database_url === null ? {} : { DATABASE_URL: database.database_url }),
  };
  const count = database.kind === "postgres" ? 2 : 1;
  for (let n = 0; n < count; n += 1) processes.push(startProcess(env));
  const urls = await Promise.all(processes.map(({ listening }) => listening));
  [here = "", there = here] = urls;
});
afterAll(async () => {
  for (const each of processes) each.signal("SIGKILL");
  await Promise.all(processes.map(({ ended }) => ended));
  await database.drop();
});

async function call(url: string, key: string | null, method: string, path: string, body?: object) {
  const headers: Record<string, string> = { "Content-Type": "application/json" };
  if (key !== null) headers.Authorization = `Bearer ${key}`;
  const response = await fetch(`${url}/api/v1${path}`, { method, headers, body: body ? JSON.stringify(body) : null });
  const text = await response.text();
  // biome-ignore lint/suspicious/noExplicitAny: tests read any field
  const answer: any = text === "" ? null : JSON.parse(text);
  return { status: response.status, body: answer };
}

let sequence = 0;
/** A user with a key to end, which the other node has just cached. */
async function doomedKey() {
  sequence += 1;
  const email = `user${sequence}@example.com`;
  const { user, api_key } = (await call(here, ADMIN_KEY, "POST", "/admin/users", { email })).body;
  const { id, key } = (await call(here, api_key.key, "POST", "/api-keys", { name: "doomed" })).body;
  for (let n = 0; n < 3; n += 1) expect((await call(there, key, "GET", "/users/me")).status).toBe(200);
  return { user_id: user.id, own: api_key.key, id, key };
}
type Doomed = Awaited<ReturnType<typeof doomedKey>>;

test.each<[string, string, (doomed: Doomed) => Promise<unknown>]>([
  ["deleted", "revoked_api_key", ({ own, id }) => call(here, own, "DELETE", `/api-keys/${id}`)],
  ["rotated", "revoked_api_key", ({ own, id }) => call(here, own, "POST", `/api-keys/${id}/rotate`)],
  ["found and reported", "revoked_api_key", ({ key }) => call(here, null, "POST", "/api-keys/revoke-leaked", { key })],
  [
    "its user suspended",
    "account_suspended",
    (d) => call(here, ADMIN_KEY, "POST", `/admin/users/${d.user_id}/suspend`),
  ],
  ["its user erased", "invalid_api_key", (d) => call(here, ADMIN_KEY, "DELETE", `/admin/users/${d.user_id}`)],
])("a key that is %s on one node answers %s on the other within a second", { retry: 2 }, async (_, code, end) => {
  const doomed = await doomedKey();
  await end(doomed);
  await expect
    .poll(async () => (await call(there, doomed.key, "GET", "/users/me")).body.error?.code, { timeout: WITHIN_MS })
    .toBe(code);
});

test("a node rejects an operator key within a second after another node revokes or rotates it", {
  retry: 2,
}, async () => {
  for (const end of [
    (id: string) => call(here, ADMIN_KEY, "DELETE", `/admin/keys/${id}`),
    (id: string) => call(here, ADMIN_KEY, "POST", `/admin/keys/${id}/rotate`, { grace_seconds: 0 }),
  ]) {
    const { id, key } = (await call(here, ADMIN_KEY, "POST", "/admin/keys", { name: "doomed", role: "read" })).body;
    expect((await call(there, key, "GET", "/admin/users")).status).toBe(200);
    await end(id);
    const rejected = async () => (await call(there, key, "GET", "/admin/users")).body.error?.code;
    await expect.poll(rejected, { timeout: WITHIN_MS, interval: 50 }).toBe("revoked_api_key");
  }
});
