import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { charges, expectCleanAudit, settledBalance } from "../support/lab.ts";
import { NATIVE_APIS, NATIVE_ENV, type NativeKind, nativeConfig } from "../support/native-apis/lab.ts";
import type { Script } from "../support/native-apis/turn.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";

// Responses to a provider with the Responses API, and Messages to one with the Messages API (contract 4.11, 4.12): the
// provider gets the caller's own items and blocks, and the call is held and charged like any other.

const GRANT = 10_000_000;
const HINT = { type: "ephemeral" as const };
let upstream: Upstream;
let service: Service;
let user: Client;
beforeAll(async () => {
  upstream = await startUpstream();
  service = await startService({ env: NATIVE_ENV, config: nativeConfig(upstream) });
});
afterAll(async () => {
  await expectCleanAudit(service);
  await service.stop();
  await upstream.close();
});
beforeEach(async () => {
  upstream.requests = [];
  user = await service.newUser({ trial: false, tokens: GRANT });
});

const answerAs = (kind: NativeKind, script: Script) => upstream.answer(NATIVE_APIS[kind].create(script).reply);
const sent = (nth = -1) => upstream.requests.at(nth)?.body;

describe("Messages to Anthropic", () => {
  const MESSAGES = "/api/v1/messages";
  const HINTS = {
    description: "d",
    strict: true,
    defer_loading: true,
    eager_input_streaming: true,
    cache_control: HINT,
  };
  const EDIT = { name: "edit", input_schema: { type: "object" }, input_examples: [{ a: "b" }], ...HINTS };
  const conversation = {
    system: [
      { type: "text", text: "one" },
      { type: "text", text: "two", cache_control: HINT },
      { type: "text", text: "now" },
    ],
    tool_choice: { type: "auto", disable_parallel_tool_use: true },
    messages: [
      {
        role: "user",
        content: [
          {
            type: "document",
            source: { type: "text", media_type: "text/plain", data: "doc" },
            title: "T",
            context: "c",
          },
          {
            type: "document",
            source: { type: "base64", media_type: "application/pdf", data: "JVBERi0=" },
            citations: { enabled: true },
          },
          { type: "image", source: { type: "base64", media_type: "image/png", data: "AA==" } },
        ],
      },
      {
        role: "assistant",
        content: [
          { type: "text", text: "first" },
          { type: "text", text: "second", cache_control: HINT },
          { type: "tool_use", id: "toolu_1", name: "edit", input: { a: "1" } },
        ],
      },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", is_error: true, content: "bad" }] },
    ],
  };
  const request = { model: "native/anthropic", max_tokens: 500, top_k: 5, ...conversation };

  it.each([false, true])("every block, position and hint arrives as it was sent (stream: %s)", async (stream) => {
    answerAs("anthropic", () => ({ text: "ok" }));
    const tools = [EDIT, { type: "web_search_20250305", name: "web_search" }];
    expect((await user.post(MESSAGES, { ...request, tools, stream })).status).toBe(200);
    expect(sent()).toMatchObject({ ...conversation, max_tokens: 500, top_k: 5 });
    expect(sent().messages).toEqual(conversation.messages);
    expect(sent().tools).toEqual([EDIT]);
    await settledBalance(user);
    expect(await charges(user)).toHaveLength(1);
  });

  it("fields of a message besides its role and content are removed (attack: a setting that has its own price)", async () => {
    answerAs("anthropic", () => ({ text: "ok" }));
    const messages = [{ role: "user", content: "go", output_config: { effort: "max" } }];
    expect((await user.post(MESSAGES, { model: "native/anthropic", max_tokens: 9, messages })).status).toBe(200);
    expect(sent().messages).toEqual([{ role: "user", content: "go" }]);
  });

  it("a system message in the conversation is sent once, at its place (attack: it is billed twice and held for once)", async () => {
    answerAs("anthropic", () => ({ text: "ok" }));
    const messages = [
      { role: "user", content: "go" },
      { role: "system", content: "be brief" },
      { role: "user", content: "now" },
    ];
    expect((await user.post(MESSAGES, { model: "native/anthropic", max_tokens: 9, messages })).status).toBe(200);
    expect(sent().messages).toEqual(messages);
    expect(sent()).not.toHaveProperty("system");
  });

  it("thinking keeps its own signature in both directions, also over a tool call", async () => {
    const client = new Anthropic({ baseURL: `${service.url}/api`, apiKey: user.key, maxRetries: 0 });
    const plain = {
      model: "native/anthropic",
      max_tokens: 4_000,
      thinking: { type: "enabled" as const, budget_tokens: 2_000 },
      tools: [{ name: "edit", input_schema: { type: "object" as const } }],
    };
    const asked = { role: "user" as const, content: "go" };
    for (const streamed of [false, true]) {
      answerAs("anthropic", (n) =>
        n === 0 ? { reasoning: "hm", text: "I look.", calls: [{ name: "edit", arguments: {} }] } : { text: "done" },
      );
      const first = streamed
        ? await client.messages.stream({ ...plain, messages: [asked] }).finalMessage()
        : await client.messages.create({ ...plain, messages: [asked] });
      const results = first.content.flatMap((block) =>
        block.type === "tool_use" ? [{ type: "tool_result" as const, tool_use_id: block.id, content: "r" }] : [],
      );
      const back = { role: "assistant" as const, content: first.content };
      // The fake rejects a signature that it did not issue.
      const second = await client.messages.create({
        ...plain,
        messages: [asked, back, { role: "user", content: results }],
      });
      expect(second.content).toMatchObject([{ type: "text", text: "done" }]);
      expect(sent().messages[1].content).toEqual(first.content);
    }
  });

  it("another model's thinking is removed, and the rest is converted as before", async () => {
    answerAs("google", () => ({ reasoning: "hm", text: "from Gemini" }));
    const asked = { role: "user", content: "go" };
    const thinking = { type: "enabled", budget_tokens: 2_000 };
    const first = await user.post(MESSAGES, {
      model: "native/google",
      max_tokens: 4_000,
      thinking,
      output_config: { effort: "low" },
      messages: [asked],
    });
    expect(first.body.content[0].type).toBe("thinking");
    answerAs("anthropic", () => ({ text: "ok" }));
    const messages = [asked, { role: "assistant", content: first.body.content }, { role: "user", content: "and now?" }];
    expect((await user.post(MESSAGES, { model: "native/anthropic", max_tokens: 500, messages })).status).toBe(200);
    expect(JSON.stringify(sent())).not.toContain("purser.");
    expect(sent().messages[1].content).toEqual([{ type: "text", text: "from Gemini" }]);
  });

  it("a hint for an hour in any block raises the hold to the price of such writes", async () => {
    const config = nativeConfig(upstream);
    const priced = { cached_input_rate: 0.1, cache_write_rate: 1.25, cache_write_1h_rate: 2 };
    const models = config.models.map((model) => ({ ...model, ...priced }));
    const other = await startService({ env: NATIVE_ENV, config: { ...config, models, cache_pricing: "provider" } });
    try {
      const payer = await other.newUser({ trial: false, tokens: GRANT });
      answerAs("anthropic", () => ({ text: "ok" }));
      const rateHeld = async (cache_control: object) => {
        const messages = [
          { role: "user", content: "go" },
          { role: "assistant", content: [{ type: "tool_use", id: "toolu_1", name: "edit", input: {}, cache_control }] },
          { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "r" }] },
        ];
        const tools = [{ name: "edit", input_schema: { type: "object" } }];
        const body = { model: "native/anthropic", max_tokens: 10, tools, messages };
        const { headers } = await payer.post(MESSAGES, body);
        const { body: explained } = await payer.get(`/api/v1/billing/explain/${headers.get("x-request-id")}`);
        return explained.estimate.input_rate;
      };
      expect(await rateHeld(HINT)).toBe(1.25);
      expect(await rateHeld({ ...HINT, ttl: "1h" })).toBe(2);
    } finally {
      await other.stop();
    }
  });

  it("a long picture arrives whole", async () => {
    answerAs("anthropic", () => ({ text: "ok" }));
    const source = { type: "base64", media_type: "image/png", data: "ABCD".repeat(50_000) };
    const messages = [{ role: "user", content: [{ type: "image", source }] }];
    expect((await user.post(MESSAGES, { model: "native/anthropic", max_tokens: 10, messages })).status).toBe(200);
    expect(sent().messages).toEqual(messages);
  });
});

describe("Responses to OpenAI", () => {
  const RESPONSES = "/api/v1/responses";
  const PATCH = {
    type: "custom" as const,
    name: "apply_patch",
    description: "d",
    format: { type: "grammar" as const, syntax: "lark" as const, definition: "start: /a/" },
  };
  const FETCH = {
    type: "function" as const,
    name: "fetch",
    strict: true,
    parameters: { type: "object", properties: {}, additionalProperties: false },
  };
  const SPACE = {
    type: "namespace" as const,
    name: "ns",
    description: "nd",
    tools: [{ type: "function" as const, name: "g", parameters: { type: "object" } }],
  };
  const SAID = [{ type: "output_text", text: "said", annotations: [] }];
  const input = [
    { type: "message", role: "developer", content: [{ type: "input_text", text: "dev" }] },
    {
      type: "message",
      role: "user",
      content: [
        { type: "input_image", image_url: "data:image/png;base64,AA==", detail: "low" },
        { type: "input_file", filename: "f.pdf", file_data: "data:application/pdf;base64,JVBERi0=" },
      ],
    },
    { type: "message", role: "assistant", phase: "commentary", status: "completed", content: SAID },
    { type: "function_call", call_id: "c1", name: "fetch", arguments: "{}", status: "completed" },
    { type: "custom_tool_call", call_id: "c2", name: "apply_patch", input: "aaa" },
    { type: "function_call_output", call_id: "c1", output: [{ type: "input_text", text: "r" }] },
    { type: "custom_tool_call_output", call_id: "c2", output: "r3" },
  ];
  const request = {
    model: "native/openai",
    store: false,
    instructions: "be brief",
    input,
    reasoning: { effort: "high", summary: "detailed" },
  };

  it.each([false, true])(
    "every item and tool arrives as it was sent, but for namespaces and hosted tools (stream: %s)",
    async (stream) => {
      answerAs("openai", () => ({ text: "ok" }));
      const tools = [FETCH, PATCH, SPACE, { type: "web_search" }];
      expect((await user.post(RESPONSES, { ...request, tools, stream })).status).toBe(200);
      expect(sent().input).toEqual(input);
      const { type, name, parameters } = { type: "function", name: "ns__g", parameters: { type: "object" } };
      expect(sent().tools).toEqual([FETCH, PATCH, { type, name, parameters }]);
      expect(sent()).toMatchObject({
        instructions: "be brief",
        store: false,
        reasoning: { effort: "high", summary: "detailed" },
      });
      await settledBalance(user);
      expect(await charges(user)).toHaveLength(1);
    },
  );

  it("a tool that the caller executes is a function with optional arguments, which OpenAI's strict schemas lack", async () => {
    await user.post(RESPONSES, { model: "native/openai", input: "go", tools: [{ type: "shell" }] });
    expect(sent().tools).toMatchObject([{ name: "shell", strict: false, parameters: { required: ["commands"] } }]);
  });
  it("a custom tool's call is plain text, streamed and not", async () => {
    const call = { type: "custom_tool_call", id: "ctc_1", call_id: "c9", name: "apply_patch", input: 'say "a"' };
    const usage = {
      input_tokens: 9,
      output_tokens: 3,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
    };
    const whole = { id: "resp_1", created_at: 1, model: "gpt-6.1-terra", status: "completed", output: [call], usage };
    const body = { ...request, tools: [PATCH], tool_choice: { type: "custom", name: "apply_patch" } };
    upstream.answer(json({ object: "response", error: null, incomplete_details: null, ...whole }));
    const { body: answer } = await user.post(RESPONSES, body);
    expect(answer.output).toMatchObject([{ type: "custom_tool_call", name: "apply_patch", input: 'say "a"' }]);
    expect(sent().tool_choice).toEqual({ type: "custom", name: "apply_patch" });
    upstream.answer((response) => {
      const event = (fields: { type: string }) =>
        response.write(`event: ${fields.type}\ndata: ${JSON.stringify(fields)}\n\n`);
      const at = { output_index: 0, item_id: "ctc_1" };
      response.writeHead(200, { "content-type": "text/event-stream" });
      event({ type: "response.created", response: { ...whole, status: "in_progress", output: [] } } as never);
      event({ type: "response.output_item.added", output_index: 0, item: { ...call, input: "" } } as never);
      event({ type: "response.custom_tool_call_input.delta", ...at, delta: 'say "' } as never);
      event({ type: "response.custom_tool_call_input.delta", ...at, delta: 'a"' } as never);
      event({ type: "response.output_item.done", output_index: 0, item: { ...call, status: "completed" } } as never);
      event({ type: "response.completed", response: whole } as never);
      response.end();
    });
    const client = new OpenAI({ baseURL: `${service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
    const events = await Array.fromAsync((await client.responses.create({ ...body, stream: true } as never)) as never);
    const { response } = events.at(-1) as { response: OpenAI.Responses.Response };
    expect(response.output).toMatchObject([{ type: "custom_tool_call", name: "apply_patch", input: 'say "a"' }]);
  });

  it("reasoning is sent back as OpenAI's own item with its id, and only to the model that made it", async () => {
    const calls = [{ name: "fetch", arguments: {} }];
    answerAs("openai", (n) => (n === 0 ? { reasoning: "hm", text: "I look.", calls } : { text: "done" }));
    const asked = { type: "message", role: "user", content: [{ type: "input_text", text: "go" }] };
    const plain = { model: "native/openai", store: false, include: ["reasoning.encrypted_content"], tools: [FETCH] };
    const { body: first } = await user.post(RESPONSES, { ...plain, input: [asked] });
    const [, , call] = first.output;
    const result = { type: "function_call_output", call_id: call.call_id, output: "r" };
    const second = await user.post(RESPONSES, { ...plain, input: [asked, ...first.output, result] });
    expect([second.status, second.body.output.at(-1).content[0].text]).toEqual([200, "done"]);
    expect(sent().input[1]).toMatchObject({
      type: "reasoning",
      id: "rs_1",
      summary: [{ type: "summary_text", text: "hm" }],
    });
    const other = await user.post(RESPONSES, {
      ...plain,
      model: "native/openai-2",
      input: [asked, ...first.output, result],
    });
    expect(other.status).toBe(200);
    expect(sent().input.map(({ type }: { type: string }) => type)).not.toContain("reasoning");
  });

  it("calls in a namespace are functions for the provider, and return with their names", async () => {
    answerAs("openai", () => ({ calls: [{ name: "ns__g", arguments: { a: 1 } }] }));
    const past = [
      { type: "message", role: "user", content: "go" },
      { type: "custom_tool_call", id: "ctc_7", call_id: "c1", namespace: "ns", name: "p", input: "x" },
      { type: "custom_tool_call_output", call_id: "c1", output: "r" },
      { type: "function_call", id: "fc_7", call_id: "c2", namespace: "ns", name: "g", arguments: "{}" },
      { type: "function_call_output", call_id: "c2", output: "r" },
    ];
    const { body } = await user.post(RESPONSES, { ...request, input: past, tools: [SPACE] });
    expect(body.output).toMatchObject([{ type: "function_call", name: "g", namespace: "ns" }]);
    expect(sent().input.slice(1)).toEqual([
      { type: "function_call", call_id: "c1", name: "ns__p", arguments: '{"input":"x"}' },
      { type: "function_call_output", call_id: "c1", output: "r" },
      { type: "function_call", call_id: "c2", name: "ns__g", arguments: "{}" },
      { type: "function_call_output", call_id: "c2", output: "r" },
    ]);
  });

  it("prompt cache breakpoints have the default time to live (attack: writes for 12 hours, which no rate covers)", async () => {
    answerAs("openai", () => ({ text: "ok" }));
    const part = { type: "input_text", text: "a" };
    const marked = { ...part, prompt_cache_breakpoint: { mode: "explicit", ttl: "12h" } };
    const call = { type: "function_call", call_id: "c1", name: "fetch", arguments: "{}" };
    const itemsWith = (each: object) => [
      { type: "message", role: "user", content: [each] },
      call,
      { type: "function_call_output", call_id: "c1", output: [each] },
    ];
    const asked = { ...request, input: itemsWith(marked), tools: [FETCH] };
    expect((await user.post(RESPONSES, asked)).status).toBe(200);
    expect(sent().input).toEqual(itemsWith({ ...part, prompt_cache_breakpoint: { mode: "explicit" } }));
  });

  it("an item with parts that are no objects does not fail the service", async () => {
    answerAs("openai", () => ({ text: "ok" }));
    const calls = [{ type: "function_call", call_id: "c1", name: "fetch", arguments: "{}", content: [null, "a"] }];
    const output = { type: "function_call_output", call_id: "c1", output: "r" };
    const { status } = await user.post(RESPONSES, { ...request, input: [...calls, output], tools: [FETCH] });
    expect(status).toBeLessThan(500);
  });

  it("a file with data is sent without its reference (attack: the operator's files are read)", async () => {
    answerAs("openai", () => ({ text: "ok" }));
    const file = { file_data: "data:application/pdf;base64,JVBERi0=", file_id: "file-1", file_url: "https://a/b.pdf" };
    const content = [{ type: "input_file", filename: "f.pdf", ...file }];
    await user.post(RESPONSES, { ...request, input: [{ type: "message", role: "user", content }] });
    expect(JSON.stringify(sent())).not.toMatch(/file-1|file_url/);
  });
});

it("an agent with client_tools: pass sends Gemini's signatures back with its calls", async () => {
  const made = await user.post("/api/v1/agents", { name: "Coder", model_id: "native/google", client_tools: "pass" });
  const tools = [{ type: "function", function: { name: "edit", parameters: { type: "object" } } }];
  const asked = { role: "user", content: "edit it" };
  for (const path of ["chat/completions", "responses"]) {
    answerAs("google", (n) =>
      n === 0 ? { reasoning: "hm", calls: [{ name: "edit", arguments: {} }] } : { text: "done" },
    );
    const model = `agent/${made.body.id}`;
    if (path === "responses") {
      const flat = { model, tools: tools.map((tool) => ({ type: "function", ...tool.function })) };
      const first = await user.post("/api/v1/responses", { ...flat, input: [asked] });
      const { call_id } = first.body.output.find(({ type }: { type: string }) => type === "function_call");
      const input = [asked, ...first.body.output, { type: "function_call_output", call_id, output: "r" }];
      const second = await user.post("/api/v1/responses", { ...flat, input });
      expect(second.body.output.at(-1)).toMatchObject({ content: [{ text: "done" }] });
      continue;
    }
    const first = await user.post("/api/v1/chat/completions", { model, tools, messages: [asked] });
    const { message } = first.body.choices[0];
    const result = { role: "tool", tool_call_id: message.tool_calls[0].id, content: "r" };
    const second = await user.post("/api/v1/chat/completions", { model, tools, messages: [asked, message, result] });
    // The fake rejects a call without its signature.
    expect(second.body.choices?.[0].message.content).toBe("done");
  }
});
