import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { ask, charges, settledBalance, useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { startSite } from "../support/sites.ts";
import { completion, delta, event, hanging, json } from "../support/upstream.ts";

// Attacks in which a call would cost the operator more than the caller pays.

const WINDOW = 128_000;
const GRANT = 1_000_000;

let user: Client;

const PIXEL = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);
/** Pictures by address are fetched from it. */
const site = await startSite({ "/huge.png": { headers: { "content-type": "image/png" }, body: PIXEL } });
afterAll(() => site.close());

const lab = useLab(
  [
    { id: "lab/plain", input_rate: 1, output_rate: 2 },
    { id: "lab/media", input_rate: 1, output_rate: 2, supports: { vision: true, files: true, audio: true } },
    { id: "lab/bounded", input_rate: 1, output_rate: 2, supports: { vision: true }, part_tokens: { image: 4_096 } },
    { id: "lab/tiered", input_rate: 1, output_rate: 2, forward: ["service_tier"] },
  ],
  { env: { PURSER_EGRESS_ALLOW: site.host } },
);
beforeEach(async () => {
  lab.upstream.answer(completion());
  lab.upstream.requests.length = 0;
  user = await lab.service.newUser({ trial: false, tokens: GRANT });
});

const complete = (body: object) => user.post("/api/v1/chat/completions", body);
const picture = { type: "image_url", image_url: { url: `${site.url}/huge.png`, detail: "high" } };
const film = { type: "video_url", video_url: { url: "https://films.test/long.mp4" } };
const showing = (model: string, part: object, fields: object = {}) => ({
  model,
  max_tokens: 10,
  messages: [{ role: "user", content: [{ type: "text", text: "look" }, part] }],
  ...fields,
});

describe("content by reference from an account that cannot pay for it", () => {
  const parts: [string, object][] = [
    ["a remote picture", picture],
    ["a picture as a data: URL", { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }],
    ["a file by id", { type: "file", file: { file_id: "file-1" } }],
    ["a file as data", { type: "file", file: { file_data: "data:application/pdf;base64,AAAA", filename: "a.pdf" } }],
    ["audio", { type: "input_audio", input_audio: { data: "AAAA", format: "mp3" } }],
  ];
  it.each(parts)("%s: ten calls at once reach no provider and absorb nothing", async (_name, part) => {
    const poor = await lab.service.newUser({ trial: false, tokens: 10_000 });
    lab.upstream.answer(completion("seen", { prompt_tokens: 120_000, completion_tokens: 4 }));
    const calls = Array.from({ length: 10 }, () => poor.post("/api/v1/chat/completions", showing("lab/media", part)));
    for (const { status } of await Promise.all(calls)) expect(status).toBe(402);
    expect([lab.upstream.requests, site.requests]).toEqual([[], []]);
    expect(await settledBalance(poor)).toBe(10_000);
  });

  it("is held for the context window, or for the operator's part_tokens, and charged as the provider reports", async () => {
    lab.upstream.answer(completion("seen", { prompt_tokens: WINDOW, completion_tokens: 4 }));
    const { headers } = await complete(showing("lab/media", picture));
    const explained = await user.get(`/api/v1/billing/explain/${headers.get("x-request-id")}`);
    expect(explained.body.hold.requested_tokens).toBeGreaterThanOrEqual(WINDOW + 20);
    expect(explained.body).toMatchObject({ cost_tokens: WINDOW + 8, absorbed_tokens: 0, estimated: false });
    lab.upstream.answer(completion("seen", { prompt_tokens: 4_100, completion_tokens: 4 }));
    const bounded = await complete(showing("lab/bounded", picture));
    const { hold } = (await user.get(`/api/v1/billing/explain/${bounded.headers.get("x-request-id")}`)).body;
    expect(hold.requested_tokens).toBeGreaterThanOrEqual(4_100 + 20);
    expect(hold.requested_tokens).toBeLessThan(5_000);
  });

  it("leaves room for the answer in the window, although all of the window is held", async () => {
    await complete({ ...showing("lab/media", picture), max_tokens: undefined });
    expect(lab.upstream.requests.at(-1)?.body.max_tokens).toBe(4_096);
  });

  it.each([
    ["lab/plain", picture],
    ["lab/bounded", { type: "file", file: { file_id: "file-1" } }],
    ["lab/media", film],
    ["auto", film],
  ])("is rejected with 400 if %s has not declared such parts", async (model, part) => {
    const { status, body } = await complete(showing(model, part));
    expect(status).toBe(400);
    expect(body.error.param).toBe("messages[0].content[1]");
    expect(lab.upstream.requests).toEqual([]);
  });

  it("does not reach an agent whose model reads no pictures", async () => {
    const { id } = (await user.post("/api/v1/agents", { name: "Scout", model_id: "lab/plain" })).body;
    const { status, body } = await complete(showing(`agent/${id}`, picture));
    expect([status, body.error.param]).toEqual([400, "messages[0].content[1]"]);
    expect((await complete({ ...ask(`agent/${id}`), service_tier: "priority" })).body.error).toMatchObject({
      code: "unsupported_parameter",
      param: "service_tier",
    });
    const content = [picture];
    expect((await user.post(`/api/v1/agents/${id}/chat`, { messages: [{ role: "user", content }] })).status).toBe(400);
  });

  it("is declared in the models list", async () => {
    const { supports } = (await user.get("/api/v1/models/lab/media")).body;
    expect(supports).toMatchObject({ vision: true, files: true, audio: true });
  });
});

describe("a paid option at the plain rate", () => {
  const options: [string, object][] = [
    ["service_tier", { service_tier: "priority" }],
    ["web_search_options", { web_search_options: {} }],
    ["fallbacks", { fallbacks: ["dear/model"] }],
    ["modalities", { modalities: ["audio"] }],
    ["best_of", { best_of: 5 }],
    ["store", { store: true }],
    ["min_tokens", { min_tokens: 4_000 }],
    ["api_base", { api_base: "http://169.254.169.254/" }],
    ["tools[0].type", { tools: [{ type: "web_search" }] }],
  ];
  it.each(options)("%s is rejected by name, and nothing is sent or charged", async (param, option) => {
    // Another model forwards service_tier, so `auto` works.
    for (const model of param === "service_tier" ? ["lab/plain"] : ["lab/plain", "auto"]) {
      const { status, body } = await complete({ ...ask(model), ...option });
      expect([status, body.error.code, body.error.param]).toEqual([400, "unsupported_parameter", param]);
    }
    expect(lab.upstream.requests).toEqual([]);
    expect(await settledBalance(user)).toBe(GRANT);
  });

  it("is passed on if the operator forwards it, and `auto` finds such a model", async () => {
    for (const model of ["lab/tiered", "auto"]) {
      const { status } = await complete({ ...ask(model), service_tier: "flex" });
      expect([status, lab.upstream.requests.at(-1)?.body.service_tier]).toEqual([200, "flex"]);
    }
  });

  it("is accepted as null, as whole objects send unused fields", async () => {
    const unused = ["tools", "tool_choice", "response_format", "user", "service_tier", "store", "web_search_options"];
    const nulls = Object.fromEntries(unused.map((field) => [field, null]));
    const messages = [{ role: "user", content: "hello", tool_calls: null, name: null }];
    const answer = { role: "assistant", content: "yes", tool_calls: null, refusal: null, audio: null };
    const { status } = await complete({ ...ask("lab/plain"), ...nulls, messages: [...messages, answer, ...messages] });
    expect(status).toBe(200);
    expect(Object.keys(lab.upstream.requests.at(-1)?.body).sort()).toEqual(["max_tokens", "messages", "model"]);
  });
});

describe("a prompt whose caller disconnects before the first word", () => {
  const PROMPT = "word ".repeat(2_000);
  /** ceil(10,000 bytes / 4) */
  const INPUT = 2_500;
  const streamed = (model: string, fields: object = {}) =>
    ask(model, { stream: true, messages: [{ role: "user", content: PROMPT }], ...fields });

  /** Sends a request, and disconnects once the upstream has it and `ready` holds. */
  async function hangUpOn(body: object, ready: () => boolean = () => lab.upstream.requests.length > 0) {
    const connection = new AbortController();
    const answer = fetch(`${lab.service.url}/api/v1/chat/completions`, {
      method: "POST",
      headers: { Authorization: `Bearer ${user.key}`, "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal: connection.signal,
    });
    answer.catch(() => {});
    await lab.upstream.until(ready);
    connection.abort();
  }

  it.each([
    ["no answer has begun", () => lab.upstream.answer(() => {})],
    ["headers have come", () => lab.upstream.answer(hanging())],
    [
      "only the role has come",
      () => lab.upstream.answer(hanging(event({ choices: [{ index: 0, delta: { role: "assistant" } }] }))),
    ],
  ])("costs the input when %s, and the upstream call is aborted", async (_when, answer) => {
    answer();
    const before = lab.upstream.hangUps;
    await hangUpOn(streamed("lab/plain"));
    await lab.upstream.until(() => lab.upstream.hangUps === before + 1);
    expect(await settledBalance(user)).toBe(GRANT - INPUT);
    expect(await charges(user)).toMatchObject([{ amount: -INPUT, model: "lab/plain" }]);
  });

  const hi = { role: "user", content: "hi" };
  const answer = (fields: object) => ({ messages: [{ role: "assistant", content: "x", ...fields }, hi] });
  it.each([
    ["the reasoning of an answer", answer({ reasoning_content: PROMPT })],
    ["the details of a reasoning", answer({ reasoning_details: [{ type: "reasoning.text", text: PROMPT }] })],
    ["a refusal", answer({ refusal: PROMPT })],
    ["a part of type refusal", answer({ content: [{ type: "refusal", refusal: PROMPT }] })],
    ["a name", { messages: [{ ...hi, name: PROMPT }] }],
    [
      "the schema of an answer",
      { response_format: { type: "json_schema", json_schema: { name: "s", schema: { description: PROMPT } } } },
    ],
  ])("costs the input if the prompt is %s", async (_where, fields) => {
    lab.upstream.answer(() => {});
    await hangUpOn(streamed("lab/plain", fields));
    await expect.poll(() => settledBalance(user)).toBeLessThanOrEqual(GRANT - INPUT);
  });

  it("costs the window if it has a picture of unknown size", async () => {
    lab.upstream.answer(() => {});
    await hangUpOn({ ...showing("lab/media", picture), stream: true });
    expect(await settledBalance(user)).toBeLessThanOrEqual(GRANT - WINDOW + 1_000);
  });

  it("costs the input of the last model that `auto` has called", async () => {
    lab.upstream.answer(json({ error: { message: "down" } }, 500), () => {});
    await hangUpOn(streamed("auto"), () => lab.upstream.requests.length === 2);
    expect(await settledBalance(user)).toBe(GRANT - INPUT);
    expect(await charges(user)).toHaveLength(1);
  });

  it("costs nothing if the upstream failed before the caller disconnected", async () => {
    lab.upstream.answer(json({ error: { message: "down" } }, 500));
    expect((await complete(streamed("lab/plain"))).status).toBe(502);
    lab.upstream.answer((response) => {
      response.destroy();
    });
    expect((await complete(streamed("lab/plain"))).status).toBe(502);
    expect(await settledBalance(user)).toBe(GRANT);
  });

  it("costs the input also in a chat with an agent, and the run shows it", async () => {
    const { id } = (await user.post("/api/v1/agents", { name: "Scout", model_id: "lab/plain" })).body;
    lab.upstream.answer(() => {});
    await hangUpOn(streamed(`agent/${id}`));
    const runs = async () => (await user.get(`/api/v1/agents/${id}/runs`)).body.runs;
    await expect.poll(async () => (await runs())[0].status).toBe("cancelled");
    const { usage } = (await runs())[0];
    expect(usage).toMatchObject({ output_tokens: 0 });
    expect(usage.input_tokens).toBeGreaterThanOrEqual(INPUT);
    expect(await settledBalance(user)).toBe(GRANT - usage.cost_tokens);
  });

  it("costs the input and the output so far after the first word", async () => {
    lab.upstream.answer(hanging(delta("twelve bytes")));
    await hangUpOn(streamed("lab/plain"));
    // The word may arrive before or after the caller disconnects.
    expect([GRANT - INPUT, GRANT - INPUT - 6]).toContain(await settledBalance(user));
  });
});
