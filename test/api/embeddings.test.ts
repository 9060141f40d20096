import { createOpenAI } from "@ai-sdk/openai";
import { embed, embedMany } from "ai";
import fc from "fast-check";
import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { base64Of, googleVectors, openAiVectors, vectorOf } from "../support/embeddings.ts";
import { charges, expectCleanAudit, settledBalance } from "../support/lab.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import { cut, json, type Reply, startUpstream, type Upstream } from "../support/upstream.ts";

const GRANT = 1_000_000;
const EMBEDDINGS = "/api/v1/embeddings";
const embedding = (id: string, provider: string, more: object = {}) => ({
  id,
  provider,
  provider_model: id.split("/").at(-1),
  kind: "embedding",
  input_rate: 0.5,
  context_window: 1_000,
  trial_eligible: true,
  ...more,
});
const CHAT = { id: "lab/chat", provider: "lab", provider_model: "chat", input_rate: 1, output_rate: 2 };

let upstream: Upstream;
let service: Service;
let user: Client;
beforeAll(async () => {
  upstream = await startUpstream();
  const provider = (name: string, kind: string) => ({ name, kind, base_url: upstream.url, api_key_env: "LAB_KEY" });
  const config = {
    providers: [provider("lab", "openai-compatible"), provider("native", "openai"), provider("gemini", "google")],
    models: [
      { ...CHAT, trial_eligible: true, context_window: 128_000, max_output_tokens: 4_096 },
      embedding("lab/vectors", "lab"),
      embedding("lab/odd", "lab", { input_rate: 0.333333 }),
      embedding("native/vectors", "native"),
      embedding("gemini/vectors", "gemini"),
      embedding("lab/paid", "lab", { trial_eligible: false }),
    ],
    limits: { requests_per_minute: 1_000_000 },
  };
  service = await startService({ env: { LAB_KEY: "sk-lab-0123456789" }, config });
});
afterAll(async () => {
  await service.stop();
  await upstream.close();
});
beforeEach(async () => {
  upstream.requests = [];
  upstream.answer(openAiVectors());
  user = await service.newUser({ trial: false, tokens: GRANT });
});

const ask = (fields: object = {}) => ({ model: "lab/vectors", input: "hello", ...fields });
const sent = () => upstream.requests.map(({ body }) => body);

describe("POST /api/v1/embeddings (contract 4.14)", () => {
  it.each(["lab/vectors", "native/vectors"])(
    "%s returns a vector for each input and bills only the input",
    async (model) => {
      const { status, body } = await user.post(EMBEDDINGS, { model, input: ["one", "three"], dimensions: 4 });
      expect(status).toBe(200);
      expect(body).toEqual({
        object: "list",
        data: ["one", "three"].map((text, index) => ({ object: "embedding", index, embedding: vectorOf(text, 4) })),
        model,
        usage: { prompt_tokens: 7, total_tokens: 7, input_tokens: 7, output_tokens: 0, cost_tokens: 4 },
      });
      expect(upstream.requests[0]).toMatchObject({ path: "/v1/embeddings", body: { model: "vectors", dimensions: 4 } });
      expect(await charges(user)).toMatchObject([{ amount: -4, model }]);
      expect(await settledBalance(user)).toBe(GRANT - 4);
    },
  );

  it("Gemini gets batches of 100, and the call is one charge", async () => {
    upstream.answer(googleVectors(3));
    const input = Array.from({ length: 250 }, (_, n) => "x".repeat(1 + (n % 9)));
    const { status, body } = await user.post(EMBEDDINGS, { model: "gemini/vectors", input, dimensions: 2 });
    expect(status).toBe(200);
    expect(body.data.map((each: { embedding: number[] }) => each.embedding)).toEqual(
      input.map((text) => vectorOf(text, 2)),
    );
    expect(sent().map(({ requests }) => requests.length)).toEqual([100, 100, 50]);
    expect(sent()[0].requests[0]).toMatchObject({ model: "models/vectors", outputDimensionality: 2 });
    expect(body.usage).toMatchObject({ prompt_tokens: 750, cost_tokens: 375 });
    expect((await charges(user)).map(({ amount }) => amount)).toEqual([-375]);
  });

  it.each([
    ["no count", null],
    ["a count of more than the inputs can have", 90_000_000],
  ])("a provider that reports %s is billed by the text, and the usage says so", async (_, count) => {
    upstream.answer(googleVectors(count));
    const input = ["a".repeat(40), "ä".repeat(8)];
    const { body } = await user.post(EMBEDDINGS, { model: "gemini/vectors", input });
    expect(body.usage).toMatchObject({ prompt_tokens: 14, cost_tokens: 7, estimated: true });
    expect((await charges(user)).map(({ amount }) => amount)).toEqual([-7]);
  });

  it.each<[string, unknown, number]>([
    ["a text", "hello", 1],
    ["texts", ["one", "two"], 2],
    ["token numbers", [1, 2, 3], 1],
    ["lists of token numbers", [[1, 2], [3]], 2],
  ])("accepts %s", async (_, input, count) => {
    const { status, body } = await user.post(EMBEDDINGS, ask({ input }));
    expect([status, body.data.length]).toEqual([200, count]);
    expect(sent()[0].input).toHaveLength(count);
  });

  it.each<[string, Record<string, unknown>, number, string, string]>([
    ["no input", { input: undefined }, 400, "missing_field", "input"],
    ["an empty text", { input: "" }, 400, "invalid_value", "input"],
    ["an empty list", { input: [] }, 400, "invalid_value", "input"],
    ["an empty text in a list", { input: ["a", ""] }, 400, "invalid_value", "input[1]"],
    ["texts and tokens together", { input: ["a", [1]] }, 400, "invalid_value", "input[1]"],
    ["a token that is no whole number", { input: [1, 1.5] }, 400, "invalid_value", "input[1]"],
    ["2,049 inputs", { input: Array(2_049).fill("a") }, 400, "invalid_value", "input"],
    [
      "an input longer than the context",
      { input: ["a", "b".repeat(4_001)] },
      400,
      "context_length_exceeded",
      "input[1]",
    ],
    ["more tokens than the context", { input: Array(1_001).fill(1) }, 400, "context_length_exceeded", "input[0]"],
    ["tokens for Gemini", { model: "gemini/vectors", input: [1] }, 400, "invalid_value", "input"],
    ["another encoding", { encoding_format: "hex" }, 400, "invalid_value", "encoding_format"],
    ["no dimensions", { dimensions: 0 }, 400, "invalid_value", "dimensions"],
    ["a field that is not supported", { input_type: "query" }, 400, "unsupported_parameter", "input_type"],
    ["a chat model", { model: "lab/chat" }, 400, "invalid_value", "model"],
    ["auto", { model: "auto" }, 400, "invalid_value", "model"],
    ["an agent", { model: "agent/x" }, 400, "invalid_value", "model"],
    ["an unknown model", { model: "lab/vector" }, 404, "model_not_found", "model"],
  ])("rejects %s before any call, and holds nothing", async (_, fields, status, code, param) => {
    const answer = await user.post(EMBEDDINGS, ask(fields));
    expect([answer.status, answer.body.error.code, answer.body.error.param]).toEqual([status, code, param]);
    expect(upstream.requests).toEqual([]);
    expect(await settledBalance(user)).toBe(GRANT);
  });

  it("nulls and advisory fields are accepted, and only known fields reach the provider", async () => {
    const fields = { user: "u", dimensions: null, encoding_format: null, metadata: { a: "b" }, store: false };
    expect((await user.post(EMBEDDINGS, ask(fields))).status).toBe(200);
    expect(sent()).toEqual([{ model: "vectors", input: ["hello"], user: "u" }]);
  });

  it.each([false, true])(
    "answers base64 or numbers as requested (upstream ignores the format: %s)",
    async (ignores_format) => {
      upstream.answer(openAiVectors(7, { ignores_format }));
      const as = async (encoding_format: string) =>
        (await user.post(EMBEDDINGS, ask({ encoding_format, dimensions: 5 }))).body.data[0].embedding;
      expect(await as("base64")).toBe(base64Of(vectorOf("hello", 5)));
      expect(await as("float")).toEqual(vectorOf("hello", 5));
      upstream.answer(json({ data: [{ embedding: base64Of(vectorOf("hello", 5)) }], usage: { prompt_tokens: 1 } }));
      expect(await as("float")).toEqual(vectorOf("hello", 5));
    },
  );

  it("keeps every digit of the provider's numbers", async () => {
    const digits = "[0.1, -2.5e-7,0.30000000000000004]";
    upstream.answer((response) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(`{"data":[{"index":0,"embedding":${digits}}],"usage":{"prompt_tokens":1}}`);
    });
    expect((await user.post(EMBEDDINGS, ask())).body.data[0].embedding).toEqual(JSON.parse(digits));
  });

  it.each<[string, unknown]>([
    ["no JSON", "nonsense"],
    ["no vectors", { data: [] }],
    [
      "a vector for each token",
      {
        data: [
          {
            embedding: [
              [1, 2],
              [3, 4],
            ],
          },
        ],
        usage: { prompt_tokens: 2 },
      },
    ],
    ["texts in place of numbers", { data: [{ embedding: ["a", "b"] }], usage: { prompt_tokens: 2 } }],
    ["another number of vectors", { data: [{ embedding: [1] }, { embedding: [1] }] }],
    ["an empty vector", { data: [{ embedding: [] }] }],
    ["a vector that is no list", { data: [{ embedding: { a: 1 } }] }],
    ["base64 of a wrong length", { data: [{ embedding: "AAAAAAA=" }] }],
    ["base64 of no numbers", { data: [{ embedding: base64Of([Number.NaN]) }] }],
    ["two vectors of one index", { data: [{ index: 1, embedding: [1] }] }],
  ])("answers 502 without a cost for an answer with %s", async (_, answer) => {
    upstream.answer(json(answer));
    const { status, body } = await user.post(EMBEDDINGS, ask());
    expect([status, body.error.code]).toEqual([502, "upstream_error"]);
    expect(await settledBalance(user)).toBe(GRANT);
  });

  it("a rejection of the provider names the field", async () => {
    const error = { message: "This model does not support specifying dimensions.", type: "invalid_request_error" };
    upstream.answer(json({ error: { ...error, param: null, code: null } }, 400));
    const { status, body } = await user.post(EMBEDDINGS, ask({ dimensions: 9 }));
    expect([status, body.error.code, body.error.param]).toEqual([400, "invalid_value", "dimensions"]);
    expect(await settledBalance(user)).toBe(GRANT);
  });
});

describe("the price of embeddings (contract 4.6, 5.10)", () => {
  it("is checked before any call: 402 with the missing tokens", async () => {
    const poor = await service.newUser({ trial: false, tokens: 10 });
    const { status, body } = await poor.post(EMBEDDINGS, ask({ input: "a".repeat(400) }));
    // 200 tokens for 400 bytes and 2 for the marks of the input, at 0.5.
    expect([status, body.error.code]).toEqual([402, "insufficient_balance"]);
    expect(body.error.metadata).toMatchObject({ required: 101, available: 10, shortfall: 91 });
    expect(upstream.requests).toEqual([]);
  });

  it("a key's budget and scope apply", async () => {
    const keyOf = async (fields: object) =>
      service.as((await user.post("/api/v1/api-keys", { name: "k", ...fields })).body.key);
    const over = await (await keyOf({ budget_tokens: 1 })).post(EMBEDDINGS, ask());
    expect([over.status, over.body.error.code]).toEqual([402, "key_budget_exceeded"]);
    const reader = await (await keyOf({ scopes: ["chat:read"] })).post(EMBEDDINGS, ask());
    expect([reader.status, reader.body.error.code]).toEqual([403, "insufficient_scope"]);
  });

  it("a trial account can call only the models of the trial", async () => {
    const trial = await service.newUser();
    expect((await trial.post(EMBEDDINGS, ask())).status).toBe(200);
    const { status, body } = await trial.post(EMBEDDINGS, ask({ model: "lab/paid" }));
    expect([status, body.error.code]).toEqual([403, "model_not_trial_eligible"]);
  });

  it("explain shows the hold, the input and no output", async () => {
    const { headers } = await user.post(EMBEDDINGS, ask());
    const { body } = await user.get(`/api/v1/billing/explain/${headers.get("x-request-id")}`);
    expect(body).toMatchObject({
      model: "lab/vectors",
      cost_tokens: 4,
      estimate: { input_tokens: 5, max_output_tokens: 0 },
    });
    expect(body.priced).toMatchObject([
      { tokens_of: "input", tokens: 7, amount: "3.5" },
      { tokens_of: "cached_input", tokens: 0 },
      { tokens_of: "output", tokens: 0 },
    ]);
  });

  it("is charged once for one Idempotency-Key, with the same vectors", async () => {
    const once = () => user.post(EMBEDDINGS, ask(), { "Idempotency-Key": "vectors-1" });
    const [first, second] = [await once(), await once()];
    expect(second.body).toEqual(first.body);
    expect(second.headers.get("idempotent-replayed")).toBe("true");
    expect((await charges(user)).length).toBe(1);
  });

  it("a stored answer has at most 512 vectors (attack: a request of 2,048 fills the storage)", async () => {
    const send = (count: number, headers = {}) =>
      user.post(EMBEDDINGS, ask({ input: Array(count).fill("a") }), headers);
    const { status, body } = await send(513, { "Idempotency-Key": "many" });
    expect([status, body.error.code, body.error.param]).toEqual([400, "invalid_value", "input"]);
    expect((await send(512, { "Idempotency-Key": "fewer" })).status).toBe(200);
    expect((await send(2_048)).status).toBe(200);
  });

  /** Disconnects when the provider has the request. The provider answers after that. */
  async function leave(caller: Client, fields: object, reply: Reply): Promise<void> {
    const leaving = new AbortController();
    const left = Promise.withResolvers<void>();
    upstream.answer(async (response, request) => {
      leaving.abort();
      await left.promise;
      await reply(response, request);
    });
    const headers = { Authorization: `Bearer ${caller.key}`, "Content-Type": "application/json" };
    const asked = fetch(service.url + EMBEDDINGS, {
      method: "POST",
      headers,
      body: JSON.stringify(ask(fields)),
      signal: leaving.signal,
    });
    await expect(asked).rejects.toThrow();
    left.resolve();
  }

  it("a caller that disconnects pays once", async () => {
    await leave(user, {}, openAiVectors());
    await expect.poll(() => charges(user)).toMatchObject([{ amount: -4 }]);
  });

  it("random calls, failures and disconnections are each charged by their result, and the audit is clean", async () => {
    const endings: Record<string, { reply: Reply; cost: number }> = {
      counted: { reply: openAiVectors(1_000), cost: 334 },
      uncounted: { reply: openAiVectors(null), cost: 1 },
      broken: { reply: json({ data: [] }), cost: 0 },
      busy: { reply: json({ error: { message: "busy" } }, 429), cost: 0 },
      cut: { reply: cut('{"data":[{"embedding":[0.1,'), cost: 0 },
      overcounted: { reply: openAiVectors(2_000_000_000), cost: 1 },
    };
    const fields = { model: "lab/odd", input: "hey" };
    const ending = fc.constantFrom(...Object.keys(endings), "left");
    await fc.assert(
      fc.asyncProperty(fc.array(ending, { minLength: 1, maxLength: 6 }), async (names) => {
        const payer = await service.newUser({ trial: false, tokens: GRANT });
        let spent = 0;
        for (const name of names) {
          if (name === "left") {
            await leave(payer, fields, openAiVectors(1_000));
            spent += 334;
            await expect.poll(async () => settledBalance(payer)).toBe(GRANT - spent);
            continue;
          }
          const { reply, cost } = endings[name] as (typeof endings)[string];
          upstream.answer(reply);
          const { status } = await payer.post(EMBEDDINGS, ask(fields));
          expect(status === 200).toBe(cost > 0);
          spent += cost;
        }
        expect(await settledBalance(payer)).toBe(GRANT - spent);
        const usage = (await payer.get("/api/v1/users/me/usage?days=1")).body;
        expect(usage.total_cost_tokens).toBe(spent);
      }),
      { numRuns: 20, endOnFailure: true },
    );
    await expectCleanAudit(service);
  });
});

describe("embedding models and chat models", () => {
  const chats: [string, (model: string) => [path: string, body: object]][] = [
    ["chat completions", (model) => ["chat/completions", { model, messages: [{ role: "user", content: "hi" }] }]],
    ["responses", (model) => ["responses", { model, input: "hi" }]],
    ["messages", (model) => ["messages", { model, max_tokens: 9, messages: [{ role: "user", content: "hi" }] }]],
    ["count_tokens", (model) => ["messages/count_tokens", { model, messages: [{ role: "user", content: "hi" }] }]],
  ];
  it.each(chats)("%s reject embedding models by `model`", async (_, request) => {
    const [path, body] = request("lab/vectors");
    const answer = await user.post(`/api/v1/${path}`, body);
    expect([answer.status, answer.body.error.code, answer.body.error.param]).toEqual([400, "invalid_value", "model"]);
    expect(answer.body.error.message).toContain("/api/v1/embeddings");
  });

  it("no fallback and no agent can name them, and auto never chooses them", async () => {
    const messages = [{ role: "user", content: "hi" }];
    const fallback = { model: "lab/chat", models: ["lab/vectors"], messages };
    expect((await user.post("/api/v1/chat/completions", fallback)).status).toBe(400);
    const agent = await user.post("/api/v1/agents", { name: "a", model_id: "lab/vectors" });
    expect([agent.status, agent.body.error.code, agent.body.error.param]).toEqual([400, "invalid_value", "model_id"]);
    upstream.answer(json({}, 500));
    await user.post("/api/v1/chat/completions", { model: "auto", messages });
    expect(sent().map(({ model }) => model)).toEqual(["chat"]);
  });

  it("GET /models lists embedding models with kind, context and prices; Anthropic's clients do not see them", async () => {
    const { data } = (await user.get("/api/v1/models")).body;
    const record = data.find(({ id }: { id: string }) => id === "lab/vectors");
    expect(record).toMatchObject({
      kind: "embedding",
      context_length: 1_000,
      max_output_tokens: 0,
      input_rate: 0.5,
      output_rate: 0,
      pricing: { prompt: "0.0000008", completion: "0" },
      supported_parameters: ["model", "input", "dimensions", "encoding_format", "user"],
      supports: { tools: false, streaming: false },
    });
    expect((await user.get("/api/v1/models/lab/vectors")).body).toEqual(record);
    expect(data.find(({ id }: { id: string }) => id === "auto").pricing.completion).toBe("0.0000032");
    const { body } = await user.get("/api/v1/models", { "anthropic-version": "2023-06-01" });
    expect(JSON.stringify(body)).not.toContain("vectors");
  });
});

describe("existing clients", () => {
  it("the openai package, which requests base64 by default", async () => {
    const client = new OpenAI({ baseURL: `${service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
    const input = ["one", "three"];
    const answer = await client.embeddings.create({ model: "lab/vectors", input, dimensions: 6 });
    expect(sent()[0].encoding_format).toBe("base64");
    expect(answer.data.map((each) => [...each.embedding])).toEqual(input.map((text) => vectorOf(text, 6)));
    expect(answer.usage).toMatchObject({ prompt_tokens: 7, total_tokens: 7 });
    const wrong = client.embeddings.create({ model: "lab/chat", input });
    await expect(wrong).rejects.toMatchObject({ status: 400, param: "model" });
  });

  it("the AI SDK's embed and embedMany", async () => {
    const model = createOpenAI({ baseURL: `${service.url}/api/v1`, apiKey: user.key }).embedding("lab/vectors");
    const one = await embed({ model, value: "hello", maxRetries: 0 });
    expect([one.embedding, one.usage.tokens]).toEqual([vectorOf("hello"), 7]);
    const values = ["one", "three", "sixteen"];
    const many = await embedMany({ model, values, maxRetries: 0 });
    expect(many.embeddings).toEqual(values.map((value) => vectorOf(value)));
    expect((await charges(user)).map(({ amount }) => amount)).toEqual([-4, -4]);
  });
});
