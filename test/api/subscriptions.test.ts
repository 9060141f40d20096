import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Service, startService } from "../support/service.ts";

const plan = (id: string) => ({ id, name: id, price_cents: 100, included_tokens: 1_000 });

let service: Service;
beforeAll(async () => {
  service = await startService({
    env: { PURSER_TEST_CLOCK: "2026-01-31T00:00:00Z" },
    config: { plans: [plan("old"), plan("kept")] },
  });
});
afterAll(() => service.stop());

const subscribe = (user: { user_id: string }, plan_id: string) =>
  service.admin.post(`/api/v1/admin/users/${user.user_id}/subscription`, { plan_id });

describe("the operator's subscription (contract 8)", () => {
  it("is made once however often it is asked for at the same moment", async () => {
    const user = await service.newUser({ trial: false });
    const answers = await Promise.all(Array.from({ length: 6 }, () => subscribe(user, "kept")));
    const codes = answers.map(({ status, body }) => [status, body.error?.code]).toSorted();
    expect(codes).toEqual([[201, undefined], ...Array.from({ length: 5 }, () => [409, "already_subscribed"])]);
    expect((await user.get("/api/v1/users/me")).body.token_balance).toBe(1_000);
  });

  it("ends with its period when its plan is no longer offered, and holds up nobody else's renewal", async () => {
    const leaving = await service.newUser({ trial: false });
    const staying = await service.newUser({ trial: false });
    await subscribe(leaving, "old");
    await subscribe(staying, "kept");
    const file = join(service.database.data_dir, "plans.json");
    writeFileSync(file, JSON.stringify({ plans: [plan("kept")] }));
    await service.restart({ PURSER_CONFIG: file });
    const moved = await service.admin.request("PUT", "/api/v1/admin/clock", { now: "2026-02-28T00:00:00Z" });
    expect(moved.status).toBe(200);
    const profile = async (user: typeof leaving) => (await user.get("/api/v1/users/me")).body;
    expect(await profile(leaving)).toMatchObject({ plan: null, token_balance: 1_000 });
    expect(await profile(staying)).toMatchObject({ plan: "kept", token_balance: 2_000 });
  });
});
