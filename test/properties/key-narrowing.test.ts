import pg from "pg";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { waitingForLocks } from "../support/postgres-server.ts";
import type { Client, Service } from "../support/service.ts";
import { startService } from "../support/service.ts";

// contract 3.7: a key cannot create a broader key, not even while it is being narrowed or revoked itself.

describe.skipIf(inject("storage").kind === "embedded")("a key that changes keys while it is being changed", () => {
  let service: Service;
  let user: Client;
  let blocker: pg.Client;
  beforeAll(async () => {
    service = await startService();
    user = await service.newUser();
    blocker = new pg.Client(service.database.database_url ?? "");
    await blocker.connect();
  });
  afterAll(async () => {
    await blocker.end();
    await service.stop();
  });

  const KEYS = "/api/v1/api-keys";
  const newKey = async (fields: object = {}) => {
    const made = await user.post(KEYS, { name: "customer", ...fields });
    expect(made.status).toBe(201);
    return { id: made.body.id as string, ...service.as(made.body.key) };
  };
  const waiting = async () => (await waitingForLocks(service.database.database_url ?? "")).length;
  /** Starts `change` on the key without a commit, and begins `act`. Returns the answer of `act`. */
  const during = async (id: string, change: string, act: () => Promise<{ status: number; body: unknown }>) => {
    await blocker.query("begin");
    await blocker.query(`update api_key set ${change} where id = $1`, [id]);
    const answer = act();
    await Promise.race([answer, expect.poll(waiting, { interval: 10 }).toBe(1)]);
    await blocker.query("commit");
    const { status, body } = (await answer) as { status: number; body: { error?: { code: string } } };
    return [status, body.error?.code];
  };
  const NARROWED = [403, "budgeted_key"];

  test("creates no key with more rights than it has left", async () => {
    const own = await newKey();
    const made = () => own.post(KEYS, { name: "escape" });
    expect(await during(own.id, "budget_tokens = 10", made)).toEqual(NARROWED);
  });

  test("widens no other key", async () => {
    const [own, other] = [await newKey(), await newKey({ budget_tokens: 1 })];
    const widened = () => own.request("PATCH", `${KEYS}/${other.id}`, { budget_tokens: null });
    expect(await during(own.id, "budget_tokens = 10", widened)).toEqual(NARROWED);
  });

  test("shows the secret of no other key", async () => {
    const [own, other] = [await newKey(), await newKey()];
    const rotated = () => own.post(`${KEYS}/${other.id}/rotate`, {});
    expect(await during(own.id, "budget_tokens = 10", rotated)).toEqual(NARROWED);
  });

  test("does not undo a change at the same moment", async () => {
    const own = await newKey();
    const renamed = () => own.request("PATCH", `${KEYS}/${own.id}`, { name: "renamed" });
    expect(await during(own.id, "budget_tokens = 10", renamed)).toEqual([409, "key_changed"]);
  });

  test("gets no secret that replaces the one of a rotation at the same moment", async () => {
    const own = await newKey();
    const rotated = () => own.post(`${KEYS}/${own.id}/rotate`, {});
    expect(await during(own.id, "key_hash = '\\x01'", rotated)).toEqual([409, "key_rotated"]);
  });

  test("creates no key after it was revoked", async () => {
    const own = await newKey();
    const made = () => own.post(KEYS, { name: "escape" });
    expect(await during(own.id, "revoked_at = now()", made)).toEqual([401, "revoked_api_key"]);
    expect((await user.get(KEYS)).body.api_keys[0].name).toBe("customer");
  });
});
