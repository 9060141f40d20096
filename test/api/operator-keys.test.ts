import { afterAll, beforeAll, expect, it } from "vitest";
import type { Db } from "../../src/platform/db/db.ts";
import { type Service, startService } from "../support/service.ts";

// Operator keys and their roles: contract 8.1.

const KEYS = "/api/v1/admin/keys";

let service: Service;
let db: Db;
beforeAll(async () => {
  service = await startService({ env: { PURSER_TEST_CLOCK: "2026-01-31T09:00:00Z" } });
  db = await service.database.open();
});
afterAll(async () => {
  await db.close();
  await service.stop();
});

async function newKey(role: string, more: object = {}) {
  const made = await service.admin.post(KEYS, { name: `${role} of the tests`, role, ...more });
  expect(made.status).toBe(201);
  return { ...made.body, client: service.as(made.body.key) };
}

it("a key is shown once, stored as a hash, and listed without its secret", async () => {
  const { key, id, client } = await newKey("read");
  expect(key).toMatch(/^purser_operator_[A-Za-z0-9_-]{43}$/);
  const listed = (await client.get(KEYS)).body.keys.find((each: { id: string }) => each.id === id);
  expect(listed).toMatchObject({ role: "read", last_four: key.slice(-4), revoked_at: null, expires_at: null });
  expect(listed).not.toHaveProperty("key");
  const rows = await db.query({ text: "select operator_key.*::text from operator_key" });
  expect(JSON.stringify(rows)).not.toContain(key);
  const acts = (await service.admin.get("/api/v1/admin/acts?what=operator_key.create&limit=1")).body.acts;
  expect(acts).toMatchObject([{ target: { type: "operator_key", id }, after: { role: "read" } }]);
  expect(JSON.stringify(acts)).not.toContain(key);
});

/** The status of each request by role: read, support, admin. */
const MAY = [
  ["GET", "/api/v1/admin/users", undefined, [200, 200, 200]],
  ["GET", "/api/v1/admin/users/{id}", undefined, [200, 200, 200]],
  ["GET", "/api/v1/admin/acts", undefined, [200, 200, 200]],
  ["GET", KEYS, undefined, [200, 200, 200]],
  ["PATCH", "/api/v1/admin/users/{id}", {}, [403, 200, 200]],
  // The owner of the address opens the account by a password reset mail.
  ["PATCH", "/api/v1/admin/users/{id}", { email: "next@example.com" }, [403, 403, 200]],
  ["POST", "/api/v1/admin/users/{id}/suspend", undefined, [403, 200, 200]],
  ["POST", "/api/v1/admin/users/{id}/resume", undefined, [403, 200, 200]],
  ["POST", "/api/v1/admin/users/{id}/grants", { amount_tokens: 1, source: "bonus" }, [403, 403, 201]],
  ["POST", "/api/v1/admin/users/{id}/subscription", { plan_id: "starter" }, [403, 403, 201]],
  ["POST", KEYS, { name: "another", role: "admin" }, [403, 403, 201]],
  ["POST", "/api/v1/admin/reload", undefined, [403, 403, 200]],
  ["DELETE", "/api/v1/admin/users/{id}", undefined, [403, 403, 204]],
] as const;

it("each role may do what its row of the table allows, and otherwise gets 403 with the needed role", async () => {
  const { user_id } = await service.newUser();
  const keys = [await newKey("read"), await newKey("support"), await newKey("admin")];
  for (const [method, path, body, statuses] of MAY) {
    for (const [index, { client }] of keys.entries()) {
      const answer = await client.request(method, path.replace("{id}", user_id), body);
      expect(answer.status, `${keys[index]?.role}: ${method} ${path}`).toBe(statuses[index]);
      if (answer.status === 403) {
        expect(answer.body.error).toMatchObject({ type: "permission_error", code: "insufficient_role" });
        expect(answer.body.error.message).toMatch(/needs the role (support|admin)/);
      }
    }
  }
  const [act] = (await service.admin.get(`/api/v1/admin/acts?user_id=${user_id}&limit=1`)).body.acts;
  expect(act.who).toEqual({ key_id: keys[2]?.id, user_id: null, name: "admin of the tests" });
});

it("a rotated key works with both secrets during the grace, and only with the new one afterwards", async () => {
  const { id, client } = await newKey("read");
  const rotated = await service.admin.post(`${KEYS}/${id}/rotate`, { grace_seconds: 60 });
  expect(rotated.body).toMatchObject({ id, role: "read" });
  const next = service.as(rotated.body.key);
  expect([(await client.get(KEYS)).status, (await next.get(KEYS)).status]).toEqual([200, 200]);
  await service.admin.request("PUT", "/api/v1/admin/clock", { now: "2026-01-31T09:02:00Z" });
  expect((await client.get(KEYS)).body.error.code).toBe("revoked_api_key");
  expect((await next.get(KEYS)).status).toBe(200);
});

it("an expired key and a revoked key get 401 at once, also if they were just used", async () => {
  const expiring = await newKey("admin", { expires_at: "2026-01-31T10:00:00Z" });
  const revoked = await newKey("admin");
  for (const { client } of [expiring, revoked]) expect((await client.get(KEYS)).status).toBe(200);
  expect((await expiring.client.request("DELETE", `${KEYS}/${revoked.id}`)).status).toBe(204);
  expect((await revoked.client.get(KEYS)).body.error.code).toBe("revoked_api_key");
  expect((await service.admin.post(`${KEYS}/${revoked.id}/rotate`, {})).status).toBe(409);
  await service.admin.request("PUT", "/api/v1/admin/clock", { now: "2026-01-31T10:00:00Z" });
  expect((await expiring.client.get(KEYS)).body.error.code).toBe("expired_api_key");
  expect((await service.admin.post(KEYS, { name: "x", role: "read", expires_at: "2026-01-31T10:00:00Z" })).status).toBe(
    400,
  );
});

it("an operator key is no user's key, and a user's key is no operator key", async () => {
  const { client } = await newKey("admin");
  const user = await service.newUser();
  for (const answer of [await client.get("/api/v1/users/me"), await service.admin.get("/api/v1/agents")]) {
    expect(answer.status).toBe(401);
  }
  expect((await user.get("/api/v1/admin/users")).status).toBe(401);
});

it("after 20 wrong keys a minute from one address, wrong keys get 429, and a valid key still works", async () => {
  const { client } = await newKey("read");
  const guess = (nth: number) => service.as(`purser_operator_${String(nth).padStart(43, "0")}`).get(KEYS);
  const statuses: number[] = [];
  for (let nth = 0; nth < 30; nth += 1) statuses.push((await guess(nth)).status);
  expect(statuses).toContain(429);
  expect((await client.get(KEYS)).status).toBe(200);
  expect((await service.admin.get(KEYS)).status).toBe(200);
});
