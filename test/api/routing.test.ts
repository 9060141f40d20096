import { beforeEach, describe, expect, it } from "vitest";
import { openStream, textOf } from "../support/event-stream.ts";
import { ask, charges, settledBalance, startLab, useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion, cut, delta, hanging, json, type Reply } from "../support/upstream.ts";

// `auto` with failing upstreams, low funds, and unknown names (contract 4).

const CHAT = "/api/v1/chat/completions";
const GRANT = 1_000_000;
const MODELS = [
  { id: "lab/first", input_rate: 0.1, output_rate: 0.2 },
  { id: "lab/second", input_rate: 0.5, output_rate: 1 },
  { id: "lab/dear", input_rate: 20, output_rate: 80, trial_eligible: false },
];
const HARD = [{ role: "user", content: "Analyse and compare: ```function f(x) { return x; }```" }];
const error = { error: { message: "words of the provider", code: "x" } };

let user: Client;
const lab = useLab(MODELS, { limits: { fallback_after_seconds: 1 } });
beforeEach(async () => {
  lab.upstream.answer(completion());
  user = await lab.service.newUser({ trial: false, tokens: GRANT });
  // a model that answers no longer counts as failing
  for (const { id } of MODELS) await user.post(CHAT, ask(id));
  user = await lab.service.newUser({ trial: false, tokens: GRANT });
  lab.upstream.requests.length = 0;
});

const only = (broken: Record<string, Reply>): Reply => {
  return (response, request) => (broken[request.body.model] ?? completion())(response, request);
};
const tried = () => lab.upstream.requests.map(({ body }) => body.model);
const limited =
  (retry_after: string): Reply =>
  (response) => {
    response.writeHead(429, { "content-type": "application/json", "retry-after": retry_after });
    response.end(JSON.stringify(error));
  };

describe("an upstream that misbehaves before its first word", () => {
  const ways: [string, Reply, string][] = [
    ["429 with Retry-After", limited("60"), "upstream_error"],
    ["500", json(error, 500), "upstream_error"],
    ["503 with a page", (response) => void response.writeHead(503).end("<html>"), "upstream_error"],
    ["a hang", () => {}, "upstream_timeout"],
    ["a reset", (response) => void response.socket?.resetAndDestroy(), "upstream_error"],
    ["garbage", (response) => void response.writeHead(200).end('{"choices": [{{{'), "upstream_error"],
    ["JSON that is no completion", json({ choices: [] }), "upstream_error"],
  ];
  it.each(ways)("%s: the next model answers and only it is charged, streamed or not", async (_, reply, code) => {
    lab.upstream.answer(only({ first: reply }));
    const whole = await user.post(CHAT, ask("auto"));
    expect(whole.body.routing).toMatchObject({
      chosen: "lab/second",
      fallbacks: [{ model: "lab/first", reason: code }],
    });
    expect(await charges(user)).toMatchObject([{ model: "lab/second", amount: -whole.body.usage.cost_tokens }]);

    lab.upstream.answer(completion());
    await user.post(CHAT, ask("lab/first"));
    lab.upstream.answer(only({ first: reply }));
    const stream = await openStream(lab.service, user, ask("auto"));
    const all = await stream.rest();
    const last = JSON.parse(all.at(-2) ?? "");
    expect(textOf(all)).toBe("hello from upstream");
    expect(last.routing).toMatchObject({ chosen: "lab/second", fallbacks: [{ model: "lab/first", reason: code }] });
    await settledBalance(user);
  });

  it("is tried last afterwards, until it has answered", async () => {
    lab.upstream.answer(only({ first: limited("100") }));
    await user.post(CHAT, ask("auto"));
    const { body } = await user.post(CHAT, ask("auto"));
    expect(tried()).toEqual(["first", "second", "second"]);
    expect(body.routing).toMatchObject({ candidates: ["lab/second", "lab/dear", "lab/first"], fallbacks: [] });
    lab.upstream.answer(completion());
    await user.post(CHAT, ask("lab/first"));
    expect((await user.post(CHAT, ask("auto"))).body.routing.chosen).toBe("lab/first");
  });

  it("is called again once its Retry-After is over", async () => {
    lab.upstream.answer(limited("1"), completion());
    expect((await user.post(CHAT, ask("auto"))).body.routing.chosen).toBe("lab/second");
    const chosen = async () => (await user.post(CHAT, ask("auto"))).body.routing.chosen;
    await expect.poll(chosen, { interval: 100 }).toBe("lab/first");
  });

  it("passes its Retry-After on to a caller who named the model, and quotes its message as the provider's", async () => {
    lab.upstream.answer(limited("17"));
    const { status, headers, body } = await user.post(CHAT, ask("lab/first"));
    expect([status, body.error.code, headers.get("retry-after")]).toEqual([502, "upstream_error", "17"]);
    expect(body.error.message).not.toContain("words of the provider");
    expect(body.error.metadata.provider).toEqual({ status: 429, code: "x", message: "words of the provider" });
    expect(tried()).toEqual(["first"]);
  });
});

describe("an upstream that disconnects after its first word", () => {
  it("ends the stream with an error event; no other model takes over, and the output so far is charged", async () => {
    lab.upstream.answer(only({ first: cut(delta("a word or two")) }));
    const stream = await openStream(lab.service, user, ask("auto"));
    const all = await stream.rest();
    expect(textOf(all.slice(0, -1))).toBe("a word or two");
    expect(JSON.parse(all.at(-1) ?? "").error).toMatchObject({ type: "api_error", code: "upstream_error" });
    expect(tried()).toEqual(["first"]);
    expect(await settledBalance(user)).toBeLessThan(GRANT);
    expect(await charges(user)).toMatchObject([{ model: "lab/first" }]);
  });

  it("is not replaced for being slow once it has begun", async () => {
    lab.upstream.answer(hanging(delta("slow")));
    const stream = await openStream(lab.service, user, ask("auto"));
    expect(await stream.next()).toContain("slow");
    const over = stream.next().then(
      () => "over",
      () => "over",
    );
    const patience = new Promise((resolve) => setTimeout(resolve, 1_300, "still open"));
    expect(await Promise.race([over, patience])).toBe("still open");
    stream.hangUp();
    await settledBalance(user);
  });
});

describe("the account's funds", () => {
  it("exclude models that the account cannot pay, without a call to their providers", async () => {
    const poor = await lab.service.newUser({ trial: false, tokens: 700 });
    const { status, body } = await poor.post(CHAT, ask("auto", { messages: HARD, max_tokens: 300 }));
    expect(status).toBe(200);
    expect(body.routing.chosen).not.toBe("lab/dear");
    expect(body.routing.fallbacks).toEqual([{ model: "lab/dear", reason: "insufficient_balance" }]);
    expect(tried()).not.toContain("dear");
  });

  it("include a key's budget", async () => {
    const made = await user.post("/api/v1/api-keys", { name: "small", budget_tokens: 700 });
    const { status, body } = await lab.service
      .as(made.body.key)
      .post(CHAT, ask("auto", { messages: HARD, max_tokens: 300 }));
    expect([status, body.routing?.fallbacks]).toEqual([
      200,
      [{ model: "lab/dear", reason: expect.stringMatching(/^(insufficient_balance|key_budget_exceeded)$/) }],
    ]);
  });

  it("do not hide a provider's failure if all other models are too expensive", async () => {
    lab.upstream.answer(json(error, 500));
    const poor = await lab.service.newUser({ trial: false, tokens: 700 });
    const { status, body } = await poor.post(CHAT, ask("auto", { max_tokens: 300 }));
    expect([status, body.error.code]).toEqual([502, "upstream_error"]);
    expect(await settledBalance(poor)).toBe(700);
  });
});

describe("an agent with auto_route", () => {
  it("shows its routing in the run's record, with fallbacks, and keeps its model", async () => {
    lab.upstream.answer(only({ first: json(error, 500) }));
    const agent = { name: "router", auto_route: true, run_prompt: "go" };
    const { id } = (await user.post("/api/v1/agents", agent)).body;
    const { status, body } = await user.post(`/api/v1/agents/${id}/runs`, undefined, { Prefer: "wait=20" });
    expect([status, body.status, body.model_id]).toEqual([200, "succeeded", "lab/second"]);
    expect(body.routing).toEqual({
      candidates: ["lab/first", "lab/second", "lab/dear"],
      chosen: "lab/second",
      reason: "score 0: tier economy, the cheapest in it",
      fallbacks: [{ model: "lab/first", reason: "upstream_error" }],
    });
    const chat = await user.post(`/api/v1/agents/${id}/chat`, { messages: [{ role: "user", content: "hello" }] });
    // Its provider has just failed, so it is tried last.
    expect(chat.body.routing).toMatchObject({ chosen: "lab/second", fallbacks: [] });
    const messages = [{ role: "user", content: "hello" }];
    const thread = { messages, thread_id: "t1" };
    await user.post(CHAT, ask("lab/first"));
    expect((await user.post(`/api/v1/agents/${id}/chat`, thread)).body.model).toBe("lab/second");
    lab.upstream.answer(completion());
    await user.post(CHAT, ask("lab/first")); // lab/first answers again, but the thread stays with its model
    const later = (await user.post(`/api/v1/agents/${id}/chat`, thread)).body;
    expect([later.model, later.routing?.reason]).toEqual(["lab/second", "kept from earlier turns"]);
  });
});

describe("free models", () => {
  it("are the cheapest of all, and cost nothing", async () => {
    const free = await startLab([...MODELS, { id: "lab/free", input_rate: 0, output_rate: 0 }]);
    const caller = await free.service.newUser({ trial: false, tokens: 1_000 });
    const { body } = await caller.post(CHAT, ask("auto"));
    expect(body.routing.chosen).toBe("lab/free");
    expect([body.usage.cost_tokens, await settledBalance(caller)]).toEqual([0, 1_000]);
    await free.stop();
  });
});

describe("names", () => {
  it("include a model's UUID", async () => {
    const { uuid } = (await user.get("/api/v1/models/lab/second")).body;
    expect((await user.post(CHAT, ask(uuid))).body.model).toBe("lab/second");
  });

  it("that are unknown get an error with the most similar one", async () => {
    for (const model of ["lab/secnod", "second"]) {
      const { status, body } = await user.post(CHAT, ask(model));
      expect([status, body.error.code, body.error.param]).toEqual([404, "model_not_found", "model"]);
      expect(body.error.message).toContain("Did you mean lab/second");
    }
  });

  it("outside the trial are named if only they could answer", async () => {
    const closed = await startLab(MODELS.map((model) => ({ ...model, trial_eligible: false })));
    const trial = await closed.service.newUser();
    const { status, body } = await trial.post(CHAT, ask("auto"));
    // The rehearsal is for trials, but is no substitute for a real model on offer.
    expect([status, body.error?.code]).toEqual([403, "model_not_trial_eligible"]);
    await closed.stop();
  });
});
