import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  ask,
  charges,
  expectCleanAudit,
  LAB_KEY,
  LAB_MODELS,
  type Lab,
  settledBalance,
  startLab,
} from "../support/lab.ts";
import { metricsOf } from "../support/metrics.ts";
import type { Client } from "../support/service.ts";
import { completion, json } from "../support/upstream.ts";

const CHAT = "/api/v1/chat/completions";
const GRANT = 1_000_000;
/** The rates of lab/odd, and room for the reports of millions of tokens. */
const WIDE = {
  id: "lab/wide",
  input_rate: 0.333333,
  output_rate: 1.000001,
  context_window: 1_500_000,
  max_output_tokens: 500_000,
};

let lab: Lab;
let user: Client;
beforeAll(async () => {
  lab = await startLab([...LAB_MODELS, WIDE]);
});
afterAll(() => lab.stop());
beforeEach(async () => {
  lab.upstream.answer(completion());
  user = await lab.service.newUser({ trial: false, tokens: GRANT });
});

const lastBody = () => lab.upstream.requests.at(-1)?.body;

describe("the price of a completion (contract 4)", () => {
  // Both rates in millionths are added and then rounded once. Rounding each part would add one in half of these rows.
  it.each([
    [1, 0, 1], // 0.333333
    [3, 0, 1], // 0.999999
    [4, 0, 2], // 1.333332
    [0, 1, 2], // 1.000001
    [1, 1, 2], // 1.333334
    [2, 1, 2], // 1.666667
    [3, 1, 2], // exactly 2.000000: nothing is rounded up
    [3, 2, 4], // 3.000001
    [1_000_003, 0, 333_334], // 333333.999999
    [3_000_000, 999_999, 1_999_999], // 999999 + 999999.999999
    [3_000_000, 1_000_000, 2_000_000], // 999999 + 1000001, exact
  ])(
    "%i in and %i out at 0.333333 and 1.000001 cost %i, in the answer and in the ledger alike",
    async (input, output, cost) => {
      await lab.service.admin.post(`/api/v1/admin/users/${user.user_id}/grants`, {
        amount_tokens: 3_000_000,
        source: "top_up",
      });
      lab.upstream.answer(completion("x", { prompt_tokens: input, completion_tokens: output }));
      const { status, body } = await user.post(CHAT, ask("lab/wide"));
      expect(status).toBe(200);
      expect(body.usage).toMatchObject({ input_tokens: input, output_tokens: output, cost_tokens: cost });
      expect(body.usage.total_tokens).toBe(input + output);
      expect((await charges(user)).reduce((sum, entry) => sum - entry.amount, 0)).toBe(cost);
      expect(await settledBalance(user)).toBe(GRANT + 3_000_000 - cost);
    },
  );

  it("is in a usage object with exactly the promised fields", async () => {
    const { body } = await user.post(CHAT, ask("lab/plain"));
    expect(body.usage).toEqual({
      input_tokens: 10,
      output_tokens: 4,
      total_tokens: 14,
      cost_tokens: 18,
      prompt_tokens: 10,
      completion_tokens: 4,
      prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    });
  });

  it("counts reasoning as output and cached input once, at the input's rate", async () => {
    const details = {
      prompt_tokens_details: { cached_tokens: 60 },
      completion_tokens_details: { reasoning_tokens: 30 },
    };
    lab.upstream.answer(completion("x", { prompt_tokens: 100, completion_tokens: 50, ...details }));
    const { usage } = (await user.post(CHAT, ask("lab/plain"))).body;
    expect(usage).toMatchObject({
      input_tokens: 100,
      output_tokens: 50,
      total_tokens: 150,
      cost_tokens: 200,
      ...details,
    });
    expect(await settledBalance(user)).toBe(GRANT - 200);
  });

  it("is in the ledger's entry, with the request's id, model and key", async () => {
    await user.post(CHAT, ask("lab/plain"), { "X-Request-Id": "order-4711" });
    const [entry] = await charges(user);
    expect(entry).toMatchObject({ amount: -18, model: "lab/plain", request_id: "order-4711" });
    const { total_cost_tokens, model_breakdown } = (await user.get("/api/v1/users/me/usage?days=1")).body;
    expect(total_cost_tokens).toBe(18);
    expect(model_breakdown).toEqual([{ model_name: "lab/plain", tokens: 14, cost_tokens: 18, requests: 1 }]);
  });

  it("is estimated from the bytes, and marked as such, if the upstream reports no usable usage", async () => {
    const nonsense = [null, { prompt_tokens: -1, completion_tokens: 4 }, { prompt_tokens: 1.5, completion_tokens: 4 }];
    for (const usage of nonsense) {
      lab.upstream.answer(completion("twelve bytes", usage));
      const { usage: billed } = (await user.post(CHAT, ask("lab/plain"))).body;
      // ceil(5 / 4) for "hello", ceil(12 / 4) for the answer
      expect(billed).toMatchObject({ input_tokens: 2, output_tokens: 3, cost_tokens: 8, estimated: true });
    }
  });

  it.each([false, true])(
    "is estimated, and the operator sees it, when the report is impossible (stream: %s)",
    async (stream) => {
      const warned = () => lab.service.warned("more tokens than the call can have used");
      const before = warned().length;
      lab.upstream.answer(completion("twelve bytes", { prompt_tokens: 90_000_000, completion_tokens: 4 }));
      await user.post(CHAT, ask("lab/plain", { stream }));
      expect((await charges(user)).map(({ amount }) => amount)).toEqual([-8]);
      const report = { model: "lab/plain", provider: "lab", input_tokens: 90_000_000, output_tokens: 4 };
      expect(warned().slice(before)).toMatchObject([report]);
      const metrics = await metricsOf(lab.service.url);
      expect(metrics).toMatch(/^purser_usage_reports_disbelieved_total\{provider="lab",model="lab\/plain"\} [12]$/m);
    },
  );

  it("is borne in full though the upstream used more than was held, and the books balance", async () => {
    lab.upstream.answer(completion("x", { prompt_tokens: 3_000_000, completion_tokens: 900_000 }));
    const { status, body } = await user.post(CHAT, ask("lab/wide", { max_tokens: 10 }));
    expect(status).toBe(200);
    expect(body.usage.cost_tokens).toBe(1_900_000);
    expect(await settledBalance(user)).toBe(0);
    const { transactions } = (await user.get("/api/v1/users/me/transactions")).body;
    const legs = transactions.filter((entry: { type: string }) => entry.type !== "grant");
    expect(legs.map((entry: { type: string; amount: number }) => [entry.type, entry.amount]).sort()).toEqual([
      ["absorbed", -900_000],
      ["usage", -1_000_000],
    ]);
    await expectCleanAudit(lab.service);
  });
});

describe("the upstream request (contract 4)", () => {
  it("has the provider's model name and the operator's key, never the caller's", async () => {
    await user.post(CHAT, ask("lab/plain"));
    const { headers, body } = lab.upstream.requests.at(-1) ?? {};
    expect(body.model).toBe("plain");
    expect(headers?.authorization).toBe(`Bearer ${LAB_KEY}`);
    expect(JSON.stringify({ headers, body })).not.toContain(user.key);
  });

  it("names the model if the caller sends its UUID, in upper or lower case", async () => {
    const { data } = (await user.get("/api/v1/models")).body;
    const { uuid } = data.find((model: { id: string }) => model.id === "lab/plain");
    expect((await user.post(CHAT, ask(uuid))).body.model).toBe("lab/plain");
    expect((await user.post(CHAT, ask(uuid.toUpperCase()))).body.model).toBe("lab/plain");
  });

  it("caps the output at max_tokens, or at the model's own cap", async () => {
    await user.post(CHAT, ask("lab/plain", { max_tokens: 17 }));
    expect(lastBody().max_tokens).toBe(17);
    await user.post(CHAT, ask("lab/plain", { max_completion_tokens: 18 }));
    expect(lastBody().max_completion_tokens).toBe(18);
    await user.post(CHAT, ask("lab/plain", { max_tokens: 1_000_000 }));
    expect(lastBody().max_tokens).toBe(4096);
    await user.post(CHAT, ask("lab/plain"));
    expect(lastBody().max_tokens).toBe(4096);
  });

  it("has a lower cap if the caller sets none and the balance does not cover the model's cap", async () => {
    const poor = await lab.service.newUser({ trial: false, tokens: 1000 });
    expect((await poor.post(CHAT, ask("lab/plain"))).status).toBe(200);
    const { max_tokens } = lastBody();
    expect(max_tokens).toBeGreaterThan(300);
    expect(max_tokens * 2).toBeLessThan(1000);
  });

  it("stays within the context window if the prompt leaves less room than the model's cap", async () => {
    const content = "x".repeat(250_000); // held at half a token a byte: 125,000 of 128,000
    await user.post(CHAT, { model: "lab/plain", messages: [{ role: "user", content }] });
    expect(lastBody().max_tokens).toBeLessThanOrEqual(3000);
  });

  it("is not sent if the prompt does not fit the model's context", async () => {
    const before = lab.upstream.requests.length;
    const messages = [{ role: "user", content: "x".repeat(600_000) }];
    const { status, body } = await user.post(CHAT, { model: "lab/plain", messages });
    expect([status, body.error.code, body.error.param]).toEqual([400, "context_length_exceeded", "messages"]);
    expect(lab.upstream.requests).toHaveLength(before);
    expect(await settledBalance(user)).toBe(GRANT);
  });

  it("without streaming is finished and charged, also if the caller disconnects", async () => {
    let answer = () => {};
    const asked = lab.upstream.requests.length + 1;
    lab.upstream.answer(async (response, request) => {
      await new Promise<void>((resolve) => {
        answer = resolve;
      });
      await completion()(response, request);
    });
    const connection = new AbortController();
    const call = fetch(`${lab.service.url}${CHAT}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${user.key}`, "Content-Type": "application/json" },
      body: JSON.stringify(ask("lab/plain")),
      signal: connection.signal,
    }).catch((error: Error) => error.name);
    await lab.upstream.until(() => lab.upstream.requests.length === asked);
    connection.abort();
    expect(await call).toBe("AbortError");
    answer();
    await expect.poll(async () => (await charges(user)).length).toBe(1);
    expect(await settledBalance(user)).toBe(GRANT - 18);
  });
});

describe("GET /models (contract 4)", () => {
  it("gives each model's record with exactly the promised fields", async () => {
    const { body } = await user.get("/api/v1/models");
    expect(body.object).toBe("list");
    const odd = body.data.find((model: { id: string }) => model.id === "lab/odd");
    expect(odd).toEqual({
      id: "lab/odd",
      uuid: expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/),
      object: "model",
      kind: "chat",
      created: 0,
      owned_by: "lab",
      name: "lab/odd",
      context_window: 128_000,
      context_length: 128_000,
      pricing: {
        prompt: "0.0000005333328",
        completion: "0.0000016000016",
        input_cache_read: "0.0000005333328",
        input_cache_write: "0.0000005333328",
      },
      supported_parameters: expect.arrayContaining(["messages", "tools", "temperature", "n"]),
      max_output_tokens: 4096,
      input_rate: 0.333333,
      cached_input_rate: 0.333333,
      cache_write_rate: 0.333333,
      cache_write_1h_rate: 0.333333,
      output_rate: 1.000001,
      tiers: [],
      cost_multiplier: 0.5,
      price_version: expect.stringMatching(/^[0-9a-f]{16}$/),
      tier: "economy",
      trial_eligible: true,
      supports: { tools: true, streaming: true, json_schema: true, vision: false, files: false, audio: false },
      deprecation: null,
    });
    for (const model of body.data) {
      expect(model.cost_multiplier).toBeCloseTo((3 * model.input_rate + model.output_rate) / 4, 9);
      expect(model.output_rate).toBeGreaterThan(model.input_rate);
    }
  });

  it("shows the same UUID of a model after a restart", async () => {
    const uuids = async () =>
      (await user.get("/api/v1/models")).body.data.map((model: { id: string; uuid: string }) => [model.id, model.uuid]);
    const before = await uuids();
    await lab.service.restart();
    expect(await uuids()).toEqual(before);
  });

  it("shows cached_input_rate if the operator set it, and cached input is billed at it", async () => {
    const models = [{ id: "lab/cached", input_rate: 1, output_rate: 2, cached_input_rate: 0.1 }];
    const other = await startLab(models, { settings: { cache_pricing: "provider" } });
    const caller = await other.service.newUser();
    expect((await caller.get("/api/v1/models/lab/cached")).body.cached_input_rate).toBe(0.1);
    const usage = { prompt_tokens: 100, completion_tokens: 0, prompt_tokens_details: { cached_tokens: 91 } };
    other.upstream.answer(completion("x", usage));
    const { body } = await caller.post(CHAT, ask("lab/cached"));
    expect(body.usage.cost_tokens).toBe(19); // 9 + 9.1, rounded up
    await other.stop();
  });

  it("offers the built-in model, which completes, calls tools and is billed, offline", async () => {
    const rehearsal = (await user.get("/api/v1/models/purser/rehearsal")).body;
    const { body } = await user.post(CHAT, {
      model: "purser/rehearsal",
      messages: [{ role: "user", content: "Say: all hands on deck" }],
    });
    expect(body.choices[0].message.content).toBe("all hands on deck");
    const { input_tokens, output_tokens, cost_tokens } = body.usage;
    expect(cost_tokens).toBe(Math.ceil(input_tokens * rehearsal.input_rate + output_tokens * rehearsal.output_rate));
    expect(await settledBalance(user)).toBe(GRANT - cost_tokens);
  });

  it("shows a trial account which models it may not call; such a call is rejected and costs nothing", async () => {
    const trial = await lab.service.newUser();
    const { status, body } = await trial.post(CHAT, ask("lab/vendor/deep:v1"));
    expect(status).toBe(403);
    expect(body.error).toMatchObject({ type: "permission_error", code: "model_not_trial_eligible", param: "model" });
    await lab.service.admin.post(`/api/v1/admin/users/${trial.user_id}/grants`, { amount_tokens: 1, source: "top_up" });
    lab.upstream.answer(json({ id: "x", choices: [{ index: 0, message: { role: "assistant", content: "ok" } }] }));
    expect((await trial.post(CHAT, ask("lab/vendor/deep:v1"))).status).toBe(200);
  });
});
