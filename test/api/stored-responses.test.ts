import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { LAB_MODELS, type Lab, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { calling, completion, stream } from "../support/upstream.ts";

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

  it("can be read as it was answered, with its input, and deleted; another user's is 404", async () => {
    lab.upstream.answer(completion("hi"));
    const made = (
      await user.post(RESPONSES, { model: "lab/plain", input: [message("user", "one"), message("user", "two")] })
    ).body;
    const at = `${RESPONSES}/${made.id}`;
    expect((await user.get(at)).body).toEqual(made);
    expect((await client.responses.retrieve(made.id)).output_text).toBe("hi");
    const items = (await user.get(`${at}/input_items?order=asc&limit=1`)).body;
    expect(items).toMatchObject({ object: "list", has_more: true, data: [{ type: "message", content: "one" }] });
    const rest = (await user.get(`${at}/input_items?order=asc&after=${items.last_id}`)).body;
    expect(rest).toMatchObject({ has_more: false, data: [{ content: "two" }] });
    for (const path of [at, `${at}/input_items`]) expect((await other.get(path)).status).toBe(404);
    expect((await other.request("DELETE", at)).status).toBe(404);
    const stolen = await other.post(RESPONSES, { model: "lab/plain", input: "x", previous_response_id: made.id });
    expect([stolen.status, stolen.body.error.code]).toEqual([400, "previous_response_not_found"]);
    expect((await user.request("DELETE", at)).body).toEqual({ id: made.id, object: "response", deleted: true });
    expect((await user.get(at)).status).toBe(404);
  });

  it("is none with store: false", async () => {
    lab.upstream.answer(completion("hi"));
    const { body } = await user.post(RESPONSES, { model: "lab/plain", input: "x", store: false });
    expect(body.store).toBe(false);
    expect((await user.get(`${RESPONSES}/${body.id}`)).status).toBe(404);
  });

  it("is none for an account without room, and the answer says so", async () => {
    const full = await lab.service.newUser({ trial: false, tokens: 100_000 });
    lab.upstream.answer(completion("first"), completion("second"));
    const { body } = await full.post(RESPONSES, { model: "lab/plain", input: "x" });
    const db = await lab.service.database.open();
    await db.query({ text: "update response set bytes = 300000000 where user_id = $1", values: [full.user_id] });
    await db.close();
    expect(body.store).toBe(true);
    expect((await full.post(RESPONSES, { model: "lab/plain", input: "y" })).body.store).toBe(false);
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
