import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { approverOf } from "../support/approvals.ts";
import { expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import type { Client } from "../support/service.ts";
import { calling, completion, hanging } from "../support/upstream.ts";

// A turn of a chat whose run asks a person: contract 6.11.1 and 4.13.2.

let lab: Lab;
let receiver: Receiver;
let user: Client;
let approver: Omit<Client, "user_id">;
let id: string;

beforeAll(async () => {
  receiver = await startReceiver();
  lab = await startLab(undefined, { env: { PURSER_EGRESS_ALLOW: receiver.host, PURSER_DRAIN_SECONDS: "1" } });
});
beforeEach(async () => {
  receiver.received.length = 0;
  lab.upstream.requests.length = 0;
  lab.upstream.answer(sends({ n: 1 }), completion("Told."));
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  approver = await approverOf(lab.service, user);
  const send_webhook = { enabled: true, urls: [hook()], permission_policy: "always_ask" };
  const agent = { name: "Herald", model_id: "lab/plain", tools_config: { send_webhook } };
  id = (await user.post("/api/v1/agents", agent)).body.id;
});
afterAll(async () => {
  await expectCleanAudit(lab.service);
  await lab.stop();
  await receiver.close();
});

const hook = () => `${receiver.url}/hook`;
const sends = (payload: unknown) => calling("send_webhook", { url: hook(), payload });
const TELL = { messages: [{ role: "user", content: "Tell them." }] };
const chat = (fields: object = {}) => user.post(`/api/v1/agents/${id}/chat`, { ...TELL, ...fields });
const runOf = async (run_id: string) => (await user.get(`/api/v1/runs/${run_id}`)).body;
async function ended(run_id: string) {
  await expect.poll(async () => (await runOf(run_id)).finished_at).not.toBeNull();
  return runOf(run_id);
}
async function decide(run_id: string, body: object = { decision: "approve" }) {
  const [action] = (await runOf(run_id)).required_actions;
  const decided = await approver.post(`/api/v1/agents/${id}/runs/${run_id}/actions/${action.id}`, body);
  expect(decided.status).toBe(200);
}
const linksOf = (run_id: string) => ({
  decide_url: `${lab.service.url}/agents/${id}/runs/${run_id}/decide`,
  events_url: `${lab.service.url}/api/v1/agents/${id}/runs/${run_id}/events`,
});
const CALL = { type: "tool_approval", tool: "send_webhook", arguments: { payload: { n: 1 } } };
const streamOf = async (response: Response) =>
  (await response.text())
    .split("\n\n")
    .flatMap((part) => (part.startsWith("data: {") ? JSON.parse(part.slice(6)) : []));
const post = (path: string, body: object) =>
  fetch(`${lab.service.url}${path}`, {
    method: "POST",
    headers: { Authorization: `Bearer ${user.key}`, "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });

describe("a turn whose run must ask", () => {
  test("ends with what it waits for, and after the decision the run goes on without its caller", async () => {
    const { status, body } = await chat();
    expect(status).toBe(200);
    expect(body).toMatchObject({
      object: "chat.completion",
      choices: [{ message: { role: "assistant", content: null }, finish_reason: "requires_action" }],
      usage: { input_tokens: 20, output_tokens: 5 },
      required_actions: [CALL],
      ...linksOf(body.run_id),
    });
    expect(await runOf(body.run_id)).toMatchObject({ status: "requires_action", trigger: "chat" });
    expect(receiver.received).toEqual([]);
    await decide(body.run_id);
    expect(await ended(body.run_id)).toMatchObject({ status: "succeeded", output: "Told." });
    expect(receiver.received.map(({ body: sent }) => JSON.parse(sent))).toEqual([{ n: 1 }]);
  });

  test("says the same in its last events, and the run's events tell what it waits for and go on to its end", async () => {
    const chunks = await streamOf(await post(`/api/v1/agents/${id}/chat`, { ...TELL, stream: true }));
    const last = chunks.at(-1);
    expect(last).toMatchObject({
      choices: [{ delta: {}, finish_reason: "requires_action" }],
      usage: { input_tokens: 20 },
      required_actions: [CALL],
      ...linksOf(last.run_id),
    });
    const followed = await fetch(last.events_url, { headers: { Authorization: `Bearer ${user.key}` } });
    const reader = followed.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.includes("run.requires_action")) text += (await reader?.read())?.value ?? expect.fail("it ended");
    const [waits] = text.split("\n\n").filter((event) => event.includes("run.requires_action"));
    const data = JSON.parse(/^data: (.*)$/m.exec(waits ?? "")?.[1] ?? "");
    expect(data).toMatchObject({ run_id: last.run_id, required_actions: [CALL] });
    await decide(last.run_id);
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true };
      if (done) break;
      text += value;
    }
    const events = [...text.matchAll(/^event: (.*)$/gm)].map(([, event]) => event);
    expect(events.filter((event) => event !== "text").slice(3)).toEqual([
      "step.finished",
      "run.requires_action",
      "step.started",
      "step.finished",
      "step.started",
      "step.finished",
      "run.finished",
    ]);
  });

  test("keeps its thread busy until the decision, and its answer is then the thread's next message", async () => {
    const first = await chat({ thread_id: "support" });
    expect(first.body).toMatchObject({ thread_id: "support", choices: [{ finish_reason: "requires_action" }] });
    const busy = await chat({ thread_id: "support" });
    expect([busy.status, busy.body.error.code]).toEqual([409, "thread_busy"]);
    expect(busy.body.error.message).toContain(first.body.run_id);
    await decide(first.body.run_id);
    await ended(first.body.run_id);
    const { messages } = (await user.get(`/api/v1/agents/${id}/threads/support`)).body;
    expect(messages.map(({ role }: { role: string }) => role)).toEqual(["user", "assistant", "tool", "assistant"]);
    expect(messages.at(-1)).toMatchObject({ content: "Told.", run_id: first.body.run_id });
    const next = await chat({ thread_id: "support", messages: [{ role: "user", content: "Thanks." }] });
    expect(next.body.choices[0].finish_reason).toBe("stop");
    expect(lab.upstream.requests.at(-1)?.body.messages.map(({ role }: { role: string }) => role)).toEqual([
      "user",
      "assistant",
      "tool",
      "assistant",
      "user",
    ]);
  });

  test("reads of a rejection, and a cancelled run lets the thread go on", async () => {
    lab.upstream.answer(sends({ n: 1 }), completion("Then not."));
    const rejected = (await chat({ thread_id: "a" })).body.run_id;
    await decide(rejected, { decision: "reject", reason: "Too early." });
    expect(await ended(rejected)).toMatchObject({ status: "succeeded", output: "Then not." });
    lab.upstream.answer(sends({ n: 2 }), completion("Hello again."));
    const cancelled = (await chat({ thread_id: "a" })).body.run_id;
    await user.post(`/api/v1/agents/${id}/runs/${cancelled}/cancel`);
    expect((await chat({ thread_id: "a" })).body.choices[0].message.content).toBe("Hello again.");
    expect(receiver.received).toEqual([]);
  });

  test("waits through a stop of its node, and once decided outlives another stop like every run", async () => {
    const { run_id } = (await chat({ thread_id: "long" })).body;
    await lab.service.restart();
    expect(await runOf(run_id)).toMatchObject({ status: "requires_action", required_actions: [CALL] });
    const calls = lab.upstream.requests.length;
    lab.upstream.answer(hanging(), completion("Told."));
    await decide(run_id);
    await lab.upstream.until(() => lab.upstream.requests.length > calls);
    await lab.service.restart();
    expect(await ended(run_id)).toMatchObject({ status: "succeeded", output: "Told." });
    expect(receiver.received).toHaveLength(1);
    const { messages } = (await user.get(`/api/v1/agents/${id}/threads/long`)).body;
    expect(messages.at(-1).content).toBe("Told.");
  });
});

describe("an agent as a model whose run must ask", () => {
  const model = () => `agent/${id}`;
  const openai = () => new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
  const anthropic = () => new Anthropic({ baseURL: `${lab.service.url}/api`, apiKey: user.key, maxRetries: 0 });
  const messages = [{ role: "user" as const, content: "Tell them." }];
  const SURFACES: [string, () => Promise<[string | null | undefined, unknown]>][] = [
    [
      "a chat completion",
      async () => {
        const { choices } = await openai().chat.completions.create({ model: model(), messages });
        return [choices[0]?.message.content, choices[0]?.finish_reason];
      },
    ],
    [
      "a streamed chat completion",
      async () => {
        const stream = openai().chat.completions.stream({ model: model(), messages });
        const { choices } = await stream.finalChatCompletion();
        return [choices[0]?.message.content, choices[0]?.finish_reason];
      },
    ],
    [
      "a response",
      async () => {
        const answer = await openai().responses.create({ model: model(), input: "Tell them." });
        return [answer.output_text, answer.status];
      },
    ],
    [
      "a streamed response",
      async () => {
        const answer = await openai().responses.stream({ model: model(), input: "Tell them." }).finalResponse();
        return [answer.output_text, answer.status];
      },
    ],
    [
      "a message",
      async () => {
        const answer = await anthropic().messages.create({ model: model(), max_tokens: 100, messages });
        return [answer.content[0]?.type === "text" ? answer.content[0].text : null, answer.stop_reason];
      },
    ],
    [
      "a streamed message",
      async () => {
        const answer = await anthropic().messages.stream({ model: model(), max_tokens: 100, messages }).finalMessage();
        return [answer.content[0]?.type === "text" ? answer.content[0].text : null, answer.stop_reason];
      },
    ],
  ];

  test.each(SURFACES)("says so in the text of %s, and goes on by itself after the decision", async (_, answerOf) => {
    const [text, reason] = await answerOf();
    expect(["stop", "completed", "end_turn"]).toContain(reason);
    const run_id = /\(run ([0-9a-f-]{36})\)/.exec(text ?? "")?.[1] ?? "";
    expect(text).toContain(linksOf(run_id).decide_url);
    expect(text).toContain(`"n": 1`);
    await decide(run_id);
    expect(await ended(run_id)).toMatchObject({ status: "succeeded", output: "Told." });
    expect(receiver.received).toHaveLength(1);
  });
});
