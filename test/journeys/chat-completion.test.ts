import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStream, textOf } from "../support/event-stream.ts";
import { ask, charges, expectCleanAudit, type Lab, settledBalance, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion, delta, hanging, json } from "../support/upstream.ts";

// One account and its chat completions: a trial, its end, a top-up, keys, a cancelled stream, a failure, the audit.

const CHAT = "/api/v1/chat/completions";
const PRICE = 10 + 2 * 4;

let lab: Lab;
let user: Client;
beforeAll(async () => {
  lab = await startLab(undefined, { env: { PURSER_TEST_CLOCK: "2026-03-01T09:00:00Z" } });
  user = await lab.service.newUser();
});
afterAll(() => lab.stop());

const setClock = (now: string) => lab.service.admin.request("PUT", "/api/v1/admin/clock", { now });
const profile = async () => (await user.get("/api/v1/users/me")).body;

describe("the journey of a chat completion", () => {
  it("a trial account lists the models, completes a chat, and finds the charge everywhere", async () => {
    const { data } = (await user.get("/api/v1/models")).body;
    expect(data.filter((model: { trial_eligible: boolean }) => model.trial_eligible).length).toBeGreaterThan(1);
    const answer = await user.post(CHAT, ask("lab/plain"), { "X-Request-Id": "first-call" });
    expect(answer.body.usage.cost_tokens).toBe(PRICE);
    expect(await profile()).toMatchObject({ is_trial: true, token_balance: 625_000 - PRICE, balance: { held: 0 } });
    const [bucket] = (await user.get("/api/v1/users/me/buckets")).body.buckets;
    expect(bucket).toMatchObject({ source: "bonus", original_amount: 625_000, remaining: 625_000 - PRICE });
    const [entry] = await charges(user);
    expect(entry).toMatchObject({ amount: -PRICE, request_id: "first-call", model: "lab/plain", bucket_id: bucket.id });
  });

  it("a cancelled stream is charged for its output so far, and a failed call is not charged", async () => {
    const before = (await profile()).token_balance;
    lab.upstream.answer(hanging(delta("twelve bytes")));
    const stream = await openStream(lab.service, user, ask("lab/plain"));
    expect(textOf([(await stream.next()) ?? ""])).toBe("twelve bytes");
    stream.hangUp();
    expect(await settledBalance(user)).toBe(before - 2 - 2 * 3);
    lab.upstream.answer(json({ error: {} }, 500));
    expect((await user.post(CHAT, ask("lab/plain"))).status).toBe(502);
    expect(await settledBalance(user)).toBe(before - 8);
    lab.upstream.answer(completion());
  });

  it("after the trial's end a top-up opens the account again, for every model, with a bucket of its own", async () => {
    await setClock("2026-03-15T09:00:00Z");
    expect((await user.post(CHAT, ask("lab/plain"))).body.error.code).toBe("trial_ended");
    const grant = { amount_tokens: 100_000, source: "top_up" };
    await lab.service.admin.post(`/api/v1/admin/users/${user.user_id}/grants`, grant);
    expect((await user.post(CHAT, ask("lab/vendor/deep:v1"))).body.usage.cost_tokens).toBe(10 + 4 * 4);
    expect(await profile()).toMatchObject({ is_trial: false, token_balance: 100_000 - 26 });
  });

  it("buckets are spent oldest first, one call across two of them", async () => {
    const other = await lab.service.newUser({ trial: false, tokens: 10 });
    await lab.service.admin.post(`/api/v1/admin/users/${other.user_id}/grants`, {
      amount_tokens: 9000,
      source: "bonus",
    });
    await other.post(CHAT, ask("lab/plain"));
    const { buckets, total_remaining } = (await other.get("/api/v1/users/me/buckets?include=closed")).body;
    expect(total_remaining).toBe(9010 - PRICE);
    expect(buckets.map((bucket: { remaining: number }) => bucket.remaining)).toEqual([0, 9000 - 8]);
    expect(buckets[0].closed_reason).toBe("spent");
    expect((await charges(other)).map((entry) => entry.amount)).toEqual([-8, -10]);
  });

  it("a year later all tokens have expired, the audit is clean, and a restart changes nothing", async () => {
    await setClock("2027-03-15T09:00:00Z");
    expect((await profile()).token_balance).toBe(0);
    expect((await user.post(CHAT, ask("lab/plain"))).body.error.code).toBe("out_of_tokens");
    const ledger = async () => (await user.get("/api/v1/users/me/transactions?limit=100")).body.transactions;
    const before = await ledger();
    const sequence = before.map((entry: { seq: number }) => entry.seq);
    expect(sequence).toEqual(Array.from({ length: before.length }, (_, index) => before.length - index));
    expect(before.reduce((sum: number, entry: { amount: number }) => sum + entry.amount, 0)).toBe(0);
    await lab.service.restart();
    expect(await ledger()).toEqual(before);
    await expectCleanAudit(lab.service);
  });
});
