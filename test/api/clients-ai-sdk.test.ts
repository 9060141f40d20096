import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, isStepCount, streamText, tool } from "ai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { charges, type Lab, settledBalance, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { calling, completion, json } from "../support/upstream.ts";

let lab: Lab;
let user: Client;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab.stop());
beforeEach(async () => {
  lab.upstream.answer(completion());
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
});

const modelOf = (apiKey: string, id = "lab/plain") =>
  createOpenAICompatible({ name: "purser", baseURL: `${lab.service.url}/api/v1`, apiKey, includeUsage: true })(id);

describe("the Vercel AI SDK's openai-compatible provider with only baseURL changed (contract 4)", () => {
  it("generates text and reads the usage", async () => {
    const { text, usage, finishReason } = await generateText({ model: modelOf(user.key), prompt: "hello" });
    expect(text).toBe("hello from upstream");
    expect(finishReason).toBe("stop");
    expect(usage).toMatchObject({ inputTokens: 10, outputTokens: 4, totalTokens: 14 });
    expect(await settledBalance(user)).toBe(1_000_000 - 18);
  });

  it("streams text and reads the usage", async () => {
    const result = streamText({ model: modelOf(user.key), prompt: "hello" });
    const pieces = await Array.fromAsync(result.textStream);
    expect(pieces.join("")).toBe("hello from upstream");
    expect(await result.usage).toMatchObject({ inputTokens: 10, outputTokens: 4, totalTokens: 14 });
    expect(await settledBalance(user)).toBe(1_000_000 - 18);
  });

  it.each([
    ["generateText", false],
    ["streamText", true],
  ])("%s runs a tool loop to its end on the built-in model, and each call is charged", async (_, streamed) => {
    const asked: unknown[] = [];
    const options = {
      model: modelOf(user.key, "purser/rehearsal"),
      prompt: 'Call weather with {"city":"Oslo"}',
      stopWhen: isStepCount(5),
      tools: {
        weather: tool({
          description: "The weather in a city",
          inputSchema: z.object({ city: z.string() }),
          execute: async (input) => {
            asked.push(input);
            return "It rains.";
          },
        }),
      },
    };
    const result = streamed ? streamText(options) : await generateText(options);
    const [steps, text] = [await result.steps, await result.text];
    expect(asked).toEqual([{ city: "Oslo" }]);
    expect(steps.map((step) => step.finishReason)).toEqual(["tool-calls", "stop"]);
    expect(text).toContain("It rains.");
    await settledBalance(user);
    expect(await charges(user)).toHaveLength(2);
  });

  it("passes a schema on, and throws Purser's error with status and body", async () => {
    lab.upstream.answer(json({ error: { message: "no" } }, 500));
    const failing = generateText({ model: modelOf(user.key), prompt: "hello", maxRetries: 0 });
    const error = await failing.then(
      () => expect.fail("it succeeded"),
      (thrown: unknown) => thrown,
    );
    expect(APICallError.isInstance(error)).toBe(true);
    expect(error).toMatchObject({ statusCode: 502 });
    expect((error as APICallError).responseBody).toContain("upstream_error");
  });

  it("does not repeat a failed turn of an agent by its own retries, with an Idempotency-Key", async () => {
    const agent = { name: "Scout", model_id: "lab/plain", limits: { max_steps: 1 } };
    const tools_config = { send_webhook: { enabled: true, urls: ["https://example.com/hook"] } };
    const { id } = (await user.post("/api/v1/agents", { ...agent, tools_config })).body;
    lab.upstream.answer(calling("send_webhook", { url: "https://other.example/", payload: 1 }));
    lab.upstream.requests.length = 0;
    const headers = { "Idempotency-Key": crypto.randomUUID() };
    const asked = generateText({ model: modelOf(user.key, `agent/${id}`), prompt: "hello", headers, maxRetries: 1 });
    await expect(asked).rejects.toThrow("max_steps");
    expect(lab.upstream.requests).toHaveLength(1);
    expect((await user.get(`/api/v1/agents/${id}/runs`)).body.runs).toHaveLength(1);
  });
});
