import OpenAI from "openai";
import { ChatCompletionStream } from "openai/lib/ChatCompletionStream";
import type { Stream } from "openai/streaming";
import { beforeAll, describe, expect, test } from "vitest";
import { charges, useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { calling, completion } from "../support/upstream.ts";

// Chat with an agent as the official client reads it.

let user: Client;
let client: OpenAI;
let agent: string;

const lab = useLab();
beforeAll(async () => {
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  client = new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
  agent = (await user.post("/api/v1/agents", { name: "Scout", model_id: "lab/plain" })).body.id;
});

const messages = [{ role: "user" as const, content: "Hello?" }];

test("its streaming helper reads a turn: the text in pieces, the usage, the run and the thread", async () => {
  lab.upstream.answer(completion("It is a fine day."));
  const chunks: Stream<OpenAI.ChatCompletionChunk> = await client.post(`/agents/${agent}/chat`, {
    body: { messages, stream: true, thread_id: "t" },
    stream: true,
  });
  const pieces: string[] = [];
  const stream = ChatCompletionStream.fromReadableStream(chunks.toReadableStream());
  stream.on("content", (piece) => pieces.push(piece));
  const answer = await stream.finalChatCompletion();
  expect(answer.choices[0]).toMatchObject({ finish_reason: "stop", message: { content: "It is a fine day." } });
  expect(pieces.join("")).toBe("It is a fine day.");
  expect(answer.usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 4, cost_tokens: 18 });
  expect(answer).toMatchObject({ model: "lab/plain", thread_id: "t", run_id: expect.any(String) });
});

test("the client throws a turn's failure with its status and code", async () => {
  const refused = client.post(`/agents/${agent}/chat`, { body: { messages, on_disconnect: "wait" } });
  await expect(refused).rejects.toMatchObject({ status: 400, code: "invalid_value", param: "on_disconnect" });
});

describe("a turn that failed after it had called a tool", () => {
  const runs = async (id: string) => (await user.get(`/api/v1/agents/${id}/runs`)).body.runs.length;
  const callingAgent = async () => {
    lab.upstream.answer(calling("post_letter", { to: "Ada" }));
    const fields = { name: "Herald", model_id: "lab/plain", limits: { max_steps: 2 } };
    return (await user.post("/api/v1/agents", fields)).body.id;
  };

  test("is not retried by the client, which otherwise retries 409 and 5xx", async () => {
    const id = await callingAgent();
    const eager = client.withOptions({ maxRetries: 2 });
    await expect(eager.chat.completions.create({ model: `agent/${id}`, messages })).rejects.toMatchObject({
      status: 409,
      code: "max_steps",
    });
    await expect(eager.post(`/agents/${id}/chat`, { body: { messages, stream: true } })).rejects.toMatchObject({
      code: "max_steps",
    });
    expect(await runs(id)).toBe(2);
  });

  test("is not repeated with its Idempotency-Key: the failure is replayed, and charged once", async () => {
    const id = await callingAgent();
    const charged = (await charges(user)).length;
    const ask = () => user.post(`/api/v1/agents/${id}/chat`, { messages }, { "Idempotency-Key": "letter" });
    const first = await ask();
    const again = await ask();
    expect(first.body.error).toMatchObject({ code: "max_steps", metadata: { run_id: expect.any(String) } });
    expect([again.status, again.body]).toEqual([409, first.body]);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(again.headers.get("x-should-retry")).toBe("false");
    expect(await runs(id)).toBe(1);
    expect((await charges(user)).length).toBe(charged + 1);
  });
});

test.each([
  ["", {}],
  [
    ", with an unreachable MCP server,",
    { mcp: { enabled: true, servers: [{ name: "away", url: "http://127.0.0.1:1/" }] } },
  ],
])(
  "a turn that failed without an effect%s can be retried, also with the same Idempotency-Key",
  async (name, tools_config) => {
    const { id } = (await user.post("/api/v1/agents", { name: `Scout${name}`, model_id: "lab/plain", tools_config }))
      .body;
    const key = { "Idempotency-Key": `refused${name}` };
    lab.upstream.answer((response) => void response.writeHead(429, { "retry-after": "3600" }).end("{}"), completion());
    const refused = await user.post(`/api/v1/agents/${id}/chat`, { messages }, key);
    expect([refused.status, refused.headers.get("x-should-retry")]).toEqual([502, null]);
    expect((await user.post(`/api/v1/agents/${id}/chat`, { messages }, key)).status).toBe(200);
  },
);
