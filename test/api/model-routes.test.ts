import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { newId } from "../../src/platform/lib/ids.ts";
import { ask, expectCleanAudit } from "../support/lab.ts";
import { metricsOf } from "../support/metrics.ts";
import { NATIVE_APIS } from "../support/native-apis/lab.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import { completion, event, events, json, type Reply, startUpstream, type Upstream } from "../support/upstream.ts";

let service: Service;
let near: Upstream;
let far: Upstream;
let user: Client;

/** Two accounts at one kind of provider, each with its own upstream. */
function configOf(): object {
  const model = (id: string, fields: object) => ({
    id,
    provider_model: id.split("/").at(-1),
    input_rate: 1,
    output_rate: 2,
    trial_eligible: true,
    context_window: 128_000,
    max_output_tokens: 4_096,
    supports: { tools: true, json_schema: true },
    ...fields,
  });
  return {
    providers: [
      { name: "near", kind: "openai-compatible", base_url: near.url, api_key_env: "NEAR_KEY" },
      { name: "far", kind: "openai-compatible", base_url: far.url, api_key_env: "FAR_KEY" },
      { name: "closed", kind: "openai-compatible", base_url: far.url, api_key_env: "CLOSED_KEY" },
      { name: "openai-near", kind: "openai", base_url: near.url, api_key_env: "NEAR_KEY" },
      { name: "openai-far", kind: "openai", base_url: far.url, api_key_env: "FAR_KEY" },
      { name: "claude-far", kind: "anthropic", base_url: far.url, api_key_env: "FAR_KEY" },
    ],
    models: [
      // Weight 0: every caller begins with the first route. Each test has its own model, because failed routes rest.
      ...["first", "second", "third", "fourth"].map((name) =>
        model(`lab/${name}`, {
          routes: [
            { provider: "near", upstream_usd_per_million: { input: 1, output: 2 } },
            { provider: "far", weight: 0, provider_model: "far-name" },
          ],
          upstream_usd_per_million: { input: 3, output: 4 },
        }),
      ),
      model("lab/even", { routes: [{ provider: "near" }, { provider: "far" }] }),
      model("lab/keyless", { routes: [{ provider: "closed" }, { provider: "far", weight: 0 }] }),
      model("lab/unreachable", { routes: [{ provider: "closed" }] }),
      model("lab/mixed", { routes: [{ provider: "near" }, { provider: "claude-far", weight: 0 }] }),
      ...["relayed", "streamed", "keyed"].map((name) =>
        model(`lab/${name}`, { routes: [{ provider: "near" }, { provider: "far", weight: 0 }] }),
      ),
      ...["reasons", "responds"].map((name) =>
        model(`lab/${name}`, {
          routes: [{ provider: "openai-near" }, { provider: "openai-far", weight: 0 }],
          provider_model: NATIVE_APIS.openai.provider_model,
        }),
      ),
    ],
    limits: { requests_per_minute: 1_000_000 },
  };
}

beforeAll(async () => {
  [near, far] = [await startUpstream(), await startUpstream()];
  service = await startService({ env: { NEAR_KEY: "near-key", FAR_KEY: "far-key" }, config: configOf() });
});
beforeEach(async () => {
  for (const upstream of [near, far]) {
    upstream.answer(completion());
    upstream.requests.length = 0;
  }
  user = await service.newUser({ trial: false, tokens: 10_000_000 });
});
afterAll(async () => {
  await expectCleanAudit(service);
  await service.stop();
  await Promise.all([near.close(), far.close()]);
});

const chat = (model: string, fields: object = {}) =>
  user.post("/api/v1/chat/completions", ask(model, fields as Record<string, unknown>));
const calls = () => [near.requests.length, far.requests.length];
const busy =
  (seconds: number): Reply =>
  (response) =>
    void response.writeHead(429, { "retry-after": String(seconds), "content-type": "application/json" }).end("{}");

test.each([false, true])(
  "after a 429 of one route another route answers, and the first rests for its Retry-After; stream: %s",
  async (stream) => {
    const model = stream ? "lab/second" : "lab/first";
    near.answer(busy(100));
    far.answer(completion("from far"));
    const answer = await chat(model, { stream });
    expect(answer.status).toBe(200);
    expect(calls()).toEqual([1, 1]);
    expect(far.requests[0]?.body.model).toBe("far-name");
    expect(far.requests[0]?.headers.authorization).toBe("Bearer far-key");
    if (!stream) {
      expect(answer.body.choices[0].message.content).toBe("from far");
      expect(answer.body.model).toBe(model);
      expect(answer.body.routing).toMatchObject({ chosen: model, fallbacks: [{ model, route: "near" }] });
    } else expect(answer.body).toContain('"route":"near"');
    const next = await chat(model);
    expect(calls()).toEqual([1, 2]);
    expect(next.body).not.toHaveProperty("routing");
    const charges = await user.get("/api/v1/users/me/transactions?type=usage");
    // 10 × 1 + 4 × 2: the price is the model's, by each route.
    expect(charges.body.transactions.map(({ amount }: { amount: number }) => amount)).toEqual([-18, -18]);
  },
);

test("the operator's cost is computed by the prices of the route that answered", async () => {
  const costs = async () => {
    const text = "select upstream_cost_micro_usd::int as cost from usage_event where user_id = $1 order by created_at";
    const db = await service.database.open();
    const rows = await db.query<{ cost: number }>({ text, values: [user.user_id] });
    await db.close();
    return rows.map(({ cost }) => cost);
  };
  await chat("lab/third");
  near.answer(json({}, 503));
  await chat("lab/third");
  // 10 × 1 + 4 × 2 by the first route; 10 × 3 + 4 × 4 by the second, which has the model's own prices.
  expect(await costs()).toEqual([18, 46]);
});

test("while all routes rest they are still tried, and the caller gets the provider's Retry-After", async () => {
  near.answer(busy(60));
  far.answer(busy(70));
  const answers = [await chat("lab/fourth"), await chat("lab/fourth")];
  for (const { status, headers } of answers) {
    expect(status).toBe(502);
    expect(Number(headers.get("retry-after"))).toBeGreaterThanOrEqual(60);
  }
  expect(calls()).toEqual([2, 2]);
  expect((await user.get("/api/v1/users/me")).body.balance.held).toBe(0);
});

test("calls of one user, or with one prompt_cache_key, take the same route; many keys take both routes", async () => {
  for (let n = 0; n < 4; n += 1) await chat("lab/even");
  expect(calls()).toContain(4);
  const routes = new Set<string>();
  for (let n = 0; n < 12; n += 1) {
    const before = calls();
    await chat("lab/even", { prompt_cache_key: `key-${n}` });
    await chat("lab/even", { prompt_cache_key: `key-${n}` });
    const added = calls().map((count, at) => count - (before[at] as number));
    expect(added).toContain(2);
    routes.add(String(added));
  }
  expect(routes.size).toBe(2);
});

test("the calls of an agent's runs take the same route", async () => {
  const wanted = { name: "Scout", model_id: "lab/even", run_prompt: "Hello." };
  const { body: agent } = await user.post("/api/v1/agents", wanted);
  for (let n = 0; n < 4; n += 1) {
    const run = await user.post(`/api/v1/agents/${agent.id}/runs`, undefined, { Prefer: "wait=30" });
    expect(run.body.status).toBe("succeeded");
    expect(["near", "far"]).toContain(run.body.steps[0].result.route);
  }
  expect(calls()).toContain(4);
});

test("a route without its key is not used, and a model without any route is not offered", async () => {
  expect((await chat("lab/keyless")).status).toBe(200);
  expect(calls()).toEqual([0, 1]);
  expect(far.requests[0]?.headers.authorization).toBe("Bearer far-key");
  expect((await chat("lab/unreachable")).status).toBe(404);
});

test("the list has a model with routes once, with the parameters that all routes accept", async () => {
  const { data } = (await user.get("/api/v1/models")).body;
  const found = data.filter(({ id }: { id: string }) => id === "lab/mixed");
  expect(found).toHaveLength(1);
  expect(found[0].supported_parameters).toContain("temperature");
  expect(found[0].supported_parameters).not.toContain("logit_bias");
  expect(found[0].supported_parameters).not.toContain("seed");
});

test("the operator sees the failures of a route behind the answers of another one", async () => {
  near.answer(json({ error: { message: "no such key" } }, 401));
  expect((await chat("lab/keyed")).status).toBe(200);
  expect(calls()).toEqual([1, 1]);
  const text = await metricsOf(service.url);
  expect(text).toContain('purser_upstream_errors_total{provider="near",model="lab/keyed",code="upstream_error"} 1');
});

test("a slow answer without streaming is waited for, but a stream without events is taken over by the next route", async () => {
  const with_fallback_time = { ...configOf(), limits: { requests_per_minute: 1_000_000, fallback_after_seconds: 1 } };
  const env = { NEAR_KEY: "near-key", FAR_KEY: "far-key" };
  const other = await startService({ env, config: with_fallback_time });
  try {
    const caller = await other.newUser({ trial: false, tokens: 10_000_000 });
    const ask_for = (stream: boolean) => caller.post("/api/v1/chat/completions", ask("lab/first", { stream }));
    near.answer(async (response, request) => {
      // Longer than fallback_after_seconds.
      await new Promise((resolve) => setTimeout(resolve, 1_500));
      await completion("slow")(response, request);
    });
    far.answer(completion("from far"));
    expect((await ask_for(false)).body.choices[0].message.content).toBe("slow");
    expect(calls()).toEqual([1, 0]);
    near.answer(() => {});
    expect((await ask_for(true)).status).toBe(200);
    expect(calls()).toEqual([2, 1]);
    await expectCleanAudit(other);
  } finally {
    await other.stop();
  }
});

test("a request with an error is not sent to another route", async () => {
  near.answer(json({ error: { message: "no" } }, 400));
  expect((await chat("lab/relayed")).status).toBe(400);
  expect(calls()).toEqual([1, 0]);
});

test("with auto, a failed route is among the fallbacks, and the chosen model stays the same", async () => {
  near.answer(json({}, 500));
  far.answer(completion());
  const { body } = await chat("lab/mixed", { models: ["lab/keyless"] });
  expect(body.routing).toMatchObject({ candidates: ["lab/mixed", "lab/keyless"] });
  expect(body.routing.fallbacks[0]).toEqual({ model: "lab/mixed", reason: "upstream_error", route: "near" });
});

/** A conversation whose last answer came from a model that reasons. */
const followUp = (message: object) => ({
  messages: [{ role: "user", content: "Think." }, message, { role: "user", content: "Sure?" }],
  reasoning_effort: "high",
});

test("encrypted reasoning of one account is never sent to another, and a request goes to the account that made it", async () => {
  const thinking = () => NATIVE_APIS.openai.create(() => ({ reasoning: "known", text: "Green." })).reply;
  near.answer(busy(1));
  far.answer(thinking());
  const asked = { messages: [{ role: "user", content: "Think." }], reasoning_effort: "high" };
  const first = (await chat("lab/reasons", asked)).body.choices[0].message;
  expect(first.reasoning_details.at(-1)).toMatchObject({ model: "lab/reasons", route: "openai-far" });
  const secret = first.reasoning_details.at(-1).data;
  near.answer(thinking());
  near.requests.length = 0;
  // The first route works again, but only the second can read this reasoning.
  await expect
    .poll(
      async () => (await chat("lab/reasons", { ...asked, prompt_cache_key: newId() })).status && near.requests.length,
      {
        interval: 300,
      },
    )
    .toBeGreaterThan(0);
  [near.requests.length, far.requests.length] = [0, 0];
  expect((await chat("lab/reasons", followUp(first))).status).toBe(200);
  expect(calls()).toEqual([0, 1]);
  expect(JSON.stringify(far.requests[0]?.body)).toContain(secret);
  // Its account fails: the other one answers without the reasoning.
  far.answer(json({}, 500));
  expect((await chat("lab/reasons", followUp(first))).status).toBe(200);
  expect(near.requests).toHaveLength(1);
  expect(JSON.stringify(near.requests[0]?.body)).not.toContain(secret);
});

test("a reasoning item of one account is never sent to another, also through Responses", async () => {
  const thinking = () => NATIVE_APIS.openai.create(() => ({ reasoning: "known", text: "Green." })).reply;
  const ask_for = (input: object[]) =>
    user.post("/api/v1/responses", { model: "lab/responds", input, reasoning: { effort: "high" } });
  const asked = { role: "user", content: "Think." };
  near.answer(thinking());
  const { output } = (await ask_for([asked])).body;
  const follow_up = [asked, ...output, { role: "user", content: "Sure?" }];
  const types = ({ requests }: Upstream) => requests.at(-1)?.body.input.map(({ type }: { type?: string }) => type);
  expect((await ask_for(follow_up)).status).toBe(200);
  expect(types(near)).toContain("reasoning");
  // Its account fails: the other one answers without the reasoning.
  near.answer(json({}, 500));
  far.answer(thinking());
  expect((await ask_for(follow_up)).status).toBe(200);
  expect(far.requests).toHaveLength(1);
  expect(types(far)).not.toContain("reasoning");
});

test.each([false, true])(
  "reasoning of an OpenAI-compatible account carries its route, which the provider does not see; stream: %s",
  async (stream) => {
    const model = stream ? "lab/streamed" : "lab/relayed";
    const details = [{ type: "reasoning.encrypted", data: "sealed-by-near", format: "x" }];
    const identity = { id: "x", object: "chat.completion", created: 1, model: "m" };
    const message = { role: "assistant", content: "Green.", reasoning_details: details };
    const usage = { prompt_tokens: 10, completion_tokens: 4 };
    near.answer(
      stream
        ? events(
            event({ choices: [{ index: 0, delta: message, finish_reason: null }] }),
            event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage }),
            "data: [DONE]\n\n",
          )
        : json({ ...identity, choices: [{ index: 0, message, finish_reason: "stop" }], usage }),
    );
    const answer = stream
      ? await (
          await fetch(`${service.url}/api/v1/chat/completions`, {
            method: "POST",
            headers: { Authorization: `Bearer ${user.key}`, "Content-Type": "application/json" },
            body: JSON.stringify(ask(model, { stream })),
          })
        ).text()
      : JSON.stringify((await chat(model)).body);
    const marked = { ...details[0], route: "near" };
    expect(answer).toContain(JSON.stringify(marked));
    near.answer(completion());
    const sent = followUp({ ...message, reasoning_details: [marked] });
    await chat(model, { messages: sent.messages });
    expect(near.requests.at(-1)?.body.messages[1].reasoning_details).toEqual(details);
    near.answer(json({}, 503));
    await chat(model, { messages: sent.messages });
    expect(JSON.stringify(far.requests.at(-1)?.body)).not.toContain("sealed-by-near");
    near.answer(completion());
  },
);
