import Anthropic, { APIError } from "@anthropic-ai/sdk";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { charges, labConfig, settledBalance, useLab } from "../support/lab.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import {
  anthropicMessage,
  anthropicStream,
  calling,
  completion,
  cut,
  delta,
  ended,
  event,
  events,
  json,
  startUpstream,
  type Upstream,
} from "../support/upstream.ts";

// The Messages API as Anthropic's own client calls it (contract 4).

const MESSAGES = "/api/v1/messages";

let user: Client;
let client: Anthropic;
const lab = useLab([
  { id: "lab/plain", input_rate: 1, output_rate: 2 },
  { id: "lab/eyes", input_rate: 1, output_rate: 2, supports: { vision: true, files: true, json_schema: true } },
]);
beforeEach(async () => {
  lab.upstream.requests = [];
  lab.upstream.answer(completion());
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  client = clientOf(lab.service, user);
});

/** The client as its users create it: only the address is Purser's. It adds /v1/messages. */
const clientOf = (service: Service, { key }: Pick<Client, "key">) =>
  new Anthropic({ baseURL: `${service.url}/api`, apiKey: key, maxRetries: 0 });
const sent = () => lab.upstream.requests.at(-1)?.body;
const amounts = async () => (await charges(user)).map(({ amount }) => amount);
const thrown = (call: PromiseLike<unknown>): Promise<APIError> =>
  Promise.resolve(call).then(
    () => expect.fail("it succeeded"),
    (error) => error,
  );
const hello = { model: "lab/plain", max_tokens: 100, messages: [{ role: "user" as const, content: "hello" }] };
const WEATHER = {
  name: "weather",
  description: "d",
  input_schema: { type: "object" as const, properties: { city: { type: "string" } } },
};

describe("a message", () => {
  it("has its request id where Anthropic's client looks for it, also when it fails", async () => {
    const { request_id, response } = await client.messages.create(hello).withResponse();
    expect(request_id).toBe(response.headers.get("x-request-id"));
    const error = await thrown(client.messages.create({ ...hello, model: "lab/none" }));
    expect(error.requestID).toMatch(/^[0-9a-f-]{36}$/);
  });

  it("answers with the text and the usage, and is charged once like a chat completion", async () => {
    const answer = await client.messages.create({
      ...hello,
      system: "be brief",
      stop_sequences: ["END"],
    });
    expect(answer).toMatchObject({
      type: "message",
      role: "assistant",
      model: "lab/plain",
      content: [{ type: "text", text: "hello from upstream" }],
      stop_reason: "end_turn",
      usage: { input_tokens: 10, output_tokens: 4, cost_tokens: 18 },
    });
    expect(sent()).toMatchObject({
      messages: [
        { role: "system", content: "be brief" },
        { role: "user", content: "hello" },
      ],
      max_tokens: 100,
      stop: ["END"],
    });
    expect(await amounts()).toEqual([-18]);
  });

  it("streams the published events in order, and the client's helper joins them", async () => {
    const stream = client.messages.stream(hello);
    const types: string[] = [];
    stream.on("streamEvent", ({ type }) => types.push(type));
    const final = await stream.finalMessage();
    expect(final.content).toMatchObject([{ type: "text", text: "hello from upstream" }]);
    expect(final).toMatchObject({ stop_reason: "end_turn", usage: { input_tokens: 10, output_tokens: 4 } });
    expect([...new Set(types)]).toEqual([
      "message_start",
      "content_block_start",
      "content_block_delta",
      "content_block_stop",
      "message_delta",
      "message_stop",
    ]);
    expect(await amounts()).toEqual([-18]);
  });

  it("accepts Claude Code's requests: a key as Bearer, betas, cache hints, thinking, server tools", async () => {
    const { status } = await user.post(
      `${MESSAGES}?beta=true`,
      {
        ...hello,
        stream: true,
        system: [
          { type: "text", text: "You are", cache_control: { type: "ephemeral" } },
          { type: "text", text: "an agent" },
        ],
        messages: [{ role: "user", content: [{ type: "text", text: "hi", cache_control: { type: "ephemeral" } }] }],
        thinking: { type: "adaptive" },
        output_config: { effort: "high" },
        context_management: { edits: [] },
        metadata: { user_id: "u" },
        tools: [
          { ...WEATHER, defer_loading: true, cache_control: { type: "ephemeral" } },
          { type: "web_search_20250305", name: "web_search" },
        ],
      },
      { "anthropic-version": "2023-06-01", "anthropic-beta": "interleaved-thinking-2025-05-14" },
    );
    expect(status).toBe(200);
    expect(sent()).toMatchObject({
      reasoning_effort: "high",
      messages: [
        {
          role: "system",
          content: [
            { type: "text", text: "You are" },
            { type: "text", text: "an agent" },
          ],
        },
        { role: "user" },
      ],
    });
    expect(sent().tools).toHaveLength(1);
    expect(JSON.stringify(sent())).not.toContain("cache_control");
  });

  it("carries images and documents, and rejects unsupported ones by their field", async () => {
    const source = { type: "base64" as const, media_type: "image/png" as const, data: "AA==" };
    const image = { type: "image" as const, source };
    const document = {
      type: "document" as const,
      source: { type: "base64" as const, media_type: "application/pdf" as const, data: "AA==" },
    };
    const messages = [{ role: "user" as const, content: [image, document] }];
    await client.messages.create({ ...hello, model: "lab/eyes", messages });
    expect(sent().messages[0].content).toMatchObject([
      { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } },
      { type: "file", file: { file_data: "data:application/pdf;base64,AA==" } },
    ]);
    const refused = await thrown(client.messages.create({ ...hello, messages }));
    expect(refused.status).toBe(400);
    expect(refused.error).toMatchObject({ error: { param: "messages[0].content[0]" } });
  });

  it("has Anthropic's stop reasons", async () => {
    lab.upstream.answer(ended("some words", "length"));
    expect((await client.messages.stream(hello).finalMessage()).stop_reason).toBe("max_tokens");
  });

  it("works with auto and with an agent", async () => {
    const auto = await client.messages.create({ ...hello, model: "auto" });
    expect(auto).toMatchObject({ routing: { chosen: auto.model } });
    const { body } = await user.post("/api/v1/agents", { name: "a", model_id: "lab/plain" });
    const answer = await client.messages
      .stream({ ...hello, model: `agent/${body.id}`, tools: [WEATHER] })
      .finalMessage();
    expect(answer.content).toMatchObject([{ text: "hello from upstream" }]);
  });
});

describe("tools", () => {
  it("can be called, streamed and not, and the model continues with the result", async () => {
    lab.upstream.answer(
      calling("weather", { city: "Oslo" }),
      calling("weather", { city: "Oslo" }),
      completion("Rain."),
    );
    const first = await client.messages.create({ ...hello, tools: [WEATHER], tool_choice: { type: "any" } });
    expect(sent().tool_choice).toBe("required");
    const call = { type: "tool_use", id: "call_1", name: "weather", input: { city: "Oslo" } };
    expect(first).toMatchObject({ stop_reason: "tool_use", content: [call] });
    const streamed = await client.messages.stream({ ...hello, tools: [WEATHER] }).finalMessage();
    expect(streamed.content).toMatchObject([call]);
    const result = {
      type: "tool_result" as const,
      tool_use_id: "call_1",
      content: [{ type: "text" as const, text: "rain" }],
    };
    const second = await client.messages.create({
      ...hello,
      tools: [WEATHER],
      messages: [
        ...hello.messages,
        { role: "assistant", content: first.content },
        { role: "user", content: [result, { type: "text", text: "so?" }] },
      ],
    });
    expect(second.content).toMatchObject([{ text: "Rain." }]);
    expect(sent().messages).toMatchObject([
      { role: "user" },
      {
        role: "assistant",
        tool_calls: [{ id: "call_1", function: { name: "weather", arguments: '{"city":"Oslo"}' } }],
      },
      { role: "tool", tool_call_id: "call_1", content: "rain" },
      { role: "user", content: "so?" },
    ]);
  });

  it("get arguments that nest too deeply for an object as text, because the answer is charged", async () => {
    const deep = `{"city":${"[".repeat(20_000)}${"]".repeat(20_000)}}`;
    const tool_calls = [{ id: "call_1", type: "function", function: { name: "weather", arguments: deep } }];
    lab.upstream.answer(json({ choices: [{ index: 0, message: { role: "assistant", tool_calls } }] }));
    const messages = [{ role: "user", content: "hello" }];
    const { status, body } = await user.post(MESSAGES, { model: "lab/plain", max_tokens: 50_000, messages });
    expect([status, body.content]).toEqual([200, [expect.objectContaining({ input: { arguments: deep } })]]);
  });

  it("that are called in parallel have separate blocks, also if their pieces arrive mixed", async () => {
    const piece = (index: number, fields: object) =>
      event({ choices: [{ index: 0, delta: { tool_calls: [{ index, ...fields }] }, finish_reason: null }] });
    lab.upstream.answer(
      events(
        piece(0, { id: "a", type: "function", function: { name: "weather", arguments: "" } }),
        piece(1, { id: "b", type: "function", function: { name: "weather", arguments: '{"city":' } }),
        piece(0, { function: { arguments: '{"city":"Oslo"}' } }),
        piece(1, { function: { arguments: '"Rome"}' } }),
        event({ choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] }),
        event({ choices: [], usage: { prompt_tokens: 10, completion_tokens: 4 } }),
        "data: [DONE]\n\n",
      ),
    );
    const { content } = await client.messages.stream({ ...hello, tools: [WEATHER] }).finalMessage();
    expect(content).toMatchObject([
      { id: "a", input: { city: "Oslo" } },
      { id: "b", input: { city: "Rome" } },
    ]);
  });

  it("that Anthropic executes cannot be forced", async () => {
    const tools = [WEATHER, { type: "web_search_20250305", name: "web_search" }] as never;
    const error = await thrown(
      client.messages.create({ ...hello, tools, tool_choice: { type: "tool", name: "web_search" } }),
    );
    expect(error.status).toBe(400);
  });
});

describe("thinking", () => {
  it("of any model has a signature, and can be sent back with the answer", async () => {
    const message = { role: "assistant", content: "42", reasoning_content: "Let me think." };
    const usage = { prompt_tokens: 10, completion_tokens: 4 };
    lab.upstream.answer(
      json({ id: "x", created: 1, choices: [{ index: 0, message, finish_reason: "stop" }], usage }),
      completion(),
    );
    const first = await client.messages.create(hello);
    expect(first.content).toMatchObject([{ type: "thinking", thinking: "Let me think." }, { type: "text" }]);
    const messages = [...hello.messages, { role: "assistant" as const, content: first.content }, ...hello.messages];
    await client.messages.create({ ...hello, messages });
    expect(sent().messages[1]).toMatchObject({ content: "42", reasoning_content: "Let me think." });
  });
});

describe("an upstream of Anthropic's kind", () => {
  let upstream: Upstream;
  let service: Service;
  let own: Client;
  beforeAll(async () => {
    upstream = await startUpstream();
    const config = {
      ...labConfig(upstream, []),
      providers: [{ name: "claude", kind: "anthropic", base_url: upstream.url, api_key_env: "CLAUDE_KEY" }],
      models: [
        {
          id: "claude-test",
          provider: "claude",
          provider_model: "claude-test",
          name: "Claude",
          input_rate: 1,
          output_rate: 2,
          trial_eligible: true,
          context_window: 100_000,
          max_output_tokens: 8_000,
          supports: { tools: true },
        },
      ],
    };
    service = await startService({ env: { CLAUDE_KEY: "sk-claude" }, config });
    own = await service.newUser({ trial: false, tokens: 1_000_000 });
  });
  afterAll(async () => {
    await service.stop();
    await upstream.close();
  });

  it("gets betas, cache hints and thinking unchanged, and its signature is passed on unchanged in both directions", async () => {
    const thought = { type: "thinking", thinking: "Hm.", signature: "c2ln" };
    upstream.answer(
      anthropicMessage([thought, { type: "text", text: "42" }], { input_tokens: 10, output_tokens: 4 }),
      anthropicStream(["hel", "lo"], { input_tokens: 10, output_tokens: 4 }),
    );
    const headers = { "anthropic-beta": "interleaved-thinking-2025-05-14" };
    const request = {
      model: "claude-test",
      max_tokens: 4_000,
      thinking: { type: "enabled" as const, budget_tokens: 2_000 },
      system: [{ type: "text" as const, text: "be brief", cache_control: { type: "ephemeral" as const } }],
      messages: [{ role: "user" as const, content: "?" }],
    };
    const first = await clientOf(service, own).messages.create(request, { headers });
    expect(first.content).toMatchObject([thought, { type: "text", text: "42" }]);
    expect(upstream.requests[0]?.body).toMatchObject({
      system: [{ text: "be brief", cache_control: { type: "ephemeral" } }],
      thinking: { type: "enabled", budget_tokens: 2_000 },
      max_tokens: 4_000,
    });
    expect(upstream.requests[0]?.headers["anthropic-beta"]).toContain("interleaved-thinking-2025-05-14");
    const messages = [...request.messages, { role: "assistant" as const, content: first.content }, ...request.messages];
    const final = await clientOf(service, own)
      .messages.stream({ ...request, messages })
      .finalMessage();
    expect(final.content).toMatchObject([{ type: "text", text: "hello" }]);
    expect(upstream.requests[1]?.body.messages[1].content[0]).toMatchObject(thought);
  });
});

it("a header anthropic-beta that is no list of names is rejected by its name, and nothing is sent", async () => {
  const { status, body } = await user.post("/api/v1/messages", hello, { "anthropic-beta": "b,".repeat(4_000) });
  expect([status, body.error.param]).toEqual([400, "anthropic-beta"]);
  expect(lab.upstream.requests).toHaveLength(0);
});

describe("counting tokens", () => {
  it("estimates the input and costs nothing", async () => {
    const { input_tokens } = await client.messages.countTokens({ ...hello, system: "be brief" });
    const longer = await client.messages.countTokens({ ...hello, system: "be brief ".repeat(100) });
    expect(input_tokens).toBeGreaterThan(0);
    expect(longer.input_tokens).toBeGreaterThan(input_tokens + 100);
    expect(await amounts()).toEqual([]);
    expect((await thrown(client.messages.countTokens({ ...hello, model: "none" }))).status).toBe(404);
  });
});

describe("failures, in Anthropic's shape", () => {
  it.each([
    ["no tokens", 402, "billing_error", {}],
    ["an unknown model", 404, "not_found_error", { model: "lab/none" }],
    ["an invalid field", 400, "invalid_request_error", { max_tokens: 0 }],
  ])("%s is %d %s", async (name, status, type, fields) => {
    const caller = name === "no tokens" ? await lab.service.newUser({ trial: false }) : user;
    const error = await thrown(clientOf(lab.service, caller).messages.create({ ...hello, ...fields }));
    expect(error).toBeInstanceOf(APIError);
    expect([error.status, error.error]).toMatchObject([status, { type: "error", error: { type } }]);
  });

  it("a wrong key is 401, also before the route is reached", async () => {
    const error = await thrown(clientOf(lab.service, { key: "wrong" }).messages.create(hello));
    expect([error.status, error.error]).toMatchObject([
      401,
      { type: "error", error: { type: "authentication_error" } },
    ]);
  });

  it("a broken stream ends with an error event that the client throws, and its output so far is charged", async () => {
    lab.upstream.answer(cut(event({ choices: [{ index: 0, delta: { role: "assistant" } }] }), delta("some words")));
    const error = await thrown(client.messages.stream(hello).finalMessage());
    expect(error.message).toContain("broke off");
    expect(await settledBalance(user)).toBeLessThan(1_000_000);
  });

  it("a block of an unknown type is named", async () => {
    const { status, body } = await user.post(MESSAGES, {
      ...hello,
      messages: [{ role: "user", content: [{ type: "hologram" }] }],
    });
    expect([status, body.error.param]).toEqual([400, "messages[0].content[0].type"]);
  });
});

it("text after a whole call is sent as it comes", async () => {
  const call = { index: 0, id: "a", type: "function", function: { name: "add", arguments: '{"a":1}' } };
  let end = () => {};
  lab.upstream.answer((response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(event({ choices: [{ index: 0, delta: { tool_calls: [call] } }] }) + delta("one moment"));
    const finish = event({ choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] });
    end = () => void response.end(`${finish}data: [DONE]\n\n`);
  });
  const messages = [{ role: "user" as const, content: "hello" }];
  const stream = client.messages.stream({ model: "lab/plain", max_tokens: 100, messages });
  expect(await new Promise((resolve) => stream.on("text", resolve))).toBe("one moment");
  end();
  expect((await stream.finalMessage()).content).toMatchObject([{ input: { a: 1 } }, { text: "one moment" }]);
});
