import { gzipSync, zstdCompressSync } from "node:zlib";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openStream } from "../support/event-stream.ts";
import { ask, charges, type Lab, settledBalance, startLab } from "../support/lab.ts";
import { ADMIN_KEY, type Client } from "../support/service.ts";
import { completion, cut, delta, event, json } from "../support/upstream.ts";

// Requests of programs that people use, and the answers that these need (contract 2 and 4).

const CHAT = "/api/v1/chat/completions";
const ORIGIN = "https://app.example.com";

let lab: Lab;
let user: Client;
beforeAll(async () => {
  lab = await startLab(undefined, { env: { PURSER_CORS_ORIGINS: `${ORIGIN},http://localhost:5173` } });
});
afterAll(() => lab.stop());
beforeEach(async () => {
  lab.upstream.requests = [];
  lab.upstream.answer(completion());
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
});

const streamed = async (fields: object) =>
  (await (await openStream(lab.service, user, ask("lab/plain", { stream: true, ...fields }))).rest())
    .filter((data) => data !== "[DONE]")
    .map((data) => JSON.parse(data));
const send = (path: string, init: RequestInit) => fetch(`${lab.service.url}${path}`, init);

describe("fields of whole objects", () => {
  it("null counts as absent in every optional field", async () => {
    const nulls = Object.fromEntries(
      ["tools", "tool_choice", "response_format", "user", "stop", "stream_options", "n", "seed", "metadata"].map(
        (field) => [field, null],
      ),
    );
    const image = { type: "image_url", image_url: { url: "data:image/png;base64,AA==", detail: null } };
    const messages = [
      { role: "user", content: "hi", name: null },
      { role: "assistant", content: "hello", tool_calls: null, refusal: null },
      { role: "user", content: "again" },
    ];
    expect((await user.post(CHAT, { ...ask("lab/plain"), ...nulls, messages })).status).toBe(200);
    expect(Object.keys(lab.upstream.requests[0]?.body)).not.toContain("tools");
    const pictured = await user.post(CHAT, { ...ask("lab/plain"), messages: [{ role: "user", content: [image] }] });
    expect(pictured.body.error?.param).not.toContain("detail");
  });
});

describe("the usage of a stream", () => {
  it("is on the chunk with the finish reason, without include_usage", async () => {
    const chunks = await streamed({});
    expect(chunks.every(({ choices }) => choices.length === 1)).toBe(true);
    expect(chunks.filter(({ usage }) => usage != null)).toEqual([chunks.at(-1)]);
    expect(chunks.at(-1)).toMatchObject({
      model: "lab/plain",
      choices: [{ finish_reason: "stop" }],
      usage: { prompt_tokens: 10, cost_tokens: 18 },
    });
  });

  it("has a chunk of its own with include_usage", async () => {
    const chunks = await streamed({ stream_options: { include_usage: true } });
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { cost_tokens: 18 } });
    expect(chunks.at(-2)).toMatchObject({ choices: [{ finish_reason: "stop" }] });
    expect(chunks.at(-2).usage).toBeUndefined();
  });

  it("loses no chunk if the provider disconnects after the finish reason", async () => {
    const finish = event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
    lab.upstream.answer(cut(delta("hello"), finish));
    const chunks = await streamed({});
    expect(chunks.map(({ choices }) => choices?.[0]?.finish_reason)).toContain("stop");
  });
});

describe("several choices", () => {
  it("are all held for and billed, and the provider gets n", async () => {
    const choices = [0, 1].map((index) => ({
      index,
      message: { role: "assistant", content: "x" },
      finish_reason: "stop",
    }));
    lab.upstream.answer(json({ id: "c", created: 1, choices, usage: { prompt_tokens: 10, completion_tokens: 8 } }));
    const { status, body } = await user.post(CHAT, ask("lab/plain", { n: 2, max_tokens: 100 }));
    expect([status, body.choices.length]).toEqual([200, 2]);
    expect(lab.upstream.requests[0]?.body).toMatchObject({ n: 2, max_tokens: 100 });
    expect((await charges(user)).map(({ amount }) => amount)).toEqual([-26]);
    const poor = await lab.service.newUser({ trial: false, tokens: 1_000 });
    const one = await poor.post(CHAT, ask("lab/plain", { max_tokens: 400 }));
    const two = await poor.post(CHAT, ask("lab/plain", { max_tokens: 400, n: 2 }));
    expect([one.status, two.status]).toEqual([200, 402]);
    expect(two.body.error.metadata.max_affordable_output_tokens).toBeLessThan(250);
  });

  it("are rejected by models that give one", async () => {
    const { status, body } = await user.post(CHAT, ask("purser/rehearsal", { n: 2 }));
    expect([status, body.error.param]).toEqual([400, "n"]);
  });
});

describe("addresses", () => {
  it("an unknown model is 404 model_not_found on a model call, with a suggestion", async () => {
    const { status, body } = await user.post(CHAT, ask("lab/plan"));
    expect(status).toBe(404);
    expect(body.error).toMatchObject({ type: "not_found_error", code: "model_not_found", param: "model" });
    expect(body.error.message).toContain("lab/plain");
    const agent = await user.post("/api/v1/agents", { name: "a", model_id: "lab/plan" });
    expect([agent.status, agent.body.error.param]).toEqual([400, "model_id"]);
  });

  it.each([
    ["/v1 twice", "/api/v1/v1/chat/completions"],
    ["a slash at the end", "/api/v1/chat/completions/"],
    ["no /api", "/v1/chat/completions"],
    ["no /api/v1", "/chat/completions"],
    ["no /v1", "/api/chat/completions"],
    ["a slash twice", "/api/v1//chat/completions"],
  ])("a wrong path names the right one: %s", async (_, path) => {
    const { status, body } = await user.post(path, ask("lab/plain"));
    expect([status, body.error.code]).toEqual([404, "not_found"]);
    expect(body.error.message).toContain("POST /api/v1/chat/completions,");
  });

  it.each([
    ["GET", "/api/v1/agentz", "GET /api/v1/agents?"],
    ["GET", "/api/v1/billing/plan", "GET /api/v1/billing/plans?"],
    ["POST", "/api/v1/agents/0190/run", "POST /api/v1/agents/0190/runs?"],
    ["GET", "/api/v1/user/me", "GET /api/v1/users/me?"],
  ])("a misspelt path names the right one: %s %s", async (method, path, right) => {
    const { status, body } = await user.request(method, path);
    expect([status, body.error.code]).toEqual([404, "not_found"]);
    expect(body.error.message).toContain(right);
  });

  it("a path that resembles no other points to the reference", async () => {
    const { status, body } = await user.get("/api/v1/fine_tuning/jobs");
    expect(status).toBe(404);
    expect(body.error.message).toContain("/openapi.json");
  });

  it("a wrong method is 405 and names the valid ones", async () => {
    const { status, headers, body } = await user.get(CHAT);
    expect([status, headers.get("allow"), body.error.code]).toEqual([405, "POST", "method_not_allowed"]);
    const agents = await user.request("DELETE", "/api/v1/agents");
    expect([agents.status, agents.headers.get("allow")]).toEqual([405, "GET, POST"]);
    for (const path of ["/livez", "/readyz", "/metrics", "/openapi.json", "/docs"]) {
      const posted = await user.post(path, {});
      expect([path, posted.status, posted.headers.get("allow")]).toEqual([path, 405, "GET"]);
    }
  });
});

describe("the list of models", () => {
  it("has auto, and context, price and parameters of every entry", async () => {
    await user.post("/api/v1/agents", { name: "clerk", model_id: "lab/plain" });
    const { data } = (await user.get("/api/v1/models")).body;
    for (const entry of data) {
      expect(entry.context_length).toBeGreaterThan(0);
      expect(entry.supported_parameters).toContain("messages");
      expect(Number.isInteger(entry.created)).toBe(true);
      for (const price of ["prompt", "completion", "input_cache_read", "input_cache_write"]) {
        expect(entry.pricing[price]).toMatch(/^\d+(\.\d+)?$/);
      }
    }
    const entry = (id: string) => data.find((each: { id: string }) => each.id === id);
    // 1 billed token is 1 / 625,000 dollars
    expect(entry("lab/plain").pricing).toMatchObject({ prompt: "0.0000016", completion: "0.0000032" });
    expect(entry("lab/odd").pricing.prompt).toBe("0.0000005333328");
    expect(entry("auto")).toMatchObject({ kind: "auto", pricing: { prompt: "0.0000016", completion: "0.0000064" } });
    expect((await user.get("/api/v1/models/auto")).body).toEqual(entry("auto"));
    expect(data.find(({ kind }: { kind: string }) => kind === "agent")).toMatchObject({
      name: "clerk",
      pricing: entry("lab/plain").pricing,
    });
  });

  it("has Anthropic's shape for Anthropic's clients, like a single model", async () => {
    const version = { "anthropic-version": "2023-06-01" };
    const { body } = await user.get("/api/v1/models?limit=1000", version);
    expect(body).toMatchObject({ has_more: false, first_id: body.data[0].id, last_id: body.data.at(-1).id });
    const plain = body.data.find(({ id }: { id: string }) => id === "lab/plain");
    expect(plain).toMatchObject({ type: "model", created_at: "1970-01-01T00:00:00.000Z" });
    expect(typeof plain.display_name).toBe("string");
    for (const id of ["lab/plain", "lab%2Fplain"]) {
      expect((await user.get(`/api/v1/models/${id}`, version)).body).toEqual(plain);
    }
  });
});

describe("compressed bodies", () => {
  const compressed = (body: Uint8Array, encoding: string, path = CHAT) =>
    send(path, {
      method: "POST",
      headers: {
        Authorization: `Bearer ${user.key}`,
        "Content-Type": "application/json",
        "Content-Encoding": encoding,
      },
      body: Buffer.from(body),
    });
  const text = JSON.stringify(ask("lab/plain"));

  it.each([
    ["gzip", gzipSync(text)],
    ["zstd", zstdCompressSync(text)],
  ])("%s is read, also a body of megabytes", async (encoding, body) => {
    expect((await compressed(body, encoding)).status).toBe(200);
    const large = JSON.stringify(ask("lab/plain", { messages: [{ role: "user", content: "word ".repeat(100_000) }] }));
    const answer = await compressed(encoding === "gzip" ? gzipSync(large) : zstdCompressSync(large), encoding);
    // The body was read completely: only the balance or the context is too small.
    expect([200, 400, 402]).toContain(answer.status);
    expect(await answer.text()).not.toContain("invalid_json");
  });

  it.each([
    ["gzip", (bytes: Buffer) => gzipSync(bytes)],
    ["zstd", (bytes: Buffer) => zstdCompressSync(bytes)],
  ])("a %s bomb is rejected at the size limit of plain bodies", async (encoding, compress) => {
    const bomb = compress(Buffer.alloc(200_000_000, " "));
    expect(bomb.length).toBeLessThan(1_000_000);
    const answer = await compressed(bomb, encoding);
    expect([answer.status, ((await answer.json()) as { error: { code: string } }).error.code]).toEqual([
      413,
      "body_too_large",
    ]);
  });

  it("another encoding is 415 and names Content-Encoding; broken data is 400", async () => {
    const brotli = await compressed(Buffer.from("x"), "br");
    expect([brotli.status, await brotli.json()]).toMatchObject([415, { error: { param: "Content-Encoding" } }]);
    for (const encoding of ["gzip", "zstd"]) {
      const broken = await compressed(Buffer.from("not compressed"), encoding);
      expect([broken.status, await broken.json()]).toMatchObject([400, { error: { code: "invalid_json" } }]);
      const half = encoding === "gzip" ? gzipSync(text) : zstdCompressSync(text);
      expect((await compressed(half.subarray(0, half.length - 12), encoding)).status).toBe(400);
    }
  });
});

describe("headers", () => {
  it("x-api-key works like a Bearer key, also for the operator; a Bearer key has priority", async () => {
    const get = (path: string, headers: Record<string, string>) => send(path, { headers });
    const profile = "/api/v1/users/me";
    expect((await get(profile, { "x-api-key": user.key })).status).toBe(200);
    expect((await get(profile, { "x-api-key": user.key, Authorization: "Basic eDp5" })).status).toBe(200);
    expect((await get(profile, { "x-api-key": "wrong", Authorization: `Bearer ${user.key}` })).status).toBe(200);
    expect((await get(profile, { "x-api-key": "wrong" })).status).toBe(401);
    expect((await get("/api/v1/admin/users", { "x-api-key": ADMIN_KEY })).status).toBe(200);
  });

  it("x-ratelimit-* have the same values as RateLimit-*, in OpenAI's format", async () => {
    const { headers } = await user.get("/api/v1/users/me");
    expect(headers.get("x-ratelimit-limit-requests")).toBe(headers.get("ratelimit-limit"));
    expect(headers.get("x-ratelimit-remaining-requests")).toBe(headers.get("ratelimit-remaining"));
    expect(headers.get("x-ratelimit-reset-requests")).toBe(`${headers.get("ratelimit-reset")}s`);
  });

  it("RateLimit and RateLimit-Policy have the same values in the form of the present draft", async () => {
    const { headers } = await user.get("/api/v1/users/me");
    const value = (name: string) => headers.get(name);
    expect(value("ratelimit-policy")).toBe(`"requests";q=${value("ratelimit-limit")};w=60`);
    expect(value("ratelimit")).toBe(`"requests";r=${value("ratelimit-remaining")};t=${value("ratelimit-reset")}`);
  });

  it.each<[string, string, Record<string, string>, string]>([
    ["without a key", "/api/v1/users/me", {}, 'Bearer realm="Purser"'],
    [
      "with a wrong key",
      "/api/v1/users/me",
      { Authorization: "Bearer wrong" },
      'Bearer realm="Purser", error="invalid_token"',
    ],
    [
      "with a wrong x-api-key",
      "/api/v1/messages",
      { "x-api-key": "wrong" },
      'Bearer realm="Purser", error="invalid_token"',
    ],
    ["of an operator's endpoint", "/api/v1/admin/users", {}, 'Bearer realm="Purser"'],
  ])("a 401 %s says how to authenticate", async (_, path, headers, challenge) => {
    const method = path === "/api/v1/messages" ? "POST" : "GET";
    const answer = await send(path, { method, headers });
    expect([answer.status, answer.headers.get("www-authenticate")]).toEqual([401, challenge]);
  });

  it("pages of PURSER_CORS_ORIGINS may call the API with a key, but other pages may not", async () => {
    const preflight = (origin: string) =>
      send(CHAT, {
        method: "OPTIONS",
        headers: {
          Origin: origin,
          "Access-Control-Request-Method": "POST",
          "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os",
        },
      });
    const allowed = await preflight(ORIGIN);
    expect(allowed.status).toBe(204);
    expect(allowed.headers.get("access-control-allow-origin")).toBe(ORIGIN);
    expect(allowed.headers.get("access-control-allow-headers")).toContain("x-stainless-os");
    expect(allowed.headers.get("access-control-allow-credentials")).toBeNull();
    expect((await preflight("https://evil.example.com")).headers.get("access-control-allow-origin")).toBeNull();
    const { headers } = await user.post(CHAT, ask("lab/plain"), { Origin: ORIGIN });
    expect(headers.get("access-control-allow-origin")).toBe(ORIGIN);
    const exposed = headers.get("access-control-expose-headers");
    // A page that cannot read X-Should-Retry would repeat a failure that has cost tokens.
    for (const name of ["X-Request-Id", "X-Should-Retry", "Purser-Archived-Before"]) expect(exposed).toContain(name);
    await settledBalance(user);
  });
});
