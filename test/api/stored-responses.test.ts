import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { LAB_MODELS, type Lab, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { calling, completion, json, stream, USAGE } from "../support/upstream.ts";

// Open Responses: the fields that the public standard's resource has, and stored turns.

let lab: Lab;
let user: Client;
let other: Client;
let client: OpenAI;
beforeAll(async () => {
  const vision = { id: "lab/vision", input_rate: 1, output_rate: 2, supports: { vision: true, tools: true } };
  lab = await startLab([...LAB_MODELS, vision]);
  user = await lab.service.newUser({ trial: false, tokens: 10_000_000 });
  other = await lab.service.newUser({ trial: false, tokens: 1_000 });
  client = new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
});
afterAll(() => lab.stop());
beforeEach(() => lab.upstream.answer(completion()));
const RESPONSES = "/api/v1/responses";
const message = (role: string, content: unknown) => ({ type: "message", role, content });

const whole = z.number().int();
/** A response as the standard describes it: every field is there, and null only where it may be. */
const RESOURCE = z.looseObject({
  id: z.string(),
  object: z.literal("response"),
  created_at: whole,
  completed_at: whole.nullable(),
  status: z.string(),
  incomplete_details: z.looseObject({}).nullable(),
  model: z.string(),
  previous_response_id: z.string().nullable(),
  instructions: z.string().nullable(),
  output: z.array(z.looseObject({ id: z.string(), type: z.string() })),
  error: z.looseObject({}).nullable(),
  tools: z.array(
    z.looseObject({
      type: z.literal("function"),
      name: z.string(),
      description: z.string().nullable(),
      parameters: z.looseObject({}).nullable(),
      strict: z.boolean().nullable(),
    }),
  ),
  tool_choice: z.union([z.string(), z.looseObject({})]),
  truncation: z.enum(["auto", "disabled"]),
  parallel_tool_calls: z.boolean(),
  text: z.looseObject({ format: z.looseObject({ type: z.string() }) }),
  top_p: z.number(),
  presence_penalty: z.number(),
  frequency_penalty: z.number(),
  top_logprobs: whole,
  temperature: z.number(),
  reasoning: z.looseObject({}).nullable(),
  usage: z.looseObject({ input_tokens: whole, output_tokens: whole, total_tokens: whole }).nullable(),
  max_output_tokens: whole.nullable(),
  max_tool_calls: whole.nullable(),
  store: z.boolean(),
  background: z.boolean(),
  service_tier: z.string(),
  metadata: z.unknown(),
  safety_identifier: z.string().nullable(),
  prompt_cache_key: z.string().nullable(),
});
const WEATHER = {
  type: "function",
  name: "get_weather",
  parameters: { type: "object", properties: { location: { type: "string" } } },
};
const HEART =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

describe("the resource of the public standard", () => {
  it.each<[string, object]>([
    ["a text", { input: [message("user", "Say hello.")] }],
    ["a system message", { input: [message("system", "You are a pirate."), message("user", "Hello")] }],
    [
      "a conversation",
      { input: [message("user", "I am Alice."), message("assistant", "Hello Alice!"), message("user", "Who am I?")] },
    ],
    [
      "a picture",
      {
        model: "lab/vision",
        input: [
          message("user", [
            { type: "input_text", text: "What?" },
            { type: "input_image", image_url: HEART },
          ]),
        ],
      },
    ],
    ["a tool", { input: "weather?", tools: [WEATHER] }],
  ])("%s is answered with every field", async (_, fields) => {
    const { status, body } = await user.post(RESPONSES, { model: "lab/plain", ...fields });
    expect(status).toBe(200);
    RESOURCE.parse(body);
    expect(body).toMatchObject({ status: "completed", completed_at: expect.any(Number), store: true });
  });

  it("a stream's responses have the same fields, and a streamed call its arguments", async () => {
    lab.upstream.answer(stream(["one", " two"]));
    const events = [];
    for await (const event of await client.responses.create({ model: "lab/plain", input: "Count", stream: true }))
      events.push(event);
    for (const event of events) if ("response" in event) RESOURCE.parse(event.response);
    expect(events.at(-1)).toMatchObject({ type: "response.completed", response: { completed_at: expect.any(Number) } });
  });

  it("repeats what was sent, and says what was not applied", async () => {
    const sent = {
      truncation: "auto",
      temperature: 0.5,
      top_p: 0.9,
      presence_penalty: 0.3,
      frequency_penalty: -0.2,
      max_tool_calls: 3,
      safety_identifier: "s",
      prompt_cache_key: "k",
      text: {
        verbosity: "low",
        format: { type: "json_schema", name: "x", description: "d", schema: { type: "object" } },
      },
    };
    lab.upstream.answer(completion("{}"));
    const { body } = await user.post(RESPONSES, { model: "lab/plain", input: "x", service_tier: "priority", ...sent });
    expect(body).toMatchObject(sent);
    expect(body.service_tier).toBe("default");
    expect(lab.upstream.requests.at(-1)?.body).toMatchObject({ presence_penalty: 0.3, frequency_penalty: -0.2 });
  });
});

it("fields that are null are answered as what holds without them", async () => {
  const format = { type: "json_schema", name: "x", schema: { type: "object" }, strict: null, description: null };
  const absent = { temperature: null, top_p: null, service_tier: null, truncation: null, store: null };
  lab.upstream.answer(completion("{}"));
  const { body } = await user.post(RESPONSES, {
    model: "lab/plain",
    input: "x",
    text: { verbosity: null, format },
    ...absent,
  });
  RESOURCE.parse(body);
  expect(body.text).toEqual({ format: { ...format, strict: false } });
});

it("a tier that the operator forwards reaches the provider, and the answer has the one that applied", async () => {
  const tiered = await startLab([{ id: "lab/tiered", input_rate: 1, output_rate: 2, forward: ["service_tier"] }]);
  try {
    const owner = await tiered.service.newUser({ trial: false, tokens: 100_000 });
    const choices = [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }];
    tiered.upstream.answer(
      json({ object: "chat.completion", model: "m", choices, usage: USAGE, service_tier: "flex" }),
    );
    const fields = { model: "lab/tiered", input: "x", service_tier: "priority" };
    expect((await owner.post(RESPONSES, fields)).body.service_tier).toBe("flex");
    expect(tiered.upstream.requests.at(-1)?.body.service_tier).toBe("priority");
  } finally {
    await tiered.stop();
  }
});

describe("a stored response", () => {
  it("is continued by previous_response_id with the openai client, with instructions replaced", async () => {
    lab.upstream.answer(completion("Hello Alice!"), completion("You are Alice."));
    const first = await client.responses.create({ model: "lab/plain", input: "I am Alice.", instructions: "Be kind." });
    const second = await client.responses.create({
      model: "lab/plain",
      input: "Who am I?",
      instructions: "Be brief.",
      previous_response_id: first.id,
    });
    expect([second.output_text, second.previous_response_id]).toEqual(["You are Alice.", first.id]);
    expect(lab.upstream.requests.at(-1)?.body.messages).toEqual([
      { role: "system", content: "Be brief." },
      { role: "user", content: "I am Alice." },
      { role: "assistant", content: "Hello Alice!" },
      { role: "user", content: "Who am I?" },
    ]);
  });

  it("is continued by the output of a tool, also streamed", async () => {
    lab.upstream.answer(calling("get_weather", { location: "Oslo" }), stream(["Sunny."]));
    const first = await client.responses.create({ model: "lab/plain", input: "Oslo?", tools: [WEATHER as never] });
    const call = first.output.find(({ type }) => type === "function_call") as { call_id: string };
    const output = { type: "function_call_output" as const, call_id: call.call_id, output: "sun" };
    const events = await client.responses.create({
      model: "lab/plain",
      input: [output],
      previous_response_id: first.id,
      stream: true,
    });
    let text = "";
    for await (const event of events) if (event.type === "response.output_text.delta") text += event.delta;
    expect(text).toBe("Sunny.");
    const messages = [{ role: "user" }, { role: "assistant" }, { role: "tool" }];
    expect(lab.upstream.requests.at(-1)?.body).toMatchObject({ messages });
  });

  it("is continued without new input, and names its fields in errors without those before", async () => {
    const first = await client.responses.create({
      model: "lab/plain",
      input: [message("user", "1"), message("user", "2")] as never,
    });
    for (const fields of [{}, { input: [] }]) {
      await client.responses.create({ model: "lab/plain", previous_response_id: first.id, ...fields });
      expect(lab.upstream.requests.at(-1)?.body.messages).toHaveLength(3);
    }
    const input = [message("user", [{ type: "input_image" }])];
    const { body } = await user.post(RESPONSES, { model: "lab/plain", previous_response_id: first.id, input });
    expect(body.error.param).toBe("input[0].content[0].image_url");
  });

  it("has in its conversation the items that its input only named", async () => {
    lab.upstream.answer(completion("papaya"));
    const first = (await user.post(RESPONSES, { model: "lab/plain", input: "a word" })).body;
    const input = [message("user", "a word"), { type: "item_reference", id: first.output[0].id }];
    const second = (await user.post(RESPONSES, { model: "lab/plain", input })).body;
    await user.post(RESPONSES, { model: "lab/plain", input: "which?", previous_response_id: second.id });
    expect(lab.upstream.requests.at(-1)?.body.messages[1]).toEqual({ role: "assistant", content: "papaya" });
  });

  it("is continued by many requests at the same moment", async () => {
    let last = await client.responses.create({ model: "lab/plain", input: "0" });
    for (const input of ["1", "2", "3"]) {
      last = await client.responses.create({ model: "lab/plain", input, previous_response_id: last.id });
    }
    const branches = Array.from({ length: 10 }, (_, at) =>
      client.responses.create({ model: "lab/plain", input: `branch ${at}`, previous_response_id: last.id }),
    );
    expect((await Promise.all(branches)).map(({ status }) => status)).toEqual(branches.map(() => "completed"));
  });

  it("lists its input in OpenAI's form, each item with an id of its own, to the last page", async () => {
    const input = [
      { role: "system", content: "short" },
      { ...message("user", "one"), id: "same" },
      { ...message("user", [{ type: "input_image", image_url: HEART }]), id: "same" },
      message("assistant", "two"),
      { type: "function_call", call_id: "c", name: "get_weather", arguments: "{}" },
      { type: "function_call_output", call_id: "c", output: "sun" },
    ];
    const made = (await user.post(RESPONSES, { model: "lab/vision", input })).body;
    const listed = [];
    for await (const item of client.responses.inputItems.list(made.id, { limit: 1, order: "asc" })) listed.push(item);
    const status = "completed";
    expect(listed).toMatchObject([
      { type: "message", role: "system", status, content: [{ type: "input_text", text: "short" }] },
      { type: "message", role: "user", status, content: [{ type: "input_text", text: "one" }] },
      { type: "message", role: "user", status, content: [{ type: "input_image", detail: "auto" }] },
      { type: "message", role: "assistant", status, content: [{ type: "output_text", text: "two", annotations: [] }] },
      { type: "function_call", call_id: "c", status },
      { type: "function_call_output", output: "sun", status },
    ]);
    expect(new Set(listed.map(({ id }) => id)).size).toBe(input.length);
    const latest = (await user.get(`${RESPONSES}/${made.id}/input_items?limit=2`)).body;
    expect(latest).toMatchObject({ data: [{ output: "sun" }, { type: "function_call" }], has_more: true });
  });

  it("can be read as it was answered, with its input, and deleted; another user's is 404", async () => {
    lab.upstream.answer(completion("hi"));
    const made = (
      await user.post(RESPONSES, { model: "lab/plain", input: [message("user", "one"), message("user", "two")] })
    ).body;
    const at = `${RESPONSES}/${made.id}`;
    expect((await user.get(at)).body).toEqual(made);
    expect((await client.responses.retrieve(made.id)).output_text).toBe("hi");
    const items = (await user.get(`${at}/input_items?order=asc&limit=1`)).body;
    expect(items).toMatchObject({
      object: "list",
      has_more: true,
      data: [{ type: "message", content: [{ text: "one" }] }],
    });
    const rest = (await user.get(`${at}/input_items?order=asc&after=${items.last_id}`)).body;
    expect(rest).toMatchObject({ has_more: false, data: [{ content: [{ text: "two" }] }] });
    for (const path of [at, `${at}/input_items`]) expect((await other.get(path)).status).toBe(404);
    expect((await other.request("DELETE", at)).status).toBe(404);
    const stolen = await other.post(RESPONSES, { model: "lab/plain", input: "x", previous_response_id: made.id });
    expect([stolen.status, stolen.body.error.code]).toEqual([400, "previous_response_not_found"]);
    expect((await user.request("DELETE", at)).body).toEqual({ id: made.id, object: "response", deleted: true });
    expect((await user.get(at)).status).toBe(404);
    const named = { model: "lab/plain", input: [{ type: "item_reference", id: made.output[0].id }] };
    expect((await user.post(RESPONSES, named)).body.error.param).toBe("input[0].id");
    expect((await user.get(`${at}?stream=true`)).status).toBe(400);
  });

  it.each(["first", "second"])(
    "a conversation goes on without the items of its %s response, which was deleted",
    async (which) => {
      const post = async (fields: object) =>
        (await user.post(RESPONSES, { model: "lab/plain", tools: [add], ...fields })).body;
      const add = { type: "function", name: "add", parameters: { type: "object", properties: {} } };
      lab.upstream.answer(
        calling("add", { a: 1 }, "call_1"),
        completion("two"),
        completion("three"),
        completion("four"),
      );
      const first = await post({ input: "a secret" });
      const output = { type: "function_call_output", call_id: "call_1", output: "2" };
      const second = await post({ input: [output, message("user", "b")], previous_response_id: first.id });
      const third = await post({ input: "c", previous_response_id: second.id });
      expect((await user.request("DELETE", `${RESPONSES}/${which === "first" ? first.id : second.id}`)).status).toBe(
        200,
      );
      const fourth = await post({ input: "d", previous_response_id: third.id });
      expect(fourth.status).toBe("completed");
      const sent = lab.upstream.requests.at(-1)?.body.messages.map((each: { content: unknown }) => each.content);
      expect(sent).toEqual(which === "first" ? ["b", "two", "c", "three", "d"] : ["a secret", null, "c", "three", "d"]);
    },
  );

  it("is none with store: false", async () => {
    lab.upstream.answer(completion("hi"));
    const { body } = await user.post(RESPONSES, { model: "lab/plain", input: "x", store: false });
    expect(body.store).toBe(false);
    expect((await user.get(`${RESPONSES}/${body.id}`)).status).toBe(404);
  });

  it.each([
    ["as many bytes", "update response set bytes = 268435000 where user_id = $1"],
    [
      "as many responses",
      `insert into response select user_id, 'copy_' || i, null, body, input, 1, created_at, used_at
        from response, generate_series(1, 19999) i where user_id = $1`,
    ],
  ])("is none when the account has stored %s as a day may have, and the answer says so", async (_, filling) => {
    const full = await lab.service.newUser({ trial: false, tokens: 100_000 });
    const post = (fields = {}) => full.post(RESPONSES, { model: "lab/plain", input: "x", ...fields });
    expect((await post()).body.store).toBe(true);
    const db = await lab.service.database.open();
    const change = (text: string) => db.query({ text, values: [full.user_id] });
    try {
      await change(filling);
      const { body } = await post();
      expect([body.status, body.store]).toEqual(["completed", false]);
      expect((await full.get(`${RESPONSES}/${body.id}`)).status).toBe(404);
      const last = (await post({ stream: true })).body.split("event: response.completed\ndata: ").at(-1);
      expect(JSON.parse(last).response.store).toBe(false);
      await change("update response set created_at = created_at - interval '25 hours' where user_id = $1");
      expect((await post()).body.store).toBe(true);
    } finally {
      await db.close();
    }
  });

  it("is the end of at most 1,000 responses, and the error says what to do", async () => {
    const { body } = await user.post(RESPONSES, { model: "lab/plain", input: "x" });
    const db = await lab.service.database.open();
    await db.query({
      text: `insert into response select user_id, 'chain_' || i, case i when 1 then id else 'chain_' || i - 1 end,
          body, input, 1, created_at, used_at from response, generate_series(1, 1000) i where id = $1`,
      values: [body.id],
    });
    await db.close();
    const follow = (id: string) => user.post(RESPONSES, { model: "lab/plain", input: "x", previous_response_id: id });
    expect((await follow("chain_998")).status).toBe(200);
    const { error } = (await follow("chain_1000")).body;
    expect([error.code, error.param]).toEqual(["invalid_value", "previous_response_id"]);
    expect(error.message).toContain("summary");
  });
});

describe("what is kept", () => {
  const START = Date.parse("2026-11-01T00:00:00.000Z");
  let kept: Lab;
  beforeAll(async () => {
    const env = { PURSER_TEST_CLOCK: new Date(START).toISOString(), PURSER_KEEP_RESPONSES_DAYS: "2" };
    kept = await startLab(LAB_MODELS, { env });
  });
  afterAll(() => kept.stop());

  it("stays for PURSER_KEEP_RESPONSES_DAYS after the conversation was continued, and its items too", async () => {
    const owner = await kept.service.newUser({ trial: false, tokens: 1_000_000 });
    const hour = async (hours: number) => {
      const now = new Date(START + hours * 3_600_000).toISOString();
      await kept.service.admin.request("PUT", "/api/v1/admin/clock", { now });
    };
    const post = (fields: object) => owner.post(RESPONSES, { model: "lab/plain", input: "x", ...fields });
    const [first, lonely] = [(await post({})).body, (await post({})).body];
    await hour(47);
    const reference = { type: "item_reference", id: lonely.output[0].id };
    expect((await post({ input: [reference, message("user", "y")], store: false })).status).toBe(200);
    const second = (await post({ previous_response_id: first.id })).body;
    await hour(49);
    expect((await owner.get(`${RESPONSES}/${lonely.id}`)).status).toBe(404);
    expect((await owner.get(`${RESPONSES}/${first.id}`)).body).toEqual(first);
    expect((await post({ previous_response_id: second.id, store: false })).status).toBe(200);
    await hour(98);
    expect((await post({ previous_response_id: second.id })).body.error.code).toBe("previous_response_not_found");
  });

  it("is erased with the user", async () => {
    const owner = await kept.service.newUser({ trial: false, tokens: 1_000_000 });
    await owner.post(RESPONSES, { model: "lab/plain", input: "my secret plan" });
    const db = await kept.service.database.open();
    const rows = () => db.query({ text: "select id from response where user_id = $1", values: [owner.user_id] });
    try {
      expect(await rows()).toHaveLength(1);
      await kept.service.admin.request("DELETE", `/api/v1/admin/users/${owner.user_id}`);
      expect(await rows()).toEqual([]);
    } finally {
      await db.close();
    }
  });
});

it("input_tokens estimates a request without calling a model", async () => {
  const before = lab.upstream.requests.length;
  const { body } = await user.post(`${RESPONSES}/input_tokens`, { model: "lab/plain", input: "Tell me a joke." });
  expect(body).toEqual({ object: "response.input_tokens", input_tokens: expect.any(Number) });
  expect(lab.upstream.requests.length).toBe(before);
});

it.each([
  ["conversation", { conversation: "conv_1" }],
  ["background", { background: true }],
])("%s is 400 and says what to do", async (field, fields) => {
  const { status, body } = await user.post(RESPONSES, { model: "lab/plain", input: "x", ...fields });
  expect([status, body.error.param]).toEqual([400, field]);
});
it("compact is 400 and says what to do", async () => {
  const { status, body } = await user.post(`${RESPONSES}/compact`, { model: "lab/plain" });
  expect([status, body.error.message]).toEqual([400, expect.stringContaining("previous_response_id")]);
});
