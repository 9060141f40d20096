import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openStream, textOf } from "../support/event-stream.ts";
import { ask, charges, type Lab, settledBalance, startLab } from "../support/lab.ts";
import { type Client, startService } from "../support/service.ts";
import { completion, cut, json, type Reply } from "../support/upstream.ts";

const CHAT = "/api/v1/chat/completions";
const GRANT = 1_000_000;
/** One model of each tier, and a cheap one with no abilities that is not part of trials. */
const MODELS = [
  { id: "lab/plain", input_rate: 0.1, output_rate: 0.2, trial_eligible: false, supports: { tools: false } },
  { id: "lab/small", input_rate: 0.5, output_rate: 1 },
  { id: "lab/middle", input_rate: 1, output_rate: 4 },
  { id: "lab/large", input_rate: 5, output_rate: 20, context_window: 1_000_000 },
];
const down: Reply = json({ error: { message: "no" } }, 500);
const busy: Reply = json({ error: { message: "no" } }, 429);

let lab: Lab;
let user: Client;
beforeAll(async () => {
  lab = await startLab(MODELS);
});
afterAll(() => lab.stop());
beforeEach(async () => {
  lab.upstream.answer(completion());
  user = await lab.service.newUser({ trial: false, tokens: GRANT });
  await recover();
});

/** Makes all models answer, so that none counts as failing. */
async function recover(): Promise<void> {
  const other = await lab.service.newUser({ trial: false, tokens: GRANT });
  for (const { id } of MODELS) await other.post(CHAT, ask(id));
}

const only = (broken: Record<string, Reply>): Reply => {
  return (response, request) => (broken[request.body.model] ?? completion())(response, request);
};
const auto = async (fields: Record<string, unknown> = {}, caller = user) => {
  const { status, body } = await caller.post(CHAT, ask("auto", fields));
  return { status, body, routing: body.routing };
};

describe("model: auto (contract 4)", () => {
  it("chooses the cheapest model that is good enough, and shows the reason", async () => {
    const { body, routing } = await auto();
    expect(routing).toEqual({
      candidates: ["lab/plain", "lab/small", "lab/middle", "lab/large"],
      chosen: "lab/plain",
      reason: expect.any(String),
      fallbacks: [],
    });
    expect(body.model).toBe("lab/plain");
    expect(await charges(user)).toMatchObject([{ model: "lab/plain", amount: -body.usage.cost_tokens }]);
  });

  it("shows no routing when the caller named the model", async () => {
    expect((await user.post(CHAT, ask("lab/small"))).body).not.toHaveProperty("routing");
  });

  it("does not choose models without the tools, the context or the permission that the call needs", async () => {
    const tools = [{ type: "function", function: { name: "weather" } }];
    expect((await auto({ tools })).routing.candidates).not.toContain("lab/plain");
    const long = [{ role: "user", content: "x".repeat(600_000) }];
    const rich = await lab.service.newUser({ trial: false, tokens: 10_000_000 });
    expect((await auto({ messages: long }, rich)).routing.candidates).toEqual(["lab/large"]);
    const trial = await lab.service.newUser();
    expect((await auto({}, trial)).routing.candidates).toEqual(["lab/small", "lab/middle", "lab/large"]);
  });

  it("chooses a better model for a harder task", async () => {
    const tools = [{ type: "function", function: { name: "weather" } }];
    const hard = [{ role: "user", content: "Analyse and compare: ```function f(x) { return x; }```" }];
    expect((await auto({ messages: hard })).routing.chosen).toBe("lab/middle");
    expect((await auto({ messages: hard, tools })).routing.chosen).toBe("lab/large");
  });

  it.each([
    ["500", down],
    ["429", busy],
    ["a cut connection", cut()],
  ])("falls back to the next model on %s, says so, and charges only the model that answered", async (_, reply) => {
    lab.upstream.answer(only({ plain: reply, small: reply }));
    const { status, body, routing } = await auto();
    expect(status).toBe(200);
    expect(routing).toMatchObject({
      chosen: "lab/middle",
      fallbacks: [
        { model: "lab/plain", reason: "upstream_error" },
        { model: "lab/small", reason: "upstream_error" },
      ],
    });
    expect(body.usage.cost_tokens).toBe(10 + 4 * 4);
    expect(await settledBalance(user)).toBe(GRANT - 26);
    expect(await charges(user)).toHaveLength(1);
  });

  it("falls back before a stream's first word, and shows the routing with the usage", async () => {
    lab.upstream.answer(only({ plain: down }));
    const stream = await openStream(lab.service, user, ask("auto"));
    const all = await stream.rest();
    expect(textOf(all)).toBe("hello from upstream");
    const last = JSON.parse(all.at(-2) ?? "");
    expect(last.routing).toMatchObject({ chosen: "lab/small", fallbacks: [{ model: "lab/plain" }] });
    expect(new Set(all.slice(0, -1).map((data) => JSON.parse(data).model))).toEqual(new Set(["lab/small"]));
    expect(await settledBalance(user)).toBe(GRANT - last.usage.cost_tokens);
  });

  it("does not try other models if the request itself is rejected", async () => {
    lab.upstream.answer(json({ error: { message: "no", param: "temperature" } }, 400));
    const asked = lab.upstream.requests.length;
    const { status, body } = await auto();
    expect([status, body.error.param]).toEqual([400, "temperature"]);
    expect(lab.upstream.requests).toHaveLength(asked + 1);
  });

  it("answers 502 and charges nothing if all have failed; the rehearsal model is no substitute", async () => {
    lab.upstream.answer(down);
    const { status, body } = await auto();
    expect([status, body.error.code]).toEqual([502, "upstream_error"]);
    expect(await settledBalance(user)).toBe(GRANT);
    expect(await charges(user)).toEqual([]);
  });

  it("chooses a model that the balance affords if the first one is too expensive", async () => {
    const poor = await lab.service.newUser({ trial: false, tokens: 600 });
    const hard = [{ role: "user", content: "Analyse and compare: ```function f(x) { return x; }```" }];
    const { status, routing } = await auto({ messages: hard, max_tokens: 200 }, poor);
    expect(status).toBe(200);
    expect(["lab/small", "lab/plain"]).toContain(routing.chosen);
    expect(routing.fallbacks[0]).toEqual({ model: "lab/middle", reason: "insufficient_balance" });
  });

  it("chooses the rehearsal model if no real model is on offer", async () => {
    const service = await startService();
    const caller = await service.newUser();
    const { status, body } = await caller.post(CHAT, ask("auto"));
    expect([status, body.routing?.chosen]).toEqual([200, "purser/rehearsal"]);
    await service.stop();
  });
});
