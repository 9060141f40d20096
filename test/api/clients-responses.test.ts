import OpenAI, { type APIError } from "openai";
import { beforeEach, describe, expect, it } from "vitest";
import { charges, settledBalance, useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { calling, completion, cut, delta, ended, event, events, json } from "../support/upstream.ts";

// The Responses API as the openai client calls it, over a provider that only has chat completions (contract 4).

const RESPONSES = "/api/v1/responses";

let user: Client;
let client: OpenAI;
const lab = useLab([
  { id: "lab/plain", input_rate: 1, output_rate: 2 },
  { id: "lab/eyes", input_rate: 1, output_rate: 2, supports: { vision: true, json_schema: true, files: true } },
]);
beforeEach(async () => {
  lab.upstream.requests = [];
  lab.upstream.answer(completion());
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  client = new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
});

const sent = () => lab.upstream.requests.at(-1)?.body;
const amounts = async () => (await charges(user)).map(({ amount }) => amount);
const thrown = (call: PromiseLike<unknown>): Promise<APIError> =>
  Promise.resolve(call).then(
    () => expect.fail("it succeeded"),
    (error) => error,
  );
const WEATHER = {
  type: "function" as const,
  name: "weather",
  strict: false,
  parameters: { type: "object", properties: { city: { type: "string" } } },
};

describe("a response", () => {
  it("answers with the text and the usage, and is charged once like a chat completion", async () => {
    const answer = await client.responses.create({ model: "lab/plain", instructions: "be brief", input: "hello" });
    expect(answer).toMatchObject({
      object: "response",
      status: "completed",
      model: "lab/plain",
      store: true,
      output_text: "hello from upstream",
      usage: { input_tokens: 10, output_tokens: 4, total_tokens: 14, cost_tokens: 18 },
    });
    expect(answer.usage?.input_tokens_details.cached_tokens).toBe(0);
    expect(answer.usage?.output_tokens_details.reasoning_tokens).toBe(0);
    expect(sent().messages).toEqual([
      { role: "system", content: "be brief" },
      { role: "user", content: "hello" },
    ]);
    expect(await amounts()).toEqual([-18]);
  });

  it("streams the published events, in order, and the client's helper joins them", async () => {
    const stream = client.responses.stream({ model: "lab/plain", input: "hello" });
    const types: string[] = [];
    const numbers: number[] = [];
    for await (const each of stream) {
      types.push(each.type);
      numbers.push(each.sequence_number);
    }
    expect(numbers).toEqual(numbers.map((_, index) => index));
    expect([...new Set(types)]).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ]);
    const final = await stream.finalResponse();
    expect(final).toMatchObject({ output_text: "hello from upstream", usage: { total_tokens: 14, cost_tokens: 18 } });
    expect(await amounts()).toEqual([-18]);
  });

  it("maps its settings to the provider's: cap, schema, effort, sampling, parallel calls", async () => {
    await client.responses.create({
      model: "lab/eyes",
      input: [
        { role: "developer", content: "json" },
        { role: "user", content: [{ type: "input_text", text: "hi" }] },
      ],
      max_output_tokens: 50,
      temperature: 0.5,
      top_p: 0.9,
      parallel_tool_calls: false,
      metadata: { a: "b" },
      prompt_cache_key: "k",
      store: false,
      include: ["reasoning.encrypted_content"],
      reasoning: { effort: "low", summary: "auto" },
      text: {
        verbosity: "low",
        format: { type: "json_schema", name: "out", strict: true, schema: { type: "object" } },
      },
    });
    expect(sent()).toMatchObject({
      messages: [
        { role: "system", content: "json" },
        { role: "user", content: "hi" },
      ],
      max_tokens: 50,
      temperature: 0.5,
      top_p: 0.9,
      reasoning_effort: "low",
      response_format: { type: "json_schema", json_schema: { name: "out", strict: true, schema: { type: "object" } } },
    });
  });

  it("carries images and files", async () => {
    const image = { type: "input_image" as const, image_url: "data:image/png;base64,AA==", detail: "low" as const };
    const file = { type: "input_file" as const, filename: "a.pdf", file_data: "data:application/pdf;base64,AA==" };
    await client.responses.create({ model: "lab/eyes", input: [{ role: "user", content: [image, file] }] });
    expect(sent().messages[0].content).toEqual([
      { type: "image_url", image_url: { url: image.image_url, detail: "low" } },
      { type: "file", file: { file_data: file.file_data, filename: "a.pdf" } },
    ]);
    const refused = await thrown(
      client.responses.create({ model: "lab/plain", input: [{ role: "user", content: [image] }] }),
    );
    expect([refused.status, refused.param]).toEqual([400, "input[0].content[0]"]);
  });

  it("is incomplete if the cap cut it", async () => {
    lab.upstream.answer(ended("some words", "length"));
    const stream = client.responses.stream({ model: "lab/plain", input: "hello", max_output_tokens: 16 });
    const final = await stream.finalResponse();
    expect(final).toMatchObject({ status: "incomplete", incomplete_details: { reason: "max_output_tokens" } });
    expect(final.output_text).toBe("some words");
  });

  it("works with auto, which shows its routing, and with an agent", async () => {
    const auto = await client.responses.create({ model: "auto", input: "hello" });
    expect(auto).toMatchObject({ output_text: "hello from upstream", routing: { chosen: auto.model } });
    const agent = await user.post("/api/v1/agents", { name: "a", model_id: "lab/plain", system_prompt: "kind" });
    const model = `agent/${agent.body.id}`;
    const whole = await client.responses.create({ model, input: "hello", tools: [WEATHER] });
    const streamed = await client.responses.stream({ model, input: "hello" }).finalResponse();
    expect([whole.output_text, streamed.output_text]).toEqual(["hello from upstream", "hello from upstream"]);
    expect(streamed.usage).toMatchObject({ cost_tokens: 18 });
  });
});

describe("tools", () => {
  it("can be called, streamed and not, and the model continues with the output", async () => {
    lab.upstream.answer(
      calling("weather", { city: "Oslo" }),
      calling("weather", { city: "Oslo" }),
      completion("Rain."),
    );
    const request = { model: "lab/plain", input: "Weather?", tools: [WEATHER] };
    const first = await client.responses.create(request);
    const call = { type: "function_call", call_id: "call_1", name: "weather", arguments: '{"city":"Oslo"}' };
    expect(first.output).toMatchObject([call]);
    expect((await client.responses.stream(request).finalResponse()).output).toMatchObject([call]);
    const input = [
      { role: "user" as const, content: "Weather?" },
      ...first.output,
      { type: "function_call_output" as const, call_id: "call_1", output: "rain" },
    ] as OpenAI.Responses.ResponseInput;
    const second = await client.responses.create({ ...request, input });
    expect(second.output_text).toBe("Rain.");
    expect(sent().messages).toMatchObject([
      { role: "user" },
      {
        role: "assistant",
        tool_calls: [{ id: "call_1", function: { name: "weather", arguments: '{"city":"Oslo"}' } }],
      },
      { role: "tool", tool_call_id: "call_1", content: "rain" },
    ]);
    expect(sent().tools).toMatchObject([{ type: "function", function: { name: "weather" } }]);
  });

  it("in a namespace are called with their name and their namespace", async () => {
    const namespace = {
      type: "namespace",
      name: "mcp__files",
      description: "d",
      tools: [{ ...WEATHER, name: "read" }],
    };
    lab.upstream.answer(calling("mcp__files__read", { city: "x" }), completion());
    const tools = [namespace] as never;
    const first = await client.responses.create({ model: "lab/plain", input: "go", tools });
    expect(first.output).toMatchObject([{ type: "function_call", name: "read", namespace: "mcp__files" }]);
    await client.responses.create({ model: "lab/plain", input: first.output as never, tools });
    expect(sent().messages[0].tool_calls[0].function.name).toBe("mcp__files__read");
  });

  it("of type custom get their input as text", async () => {
    lab.upstream.answer(
      calling("apply_patch", { input: "*** Begin" }),
      calling("apply_patch", { input: "*** Begin" }),
      completion(),
    );
    const tools = [
      { type: "custom", name: "apply_patch", format: { type: "grammar", syntax: "lark", definition: "start: X" } },
    ] as never;
    const call = { type: "custom_tool_call", name: "apply_patch", input: "*** Begin" };
    const first = await client.responses.create({ model: "lab/plain", input: "go", tools });
    expect(first.output).toMatchObject([call]);
    expect(
      (await client.responses.stream({ model: "lab/plain", input: "go", tools }).finalResponse()).output,
    ).toMatchObject([call]);
    expect(sent().tools[0].function.description).toContain("start: X");
    const output = { type: "custom_tool_call_output", call_id: "call_1", output: "done" };
    await client.responses.create({ model: "lab/plain", input: [...first.output, output] as never, tools });
    expect(sent().messages[0].tool_calls[0].function.arguments).toBe('{"input":"*** Begin"}');
  });

  it("that OpenAI executes are dropped, unless one is forced", async () => {
    const tools = [WEATHER, { type: "web_search" }, { type: "image_generation" }] as never;
    await client.responses.create({ model: "lab/plain", input: "go", tools, tool_choice: "auto" });
    expect(sent().tools).toHaveLength(1);
    const forced = await thrown(
      client.responses.create({ model: "lab/plain", input: "go", tools, tool_choice: { type: "web_search" } as never }),
    );
    expect([forced.status, forced.param]).toEqual([400, "tool_choice"]);
  });

  it("are offered to the model only if they are allowed", async () => {
    const tools = [WEATHER, { ...WEATHER, name: "other" }];
    const allowed = {
      type: "allowed_tools" as const,
      mode: "required" as const,
      tools: [{ type: "function", name: "other" }],
    };
    await client.responses.create({ model: "lab/plain", input: "go", tools, tool_choice: allowed });
    expect(sent()).toMatchObject({ tools: [{ function: { name: "other" } }], tool_choice: "required" });
    expect(sent().tools).toHaveLength(1);
  });
});

describe("reasoning", () => {
  const thinking = json({
    id: "x",
    created: 1,
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: "42", reasoning_content: "Let me think." },
        finish_reason: "stop",
      },
    ],
    usage: { prompt_tokens: 10, completion_tokens: 4 },
  });

  it("is an item with encrypted content, and is sent back to the provider with the answer", async () => {
    lab.upstream.answer(thinking, completion());
    const include = ["reasoning.encrypted_content" as const];
    const first = await client.responses.create({ model: "lab/plain", input: "?", store: false, include });
    expect(first.output).toMatchObject([
      { type: "reasoning", summary: [{ type: "summary_text", text: "Let me think." }] },
      { type: "message" },
    ]);
    const { encrypted_content } = first.output[0] as OpenAI.Responses.ResponseReasoningItem;
    expect(encrypted_content).not.toContain("think");
    const input = [
      { role: "user" as const, content: "?" },
      ...first.output,
      { role: "user" as const, content: "why?" },
    ];
    await client.responses.create({ model: "lab/plain", input: input as never, store: false, include });
    expect(sent().messages[1]).toMatchObject({ role: "assistant", content: "42", reasoning_content: "Let me think." });
  });

  it("of another user or another service is ignored", async () => {
    lab.upstream.answer(thinking, completion());
    const include = ["reasoning.encrypted_content" as const];
    const first = await client.responses.create({ model: "lab/plain", input: "?", include });
    const other = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
    const stranger = new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: other.key });
    const foreign = { type: "reasoning" as const, id: "rs_1", summary: [], encrypted_content: "gAAAA" };
    await stranger.responses.create({ model: "lab/plain", input: [foreign, ...first.output] as never });
    expect(sent().messages).toEqual([{ role: "assistant", content: "42" }]);
  });
});

describe("references to items", () => {
  it("can name an item only once (attack: a small request becomes a huge one)", async () => {
    const first = await client.responses.create({ model: "lab/plain", input: "hello" });
    const reference = { type: "item_reference" as const, id: first.output[0]?.id ?? "" };
    const { status, body } = await user.post(RESPONSES, { model: "lab/plain", input: [reference, reference] });
    expect([status, body.error.param]).toEqual([400, "input"]);
  });

  it("can name the same user's stored items, as the AI SDK does", async () => {
    const first = await client.responses.create({ model: "lab/plain", input: "hello" });
    const input = [
      { role: "user" as const, content: "hello" },
      { type: "item_reference" as const, id: first.output[0]?.id ?? "" },
      { role: "user" as const, content: "again" },
    ];
    await client.responses.create({ model: "lab/plain", input });
    expect(sent().messages[1]).toEqual({ role: "assistant", content: "hello from upstream" });
    const other = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
    const stolen = await other.post(RESPONSES, { model: "lab/plain", input });
    expect([stolen.status, stolen.body.error.param]).toEqual([400, "input[1].id"]);
    expect(stolen.body.error.message).toContain("store: false");
  });

  it("to a response with store: false do not work", async () => {
    const first = await client.responses.create({ model: "lab/plain", input: "hello", store: false });
    const input = [{ type: "item_reference" as const, id: first.output[0]?.id ?? "" }];
    expect((await thrown(client.responses.create({ model: "lab/plain", input }))).status).toBe(400);
  });
});

describe("failures", () => {
  it.each([
    ["a tool call that is null", { choices: [{ index: 0, delta: { tool_calls: [null] }, finish_reason: null }] }],
    ["choices that are no list", { choices: {} }],
  ])(
    "an event of the provider with %s ends the stream with response.failed, and its hold is settled",
    async (_, broken) => {
      lab.upstream.answer(events(delta("Once"), `data: ${JSON.stringify(broken)}\n\n`, delta("more")));
      const { body } = await user.post(RESPONSES, { model: "lab/plain", input: "hi", stream: true });
      expect(body).toContain("response.failed");
      await settledBalance(user);
    },
  );

  it("an event with error: null is an ordinary event", async () => {
    const first = event({ choices: [{ index: 0, delta: { content: "Hi" }, finish_reason: null }], error: null });
    const last = event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
    lab.upstream.answer(events(first, last, "data: [DONE]\n\n"));
    const { body } = await user.post(RESPONSES, { model: "lab/plain", input: "hi", stream: true });
    expect(body).toContain("response.completed");
  });

  it.each([
    ["conversation", "conv_1"],
    ["background", true],
    ["prompt", { id: "pmpt_1" }],
  ])("%s is 400 and names the alternative", async (field, value) => {
    const { status, body } = await user.post(RESPONSES, { model: "lab/plain", input: "hi", [field]: value });
    expect([status, body.error.param]).toEqual([400, field]);
    expect(body.error.message).toMatch(/agent/i);
  });

  it("an unaffordable response is 402, streamed or not, and nothing is sent", async () => {
    const poor = await lab.service.newUser({ trial: false });
    for (const stream of [false, true]) {
      const { status, body } = await poor.post(RESPONSES, { model: "lab/plain", input: "hi", stream });
      expect([status, body.error.code]).toEqual([402, "out_of_tokens"]);
    }
    expect(lab.upstream.requests).toEqual([]);
  });

  it("a broken stream ends with response.failed, and its output so far is charged", async () => {
    lab.upstream.answer(cut(event({ choices: [{ index: 0, delta: { role: "assistant" } }] }), delta("some words")));
    const types: string[] = [];
    let failed: OpenAI.Responses.Response | null = null;
    for await (const each of await client.responses.create({ model: "lab/plain", input: "hi", stream: true })) {
      types.push(each.type);
      if (each.type === "response.failed") failed = each.response;
    }
    expect(types.at(-1)).toBe("response.failed");
    expect(failed).toMatchObject({ status: "failed", error: { code: "server_error" } });
    expect(await settledBalance(user)).toBeLessThan(1_000_000);
  });

  it("a field of the wrong type is named as the caller wrote it", async () => {
    for (const [fields, param] of [
      [{ input: [{ type: "compaction" }] }, "input[0].type"],
      [{ tools: [{ type: "function", name: "a b" }] }, "tools[0].name"],
      [{ max_output_tokens: 0 }, "max_output_tokens"],
      [{ no_such_field: 1 }, "no_such_field"],
      [{ input: [{ type: "function_call", call_id: "c", name: "f" }] }, "input[0].arguments"],
    ] as const) {
      const { status, body } = await user.post(RESPONSES, { model: "lab/plain", input: "hi", ...fields });
      expect([status, body.error.param]).toEqual([400, param]);
    }
  });

  it("a stream that fails before its start is an ordinary error", async () => {
    lab.upstream.answer(json({ error: { message: "no" } }, 500));
    const error = await thrown(client.responses.create({ model: "lab/plain", input: "hi", stream: true }));
    expect(error.status).toBe(502);
    expect(await amounts()).toEqual([]);
    lab.upstream.answer(events());
    expect((await thrown(client.responses.create({ model: "lab/plain", input: "hi", stream: true }))).status).toBe(502);
  });
});
