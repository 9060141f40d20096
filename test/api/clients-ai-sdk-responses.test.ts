import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, streamText, tool } from "ai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { charges, type Lab, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { calling, completion } from "../support/upstream.ts";

// The AI SDK's defaults: `openai(id)` speaks the Responses API, `anthropic(id)` the Messages API.

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

const PROVIDERS = {
  openai: () => createOpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key }),
  anthropic: () => createAnthropic({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key }),
};
const weather = tool({ inputSchema: z.object({ city: z.string() }), execute: async ({ city }) => `rain in ${city}` });

describe.each(Object.entries(PROVIDERS))("the AI SDK's %s provider with only baseURL changed", (_, provider) => {
  it("answers, and streams, with the usage", async () => {
    const model = provider()("lab/plain");
    const whole = await generateText({ model, prompt: "hello" });
    expect([whole.text, whole.usage]).toMatchObject(["hello from upstream", { inputTokens: 10, outputTokens: 4 }]);
    const streamed = streamText({ model, prompt: "hello" });
    expect(await streamed.text).toBe("hello from upstream");
    expect(await streamed.usage).toMatchObject({ inputTokens: 10, outputTokens: 4 });
    expect((await charges(user)).map(({ amount }) => amount)).toEqual([-18, -18]);
  });

  it.each([generateText, streamText])(
    "calls a tool and continues with its result in the next step: %o",
    async (call) => {
      lab.upstream.answer(calling("weather", { city: "Oslo" }), completion("It rains."));
      const options = {
        model: provider()("lab/plain"),
        prompt: "Weather?",
        tools: { weather },
        stopWhen: isStepCount(3),
      };
      const result = await call(options as never);
      expect(await (result as { text: string | Promise<string> }).text).toBe("It rains.");
      expect(lab.upstream.requests.at(-1)?.body.messages).toMatchObject([
        { role: "user" },
        { role: "assistant", tool_calls: [{ function: { name: "weather", arguments: '{"city":"Oslo"}' } }] },
        { role: "tool", content: "rain in Oslo" },
      ]);
    },
  );

  it("sends the whole conversation again, with its own answers by reference or in full", async () => {
    const model = provider()("lab/plain");
    const first = await generateText({ model, messages: [{ role: "user", content: "hello" }] });
    const messages = [
      { role: "user" as const, content: "hello" },
      ...first.response.messages,
      { role: "user" as const, content: "again" },
    ];
    await generateText({ model, messages });
    expect(lab.upstream.requests.at(-1)?.body.messages).toMatchObject([
      { role: "user", content: "hello" },
      { role: "assistant", content: "hello from upstream" },
      { role: "user", content: "again" },
    ]);
  });
});
