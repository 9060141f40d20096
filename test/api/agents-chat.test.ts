import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { charges, expectCleanAudit, type Lab, settledBalance, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { type Site, startSite } from "../support/sites.ts";
import { completion, delta, event, events, hanging, json, stream } from "../support/upstream.ts";

let lab: Lab;
let site: Site;
let user: Client;
let id: string;

beforeAll(async () => {
  site = await startSite({ "/": { body: "<p>The door is green.</p>" } });
  lab = await startLab(undefined, { env: { PURSER_EGRESS_ALLOW: site.host } });
});
beforeEach(async () => {
  lab.upstream.answer(completion());
  lab.upstream.requests.length = 0;
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const agent = {
    name: "Scout",
    model_id: "lab/plain",
    system_prompt: "Be brief.",
    tools_config: { web_fetch: { enabled: true } },
  };
  id = (await user.post("/api/v1/agents", agent)).body.id;
});
afterAll(async () => {
  await expectCleanAudit(lab.service);
  await lab.stop();
  await site.close();
});

const hello = { messages: [{ role: "user", content: "Hello?" }] };
const chat = (body: object) => user.post(`/api/v1/agents/${id}/chat`, body);

async function openChat(body: object) {
  const connection = new AbortController();
  const response = await fetch(`${lab.service.url}/api/v1/agents/${id}/chat`, {
    method: "POST",
    headers: { Authorization: `Bearer ${user.key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, stream: true }),
    signal: connection.signal,
  });
  return { response, hangUp: () => connection.abort() };
}
const dataOf = (text: string) =>
  text
    .split("\n\n")
    .filter((part) => part !== "")
    .map((part) => part.replace(/^data: /, ""));

/** A streamed answer with a call of web_fetch, whose arguments come in two pieces. */
function streamedFetch(url: string) {
  const [one, two] = [`{"url":`, `"${url}"}`];
  const call = (fields: object) =>
    event({ choices: [{ index: 0, delta: { tool_calls: [{ index: 0, ...fields }] }, finish_reason: null }] });
  return events(
    call({ id: "call_1", type: "function", function: { name: "web_fetch", arguments: one } }),
    call({ function: { arguments: two } }),
    event({ choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] }),
    event({ choices: [], usage: { prompt_tokens: 20, completion_tokens: 5 } }),
    "data: [DONE]\n\n",
  );
}

describe("a turn", () => {
  test("is answered as a chat.completion, and is stored as a run", async () => {
    const { status, body } = await chat(hello);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      object: "chat.completion",
      model: "lab/plain",
      choices: [{ index: 0, message: { role: "assistant", content: "hello from upstream" }, finish_reason: "stop" }],
      usage: {
        input_tokens: 10,
        output_tokens: 4,
        total_tokens: 14,
        cost_tokens: 18,
        prompt_tokens: 10,
        completion_tokens: 4,
      },
    });
    expect(lab.upstream.requests[0]?.body.messages).toEqual([
      { role: "system", content: "Be brief." },
      ...hello.messages,
    ]);
    const run = (await user.get(`/api/v1/agents/${id}/runs/${body.run_id}`)).body;
    expect(run).toMatchObject({
      trigger: "chat",
      status: "succeeded",
      output: "hello from upstream",
      usage: { cost_tokens: 18 },
    });
    expect(await charges(user)).toMatchObject([{ amount: -18, run_id: body.run_id, agent_id: id }]);
  });

  test("is rejected with the field's name: no messages, an unknown role, no id of a thread", async () => {
    const params: [object, string][] = [
      [{}, "messages"],
      [{ messages: [] }, "messages"],
      [{ messages: [{ role: "robot", content: "x" }] }, "messages[0].role"],
      [{ messages: [{ role: "user" }] }, "messages[0].content"],
      [{ ...hello, model: "x" }, "model"],
      [{ ...hello, thread_id: "a b" }, "thread_id"],
      [{ ...hello, thread_id: "t".repeat(129) }, "thread_id"],
      [{ ...hello, on_disconnect: "finish" }, "on_disconnect"],
    ];
    for (const [body, param] of params) {
      const answer = await chat(body);
      expect([answer.status, answer.body.error.param]).toEqual([400, param]);
    }
    expect((await user.get(`/api/v1/agents/${id}/runs`)).body.runs).toEqual([]);
  });

  test("with a disabled agent is 409, without tokens 402", async () => {
    await user.request("PUT", `/api/v1/agents/${id}`, { is_active: false });
    expect((await chat(hello)).body.error.code).toBe("agent_disabled");
    const poor = await lab.service.newUser({ trial: false });
    const agent = await poor.post("/api/v1/agents", { name: "Scout", model_id: "lab/plain" });
    expect((await poor.post(`/api/v1/agents/${agent.body.id}/chat`, hello)).status).toBe(402);
  });

  test("whose model fails gets the model's status, and costs nothing", async () => {
    lab.upstream.answer(json({ error: { message: "boom" } }, 500));
    const [plain, { response }] = await Promise.all([chat(hello), openChat(hello)]);
    expect([plain.status, plain.body.error.code]).toEqual([502, "upstream_error"]);
    expect(response.status).toBe(502);
    expect(await settledBalance(user)).toBe(1_000_000);
  });
});

describe("a streamed turn", () => {
  test("sends the text as it is generated, the whole run's usage on the last chunk, and [DONE]", async () => {
    lab.upstream.answer(streamedFetch(`${site.url}/`), stream(["It ", "is ", "green."]));
    const { response } = await openChat(hello);
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    const data = dataOf(await response.text());
    expect(data.pop()).toBe("[DONE]");
    const chunks = data.map((text) => JSON.parse(text));
    expect(chunks[0].choices[0].delta).toEqual({ role: "assistant", content: "" });
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("")).toBe("It is green.");
    expect(chunks.at(-1)).toMatchObject({
      choices: [{ delta: {}, finish_reason: "stop" }],
      usage: { input_tokens: 30, output_tokens: 9, cost_tokens: 48 },
    });
    const run = (await user.get(`/api/v1/agents/${id}/runs/${chunks[0].run_id}`)).body;
    expect(run).toMatchObject({
      status: "succeeded",
      output: "It is green.",
      steps_count: 3,
      usage: { cost_tokens: 48 },
    });
    expect(run.steps[0].result.tool_calls[0].function).toEqual({
      name: "web_fetch",
      arguments: `{"url":"${site.url}/"}`,
    });
  });

  test("is cancelled when its caller disconnects, and its output so far is charged (litellm#14457)", async () => {
    lab.upstream.answer(
      hanging(
        event({ choices: [{ index: 0, delta: { role: "assistant" }, finish_reason: null }] }),
        delta("a few words"),
      ),
    );
    const before = lab.upstream.hangUps;
    const { response, hangUp } = await openChat(hello);
    await response.body?.getReader().read();
    hangUp();
    await lab.upstream.until(() => lab.upstream.hangUps > before);
    const last = async () => (await user.get(`/api/v1/agents/${id}/runs`)).body.runs[0];
    await expect.poll(async () => (await last()).status).toBe("cancelled");
    const { usage } = await last();
    expect(usage.cost_tokens).toBeGreaterThan(0);
    expect(await settledBalance(user)).toBe(1_000_000 - usage.cost_tokens);
  });
});
