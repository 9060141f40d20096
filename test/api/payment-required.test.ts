import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openStream } from "../support/event-stream.ts";
import { ask, charges, expectCleanAudit, type Lab, settledBalance, startLab } from "../support/lab.ts";
import type { Answer, Client } from "../support/service.ts";
import { completion, delta, hanging, type Reply } from "../support/upstream.ts";

const CHAT = "/api/v1/chat/completions";
const START = "2026-01-01T00:00:00Z";
const AFTER_TRIAL = "2026-01-15T00:00:00Z";

let lab: Lab;
beforeAll(async () => {
  lab = await startLab(undefined, { env: { PURSER_TEST_CLOCK: START } });
});
afterAll(() => lab.stop());
beforeEach(() => lab.upstream.answer(completion()));

const grant = (user: Client, amount_tokens: number, source = "top_up") =>
  lab.service.admin.post(`/api/v1/admin/users/${user.user_id}/grants`, { amount_tokens, source });
const keyOf = async (user: Client, fields: object) => {
  const { body } = await user.post("/api/v1/api-keys", { name: "second", ...fields });
  return { ...lab.service.as(body.key), user_id: user.user_id, id: body.id as string };
};
const spentOf = async (user: Client, id: string) => {
  const { api_keys } = (await user.get("/api/v1/api-keys")).body;
  return api_keys.find((key: { id: string }) => key.id === id).spent_tokens;
};

function expect402(answer: Answer, code: string) {
  expect([answer.status, answer.body.error?.code]).toEqual([402, code]);
  const { type, param, message, metadata } = answer.body.error;
  expect({ type, param }).toEqual({ type: "payment_required", param: null });
  expect(message.length).toBeGreaterThan(20);
  const amounts = ["required", "available", "held", "shortfall", "max_affordable_output_tokens"];
  for (const name of amounts) expect(Number.isSafeInteger(metadata[name]) && metadata[name] >= 0, name).toBe(true);
  expect(metadata.shortfall).toBe(Math.max(0, metadata.required - metadata.available));
  expect(metadata.remedies.length).toBeGreaterThan(0);
  return metadata;
}

describe("402 by its cause (contract 5)", () => {
  it("is out_of_tokens without tokens; a top-up ends it at once", async () => {
    const user = await lab.service.newUser({ trial: false });
    const asked = lab.upstream.requests.length;
    const metadata = expect402(await user.post(CHAT, ask("lab/plain")), "out_of_tokens");
    expect(metadata).toMatchObject({ available: 0, held: 0, max_affordable_output_tokens: 0 });
    // Overage is for subscribers.
    expect(metadata.remedies).toEqual(["top_up", "subscribe"]);
    expect402(await user.post(CHAT, ask("lab/plain", { stream: true })), "out_of_tokens");
    expect(lab.upstream.requests).toHaveLength(asked);
    await grant(user, 10_000);
    expect((await user.post(CHAT, ask("lab/plain"))).status).toBe(200);
  });

  it("is insufficient_balance with the exact affordable cap", async () => {
    const user = await lab.service.newUser({ trial: false, tokens: 1000 });
    const request = (max_tokens: number) => ask("lab/plain", { max_tokens });
    const metadata = expect402(await user.post(CHAT, request(4096)), "insufficient_balance");
    expect(metadata).toMatchObject({ available: 1000, held: 0 });
    const affordable = metadata.max_affordable_output_tokens;
    expect402(await user.post(CHAT, request(affordable + 2)), "insufficient_balance");
    expect((await user.post(CHAT, request(affordable))).status).toBe(200);
    expect(await settledBalance(user)).toBe(1000 - 18);
  });

  it("is in_flight_exhausted, with Retry-After, if only calls in flight hold the tokens", async () => {
    const user = await lab.service.newUser({ trial: false, tokens: 10_000 });
    lab.upstream.answer(hanging(delta("word")));
    const running = await openStream(lab.service, user, ask("lab/plain", { max_tokens: 4096 }));
    await running.next();
    const answer = await user.post(CHAT, ask("lab/plain", { max_tokens: 4096 }));
    const { held, available } = expect402(answer, "in_flight_exhausted");
    expect(held).toBeGreaterThan(8192);
    expect(held + available).toBe(10_000);
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    running.hangUp();
    await settledBalance(user);
    lab.upstream.answer(completion());
    expect((await user.post(CHAT, ask("lab/plain", { max_tokens: 4096 }))).status).toBe(200);
  });

  it("is key_budget_exceeded before out_of_tokens, and only for the key", async () => {
    const user = await lab.service.newUser({ trial: false });
    const key = await keyOf(user, { budget_tokens: 0 });
    const metadata = expect402(await key.post(CHAT, ask("lab/plain")), "key_budget_exceeded");
    expect(metadata.remedies).toEqual(["use_another_key", "create_another_key"]);
    expect402(await user.post(CHAT, ask("lab/plain")), "out_of_tokens");
    await grant(user, 10_000);
    expect402(await key.post(CHAT, ask("lab/plain")), "key_budget_exceeded");
    expect((await user.post(CHAT, ask("lab/plain"))).status).toBe(200);
  });

  it("is key_budget_exceeded with the remaining budget", async () => {
    const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
    const key = await keyOf(user, { budget_tokens: 1000 });
    const request = (max_tokens: number) => ask("lab/plain", { max_tokens });
    const metadata = expect402(await key.post(CHAT, request(4096)), "key_budget_exceeded");
    expect(metadata.available).toBe(1000);
    const affordable = metadata.max_affordable_output_tokens;
    expect((await key.post(CHAT, request(affordable))).status).toBe(200);
    expect(await spentOf(user, key.id)).toBe(18);
    // Without a requested cap, the key's budget sets the cap.
    expect((await key.post(CHAT, ask("lab/plain"))).status).toBe(200);
    expect(lab.upstream.requests.at(-1)?.body.max_tokens).toBeLessThan(500);
    expect(await spentOf(user, key.id)).toBe(36);
  });

  it("is trial_ended before all other causes; a bonus does not open the account again, a top-up does", async () => {
    const [user, subscriber] = [await lab.service.newUser(), await lab.service.newUser()];
    const key = await keyOf(user, { budget_tokens: 0 });
    await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now: "2026-01-14T23:59:59.999Z" });
    expect((await user.post(CHAT, ask("lab/plain"))).status).toBe(200);
    await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now: AFTER_TRIAL });
    expect402(await user.post(CHAT, ask("lab/plain")), "trial_ended");
    expect402(await key.post(CHAT, ask("lab/plain")), "trial_ended");
    await grant(user, 50_000, "bonus");
    expect402(await user.post(CHAT, ask("lab/plain")), "trial_ended");
    expect((await user.get("/api/v1/users/me")).body).toMatchObject({ is_trial: false, token_balance: 50_000 });
    await grant(user, 1);
    expect((await user.post(CHAT, ask("lab/plain"))).status).toBe(200);
    expect402(await key.post(CHAT, ask("lab/plain")), "key_budget_exceeded");
    const path = `/api/v1/admin/users/${subscriber.user_id}/subscription`;
    expect402(await subscriber.post(CHAT, ask("lab/plain")), "trial_ended");
    await lab.service.admin.post(path, { plan_id: "starter" });
    expect((await subscriber.post(CHAT, ask("lab/vendor/deep:v1"))).status).toBe(200);
    await expectCleanAudit(lab.service);
  });

  it("never applies to a model whose rates are both zero", async () => {
    const free = await startLab([{ id: "lab/free", input_rate: 0, output_rate: 0 }]);
    const user = await free.service.newUser({ trial: false });
    const { status, body } = await user.post(CHAT, ask("lab/free"));
    expect([status, body.usage?.cost_tokens]).toEqual([200, 0]);
    await expectCleanAudit(free.service);
    await free.stop();
  });
});

describe("many calls at once (contract 4; BerriAI/litellm#34732, #40095: check, then spend)", () => {
  /** Uses everything that was held: half a token per byte of input, and every output token of the cap. */
  const greedy: Reply = (response, request) => {
    const prompt_tokens = Math.ceil(Buffer.byteLength(JSON.stringify(request.body)) / 2);
    return completion("x ".repeat(10), { prompt_tokens, completion_tokens: request.body.max_tokens })(
      response,
      request,
    );
  };

  it("100 calls on one account never overdraw it, and each answered call is paid exactly", async () => {
    lab.upstream.answer(greedy);
    const user = await lab.service.newUser({ trial: false, tokens: 5000 });
    const calls = Array.from({ length: 100 }, (_, index) =>
      user.post(CHAT, ask("lab/plain", { max_tokens: 50, stream: index % 2 === 1 })),
    );
    const answers = await Promise.all(calls);
    const served = answers.filter((answer) => answer.status === 200);
    const refused = answers.filter((answer) => answer.status !== 200);
    expect(served.length).toBeGreaterThan(20);
    for (const answer of refused) {
      expect(answer.status).toBe(402);
      expect(["in_flight_exhausted", "insufficient_balance", "out_of_tokens"]).toContain(answer.body.error.code);
    }
    const left = await settledBalance(user);
    const entries = await charges(user);
    const spent = entries.reduce((sum, entry) => sum - entry.amount, 0);
    expect(spent).toBe(5000 - left);
    expect(entries).toHaveLength(served.length);
    const costs = served.map(({ body }) => (typeof body === "string" ? costOfStream(body) : body.usage.cost_tokens));
    expect(costs.reduce((sum, cost) => sum + cost, 0)).toBe(spent);
    expect((await user.get("/api/v1/users/me/transactions?type=absorbed")).body.transactions).toEqual([]);
    await expectCleanAudit(lab.service);
  });

  it("100 calls with one key never exceed its budget", async () => {
    lab.upstream.answer(greedy);
    const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
    const key = await keyOf(user, { budget_tokens: 2000 });
    const answers = await Promise.all(
      Array.from({ length: 100 }, () => key.post(CHAT, ask("lab/plain", { max_tokens: 50 }))),
    );
    const served = answers.filter((answer) => answer.status === 200);
    expect(served.length).toBeGreaterThan(8);
    const spent = await spentOf(user, key.id);
    expect(spent).toBe(served.reduce((sum, { body }) => sum + body.usage.cost_tokens, 0));
    expect(spent).toBeLessThanOrEqual(2000);
    expect(await settledBalance(user)).toBe(1_000_000 - spent);
  });
});

function costOfStream(text: string): number {
  const last = text.trim().split("\n\n").at(-2) ?? "";
  return JSON.parse(last.replace("data: ", "")).usage.cost_tokens;
}
