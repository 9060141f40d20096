import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openStream, textOf } from "../support/event-stream.ts";
import { ask, charges, expectCleanAudit, LAB_KEY, type Lab, settledBalance, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion, cut, delta, event, events, hanging, json, type Reply } from "../support/upstream.ts";

const CHAT = "/api/v1/chat/completions";
const GRANT = 1_000_000;
/** Text of an upstream that no caller may read. */
const WORDS = `Quota of account org-secret with key ${LAB_KEY} at https://internal.example is gone`;
const failing = (status: number) => json({ error: { message: WORDS, type: "x", code: "y" } }, status);
const text = (body: string, status = 200, type = "text/html"): Reply => {
  return (response) => {
    response.writeHead(status, { "content-type": type }).end(body);
  };
};
/** The estimated tokens of "hello" and "half a sentence". */
const REPORT = { usage: { prompt_tokens: 2, completion_tokens: 4 } };
const usage_alone = event({ choices: [], usage: { prompt_tokens: 2, completion_tokens: 2 } });
const halfDone = (content: string, finish_reason: string | null, fields = {}) =>
  event({ choices: [{ index: 0, delta: { content }, finish_reason }], ...fields });
const hungUp: Reply = (response) => {
  response.destroy();
};

let lab: Lab;
let user: Client;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab.stop());
beforeEach(async () => {
  user = await lab.service.newUser({ trial: false, tokens: GRANT });
});

describe("an upstream failure before any output costs nothing (contract 4)", () => {
  const cases: [string, Reply, number, string][] = [
    ["500", failing(500), 502, "upstream_error"],
    ["503", failing(503), 502, "upstream_error"],
    ["429", failing(429), 502, "upstream_error"],
    ["401", failing(401), 502, "upstream_error"],
    ["404", failing(404), 502, "upstream_error"],
    ["408", failing(408), 504, "upstream_timeout"],
    ["504", failing(504), 504, "upstream_timeout"],
    ["a page instead of JSON", text(`<h1>${WORDS}</h1>`), 502, "upstream_error"],
    ["an error as 200", json({ error: { message: WORDS } }), 502, "upstream_error"],
    ["an empty answer", text(""), 502, "upstream_error"],
    ["no choices", json({ id: "x", choices: [] }), 502, "upstream_error"],
    ["null", text("null", 200, "application/json"), 502, "upstream_error"],
    [
      "a redirect",
      (response) => void response.writeHead(302, { location: "/elsewhere" }).end(WORDS),
      502,
      "upstream_error",
    ],
    ["a closed connection", hungUp, 502, "upstream_error"],
  ];
  it.each(cases)("%s, in one piece and as a stream", async (_, reply, status, code) => {
    lab.upstream.answer(reply);
    for (const stream of [false, true]) {
      const answer = await user.post(CHAT, ask("lab/plain", { stream }));
      expect(answer.status).toBe(status);
      expect(answer.body.error).toMatchObject({ type: "api_error", code, param: null });
      expect(answer.headers.get("content-type")).toContain("application/json");
      expect(JSON.stringify(answer.body)).not.toMatch(/sk-lab|org-secret|internal\.example|127\.0\.0\.1/);
    }
    expect(await settledBalance(user)).toBe(GRANT);
    expect(await charges(user)).toEqual([]);
  });

  it.each([
    ["calls that are no list", { tool_calls: {} }],
    ["a call that is null", { tool_calls: [null] }],
    ["a piece of reasoning that is null", { reasoning_details: [null] }],
    ["no message in its second choice", null],
  ])("an answer with %s, at every endpoint", async (_, fields) => {
    const message = { role: "assistant", content: "hi" };
    const choices = [{ index: 0, message: { ...message, ...fields }, finish_reason: "stop" }];
    lab.upstream.answer(json({ id: "x", choices: fields === null ? [...choices, {}] : choices }));
    for (const [path, body] of [
      [CHAT, ask("lab/plain")],
      ["/api/v1/responses", { model: "lab/plain", input: "x" }],
      ["/api/v1/messages", ask("lab/plain", { max_tokens: 10 })],
    ] as const) {
      const answer = await user.post(path, body, { "Idempotency-Key": path });
      expect([answer.status, answer.body.error.code]).toEqual([502, "upstream_error"]);
    }
    expect(await settledBalance(user)).toBe(GRANT);
    expect(await charges(user)).toEqual([]);
  });

  const refusals: [string, Reply, string, string | null][] = [
    ["a bad field", json({ error: { message: WORDS, param: "temperature" } }, 400), "invalid_value", "temperature"],
    ["a field with an odd name", json({ error: { message: WORDS, param: WORDS } }, 400), "invalid_value", null],
    [
      "a prompt that is too long",
      json({ error: { code: "context_length_exceeded" } }, 400),
      "context_length_exceeded",
      "messages",
    ],
  ];
  it.each(refusals)(
    "the upstream's 400 for %s is a 400 for the caller, with Purser's message",
    async (_, reply, code, param) => {
      lab.upstream.answer(reply);
      const { status, body } = await user.post(CHAT, ask("lab/plain"));
      expect([status, body.error.code, body.error.param]).toEqual([400, code, param]);
      expect(JSON.stringify(body)).not.toMatch(/sk-lab|org-secret/);
      expect(await settledBalance(user)).toBe(GRANT);
    },
  );

  it("a refused connection", async () => {
    const offline = await startLab([{ id: "lab/gone", input_rate: 1, output_rate: 2 }]);
    await offline.upstream.close();
    const caller = await offline.service.newUser();
    for (const stream of [false, true]) {
      const { status, body } = await caller.post(CHAT, ask("lab/gone", { stream }));
      expect([status, body.error.code]).toEqual([502, "upstream_error"]);
      expect(JSON.stringify(body)).not.toMatch(/ECONNREFUSED|127\.0\.0\.1/);
    }
    expect(await settledBalance(caller)).toBe(625_000);
    await offline.service.stop();
  });

  it("a failed call can be retried, and is then charged once", async () => {
    lab.upstream.answer(failing(500), completion());
    expect((await user.post(CHAT, ask("lab/plain"))).status).toBe(502);
    expect((await user.post(CHAT, ask("lab/plain"))).status).toBe(200);
    expect((await charges(user)).map((entry) => entry.amount)).toEqual([-18]);
    await expectCleanAudit(lab.service);
  });
});

describe("an upstream that disconnects during a stream (contract 4)", () => {
  const halves: [string, Reply][] = [
    ["cuts the connection", cut(delta("half a "), delta("sentence"))],
    ["ends before its end", events(delta("half a "), delta("sentence"))],
    ["ends early with usage in its last chunk", events(delta("half a "), halfDone("sentence", null, REPORT))],
    ["ends early with usage before its last chunk", events(delta("half a "), usage_alone, delta("sentence"))],
    ["ends early with empty finish reasons", events(halfDone("half a ", ""), halfDone("sentence", ""))],
    [
      "sends an error event",
      hanging(delta("half a "), delta("sentence"), `data: {"error":{"message":"${WORDS}"}}\n\n`),
    ],
    [
      "sends an error within a chunk",
      hanging(
        delta("half a "),
        delta("sentence"),
        event({ error: { message: WORDS }, choices: [{ index: 0, delta: { content: "" }, finish_reason: "error" }] }),
      ),
    ],
  ];
  it.each(halves)(
    "%s: the output so far is delivered and billed, then an error event follows, without [DONE]",
    async (_, reply) => {
      lab.upstream.answer(reply);
      const stream = await openStream(lab.service, user, ask("lab/plain"));
      expect(stream.response.status).toBe(200);
      const all = await stream.rest();
      const last = JSON.parse(all.pop() ?? "null");
      expect(last.error).toMatchObject({ type: "api_error", code: "upstream_error", param: null });
      expect(last.error.request_id).toBe(stream.response.headers.get("x-request-id"));
      expect(textOf(all)).toBe("half a sentence");
      expect(JSON.stringify([...all, last])).not.toMatch(/sk-lab|org-secret|internal\.example/);
      // "hello": 2; "half a sentence", 15 bytes: 4 at rate 2
      expect(await settledBalance(user)).toBe(GRANT - 10);
      await expectCleanAudit(lab.service);
    },
  );

  it("ends Responses with response.failed, also if usage came with the last words", async () => {
    lab.upstream.answer(events(halfDone("half a sentence", null, REPORT)));
    const { body } = await user.post("/api/v1/responses", { model: "lab/plain", input: "hello", stream: true });
    expect(body).toContain("event: response.failed");
    expect(body).not.toContain("event: response.completed");
  });

  it("counts as complete without [DONE] if only usage or a finish reason came last", async () => {
    for (const last of [usage_alone, halfDone("", "stop")]) {
      lab.upstream.answer(events(delta("whole"), last));
      const { body } = await user.post(CHAT, ask("lab/plain", { stream: true }));
      expect(body).toContain("data: [DONE]");
    }
  });

  it("before its first word costs nothing, and the answer is a plain 502", async () => {
    lab.upstream.answer(cut());
    const answer = await user.post(CHAT, ask("lab/plain", { stream: true }));
    expect([answer.status, answer.body.error?.code]).toEqual([502, "upstream_error"]);
    expect(await settledBalance(user)).toBe(GRANT);
  });
});
