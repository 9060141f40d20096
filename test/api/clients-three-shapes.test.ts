import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { charges, type Lab, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { calling, completion, type Reply } from "../support/upstream.ts";

// One conversation through chat completions, Responses and Messages has the same upstream request, usage and charge.

let lab: Lab;
let user: Client;
beforeAll(async () => {
  lab = await startLab([
    {
      id: "lab/all",
      input_rate: 0.333333,
      output_rate: 1.000001,
      cached_input_rate: 0.1,
      supports: { vision: true, files: true, json_schema: true },
    },
  ]);
});
afterAll(() => lab.stop());
beforeEach(async () => {
  lab.upstream.requests = [];
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
});

const parameters = { type: "object", properties: { city: { type: "string" } } };
const schema = { type: "object", properties: { answer: { type: "string" } } };
const png = "data:image/png;base64,AA==";
const chat_call = { id: "call_1", type: "function", function: { name: "weather", arguments: '{"city":"Oslo"}' } };

/** The same conversation in the three shapes. */
const CONVERSATIONS: Record<string, { chat: object; responses: object; messages: object; reply: Reply }> = {
  "a question with instructions and a cap": {
    chat: {
      max_tokens: 100,
      messages: [
        { role: "system", content: "be brief" },
        { role: "user", content: "hello" },
      ],
    },
    responses: { max_output_tokens: 100, instructions: "be brief", input: "hello" },
    messages: { max_tokens: 100, system: "be brief", messages: [{ role: "user", content: "hello" }] },
    reply: completion(),
  },
  "a turn after a tool call": {
    chat: {
      max_tokens: 100,
      tools: [{ type: "function", function: { name: "weather", parameters } }],
      tool_choice: "auto",
      parallel_tool_calls: false,
      messages: [
        { role: "user", content: "Weather?" },
        { role: "assistant", content: "I look.", tool_calls: [chat_call] },
        { role: "tool", tool_call_id: "call_1", content: "rain" },
        { role: "user", content: "and tomorrow?" },
      ],
    },
    responses: {
      max_output_tokens: 100,
      tools: [{ type: "function", name: "weather", parameters }],
      tool_choice: "auto",
      parallel_tool_calls: false,
      input: [
        { role: "user", content: "Weather?" },
        { role: "assistant", content: [{ type: "output_text", text: "I look." }] },
        { type: "function_call", call_id: "call_1", name: "weather", arguments: '{"city":"Oslo"}' },
        { type: "function_call_output", call_id: "call_1", output: "rain" },
        { role: "user", content: [{ type: "input_text", text: "and tomorrow?" }] },
      ],
    },
    messages: {
      max_tokens: 100,
      tools: [{ name: "weather", input_schema: parameters }],
      tool_choice: { type: "auto", disable_parallel_tool_use: true },
      messages: [
        { role: "user", content: "Weather?" },
        {
          role: "assistant",
          content: [
            { type: "text", text: "I look." },
            { type: "tool_use", id: "call_1", name: "weather", input: { city: "Oslo" } },
          ],
        },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "call_1", content: "rain" },
            { type: "text", text: "and tomorrow?" },
          ],
        },
      ],
    },
    reply: calling("weather", { city: "Oslo" }),
  },
  "a picture, with sampling": {
    chat: {
      max_tokens: 100,
      top_p: 0.5,
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "what?" },
            { type: "image_url", image_url: { url: png } },
          ],
        },
      ],
    },
    responses: {
      max_output_tokens: 100,
      top_p: 0.5,
      input: [
        {
          role: "user",
          content: [
            { type: "input_text", text: "what?" },
            { type: "input_image", image_url: png },
          ],
        },
      ],
    },
    messages: {
      max_tokens: 100,
      top_p: 0.5,
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "what?" },
            { type: "image", source: { type: "base64", media_type: "image/png", data: "AA==" } },
          ],
        },
      ],
    },
    reply: completion(),
  },
  "an answer in a schema": {
    chat: {
      max_tokens: 100,
      response_format: { type: "json_schema", json_schema: { name: "answer", schema } },
      messages: [{ role: "user", content: "json" }],
    },
    responses: {
      max_output_tokens: 100,
      text: { format: { type: "json_schema", name: "answer", schema } },
      input: "json",
    },
    messages: {
      max_tokens: 100,
      output_config: { format: { type: "json_schema", schema } },
      messages: [{ role: "user", content: "json" }],
    },
    reply: completion("{}", {
      prompt_tokens: 33,
      completion_tokens: 7,
      prompt_tokens_details: { cached_tokens: 11 },
    }),
  },
};

/** The usage in the body, or in the last event that has one. */
function usageIn(body: unknown): Record<string, number> {
  if (typeof body !== "string") return (body as { usage: Record<string, number> }).usage;
  const data = body.split("\n").flatMap((line) => (line.startsWith("data: {") ? JSON.parse(line.slice(6)) : []));
  const found = data.map((event) => event.response?.usage ?? event.usage ?? event.message?.usage);
  return found.findLast((usage) => usage != null);
}

describe.each(Object.entries(CONVERSATIONS))("%s", (_, { reply, ...shapes }) => {
  it.each([false, true])("has the same request, usage and charge in every shape; stream: %s", async (stream) => {
    lab.upstream.answer(reply);
    const costs: unknown[] = [];
    const tokens: unknown[] = [];
    for (const [path, fields] of [
      ["chat/completions", shapes.chat],
      ["responses", shapes.responses],
      ["messages", shapes.messages],
    ] as const) {
      const { status, body } = await user.post(`/api/v1/${path}`, { model: "lab/all", stream, ...fields });
      expect(status, JSON.stringify(body)).toBe(200);
      const usage = usageIn(body);
      costs.push(usage.cost_tokens);
      const cached = usage.cache_read_input_tokens ?? 0;
      tokens.push([(usage.input_tokens ?? 0) + cached, usage.output_tokens]);
    }
    const [one, ...others] = lab.upstream.requests.map(({ body }) => body);
    for (const other of others) expect(other).toEqual(one);
    expect(new Set(costs).size).toBe(1);
    expect(new Set(tokens.map(String)).size).toBe(1);
    const amounts = (await charges(user)).map(({ amount }) => amount);
    expect(amounts).toEqual([costs[0], costs[0], costs[0]].map((cost) => -Number(cost)));
  });
});
