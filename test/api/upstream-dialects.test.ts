import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { beforeEach, describe, expect, it } from "vitest";
import { ask, charges, useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { delta, event, events, json, type Reply, USAGE } from "../support/upstream.ts";

// What OpenAI-compatible servers send in their own way reaches agents, Responses and Messages as it reaches chat
// completions.

/** Of lab/plain: 10 tokens of input at 1 and 4 of output at 2. */
const COST = 18;

let user: Client;
const lab = useLab();
beforeEach(async () => {
  user = await lab.service.newUser({ trial: false, tokens: 100_000 });
});

const HELLO = [
  delta("hello there"),
  event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }),
  event({ choices: [], usage: USAGE }),
  "data: [DONE]\n\n",
];

it.each([
  ["no space after `data:`", (text: string) => text.replace("data: ", "data:")],
  ["an event in two lines", (text: string) => text.replace("data: {", "data: {\ndata: ")],
  ["`error: null` in each chunk", (text: string) => text.replace('"choices"', '"error":null,"choices"')],
])("an agent answers with the text of its model and is charged once: %s", async (_, written) => {
  const agent = (await user.post("/api/v1/agents", { name: "Sailor", model_id: "lab/plain" })).body.id;
  lab.upstream.answer(events(...HELLO.map(written)));
  const answer = await user.post("/api/v1/chat/completions", ask(`agent/${agent}`));
  expect([answer.status, answer.body.choices?.[0].message.content]).toEqual([200, "hello there"]);
  expect(await charges(user)).toMatchObject([{ amount: -COST }]);
});

describe("parallel calls that all have the index 0", () => {
  const piece = (id: string, text: string) => {
    const call = { index: 0, id, type: "function", function: { name: "add", arguments: text } };
    return event({ choices: [{ index: 0, delta: { tool_calls: [call] }, finish_reason: null }] });
  };
  const more = (text: string) =>
    event({
      choices: [
        { index: 0, delta: { tool_calls: [{ index: 0, function: { arguments: text } }] }, finish_reason: null },
      ],
    });
  const end = event({ choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] });
  beforeEach(() => {
    const usage = event({ choices: [], usage: USAGE });
    lab.upstream.answer(
      events(piece("call_a", '{"a":1}'), piece("call_b", '{"b":'), more("2}"), end, usage, "data: [DONE]\n\n"),
    );
  });

  it("are several calls of a response", async () => {
    const client = new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
    const tool = { type: "function" as const, name: "add", parameters: { type: "object" }, strict: false };
    const asked = { model: "lab/plain", input: "x", tools: [tool] };
    expect((await client.responses.stream(asked).finalResponse()).output).toMatchObject([
      { type: "function_call", call_id: "call_a", name: "add", arguments: '{"a":1}' },
      { type: "function_call", call_id: "call_b", name: "add", arguments: '{"b":2}' },
    ]);
  });

  it("are several blocks of a message", async () => {
    const client = new Anthropic({ baseURL: `${lab.service.url}/api`, apiKey: user.key, maxRetries: 0 });
    const tools = [{ name: "add", input_schema: { type: "object" as const } }];
    const messages = [{ role: "user" as const, content: "x" }];
    const message = await client.messages
      .stream({ model: "lab/plain", max_tokens: 100, tools, messages })
      .finalMessage();
    expect(message.content).toMatchObject([
      { type: "tool_use", id: "call_a", name: "add", input: { a: 1 } },
      { type: "tool_use", id: "call_b", name: "add", input: { b: 2 } },
    ]);
  });

  it("are several calls of an agent", async () => {
    const fields = { name: "Sailor", model_id: "lab/plain", client_tools: "pass" };
    const agent = (await user.post("/api/v1/agents", fields)).body.id;
    const tools = [{ type: "function", function: { name: "add", parameters: { type: "object" } } }];
    const { body } = await user.post("/api/v1/chat/completions", ask(`agent/${agent}`, { tools }));
    expect(body.choices[0].message.tool_calls).toEqual([
      { id: "call_a", type: "function", function: { name: "add", arguments: '{"a":1}' } },
      { id: "call_b", type: "function", function: { name: "add", arguments: '{"b":2}' } },
    ]);
  });
});

/** An answer that ends for this reason, in one piece or as a stream. */
function endingAs(message: object, finish_reason: string, fields: object = {}): Reply {
  const identity = { id: "x", object: "chat.completion", created: 1, model: "m" };
  const whole = json({ ...identity, choices: [{ index: 0, message, finish_reason, ...fields }], usage: USAGE });
  const streamed = events(
    event({ choices: [{ index: 0, delta: message, finish_reason: null }] }),
    event({ choices: [{ index: 0, delta: {}, finish_reason, ...fields }] }),
    event({ choices: [], usage: USAGE }),
    "data: [DONE]\n\n",
  );
  return (response, request) => (request.body.stream === true ? streamed : whole)(response, request);
}
const FORCED = { index: 0, id: "call_a", type: "function", function: { name: "add", arguments: "{}" } };
const CALL = { role: "assistant", content: null, tool_calls: [FORCED] };
const TEXT = { role: "assistant", content: "hi" };

describe.each([false, true])("the end of an answer (stream: %s)", (stream) => {
  async function messageOf() {
    const client = new Anthropic({ baseURL: `${lab.service.url}/api`, apiKey: user.key, maxRetries: 0 });
    const asked = {
      ...{ model: "lab/plain", max_tokens: 100, stop_sequences: ["END"] },
      ...{ tools: [{ name: "add", input_schema: { type: "object" as const } }] },
      ...{ messages: [{ role: "user" as const, content: "x" }] },
    };
    const answer = stream ? client.messages.stream(asked).finalMessage() : client.messages.create(asked);
    const { stop_reason, stop_sequence } = await answer;
    return [stop_reason, stop_sequence];
  }

  it.each([
    ["a call that ends with stop", endingAs(CALL, "stop"), ["tool_use", null]],
    ["an unknown reason", endingAs(TEXT, "eos"), ["end_turn", null]],
    ["a name that every object has", endingAs(TEXT, "constructor"), ["end_turn", null]],
    ["the caller's stop sequence", endingAs(TEXT, "stop", { stop_reason: "END" }), ["stop_sequence", "END"]],
    ["another text in its place", endingAs(TEXT, "stop", { stop_reason: "eos" }), ["end_turn", null]],
    ["a cut", endingAs(CALL, "length"), ["max_tokens", null]],
  ])("is a stop reason of Anthropic's: %s", async (_, reply, expected) => {
    lab.upstream.answer(reply);
    expect(await messageOf()).toEqual(expected);
  });

  it.each(["eos", "constructor"])("completes a response for the unknown reason %s", async (reason) => {
    lab.upstream.answer(endingAs(TEXT, reason));
    const client = new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
    const asked = { model: "lab/plain", input: "x" };
    const answer = stream ? client.responses.stream(asked).finalResponse() : client.responses.create(asked);
    expect(await answer).toMatchObject({ status: "completed", incomplete_details: null });
  });
});

it("an agent ends with a finish reason of OpenAI's, whatever word its model's server has", async () => {
  const agent = (await user.post("/api/v1/agents", { name: "Sailor", model_id: "lab/plain" })).body.id;
  lab.upstream.answer(endingAs(TEXT, "eos"));
  const { body } = await user.post("/api/v1/chat/completions", ask(`agent/${agent}`));
  expect(body.choices[0].finish_reason).toBe("stop");
});
