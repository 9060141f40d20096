import OpenAI from "openai";
import { ChatCompletionStream } from "openai/lib/ChatCompletionStream";
import type { Stream } from "openai/streaming";
import { afterAll, beforeAll, expect, test } from "vitest";
import { expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import { completion } from "../support/upstream.ts";

// Chat with an agent as the official client reads it.

let lab: Lab;
let client: OpenAI;
let agent: string;

beforeAll(async () => {
  lab = await startLab();
  const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  client = new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
  agent = (await user.post("/api/v1/agents", { name: "Scout", model_id: "lab/plain" })).body.id;
});
afterAll(async () => {
  await expectCleanAudit(lab.service);
  await lab.stop();
});

const messages = [{ role: "user" as const, content: "Hello?" }];

test("its streaming helper reads a turn: text piece by piece, the usage, the run and the thread", async () => {
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

test("it throws the failure of a turn with its status and code", async () => {
  const refused = client.post(`/agents/${agent}/chat`, { body: { messages, on_disconnect: "wait" } });
  await expect(refused).rejects.toMatchObject({ status: 400, code: "invalid_value", param: "on_disconnect" });
});
