import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createGeminiApi } from "../../support/native-apis/gemini.ts";
import { createMessagesApi } from "../../support/native-apis/messages.ts";
import { createResponsesApi } from "../../support/native-apis/responses.ts";
import type { Script } from "../../support/native-apis/turn.ts";
import { startUpstream, type Upstream } from "../../support/upstream.ts";

let upstream: Upstream;
beforeEach(async () => {
  upstream = await startUpstream();
});
afterEach(() => upstream.close());

describe("the fakes answer the providers' own clients", () => {
  const script: Script = () => ({
    reasoning: "hm",
    text: "hello there",
    calls: [{ name: "lookup", arguments: { q: "x" } }],
  });
  const text = [{ role: "user" as const, content: "hi" }];

  it("openai", async () => {
    upstream.answer(createResponsesApi(script).reply);
    const client = new OpenAI({ baseURL: upstream.url, apiKey: "k" });
    const request = { model: "gpt-6.1-terra", input: text, store: false };
    const answer = await client.responses.create(request);
    expect(answer.output.map(({ type }) => type)).toEqual(["reasoning", "message", "function_call"]);
    const streamed = await client.responses.stream(request).finalResponse();
    expect(streamed.output_text).toBe("hello there");
  });

  it("@anthropic-ai/sdk", async () => {
    upstream.answer(createMessagesApi(script).reply);
    const client = new Anthropic({ baseURL: upstream.url.replace("/v1", ""), apiKey: "k" });
    const request = { model: "claude-haiku-4-5", max_tokens: 100, messages: text };
    const whole = await client.messages.create(request);
    const streamed = await client.messages.stream(request).finalMessage();
    for (const { content } of [whole, streamed]) {
      expect(content.map(({ type }) => type)).toEqual(["thinking", "text", "tool_use"]);
    }
    expect(streamed.content[2]).toMatchObject({ input: { q: "x" } });
  });

  it("@google/genai", async () => {
    upstream.answer(createGeminiApi(script).reply);
    const client = new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: upstream.url.replace("/v1", "") } });
    const answer = await client.models.generateContent({ model: "gemini-3.5-flash", contents: "hi" });
    expect(answer.functionCalls).toMatchObject([{ name: "lookup", args: { q: "x" } }]);
    let said = "";
    for await (const chunk of await client.models.generateContentStream({
      model: "gemini-3.5-flash",
      contents: "hi",
    })) {
      said += chunk.candidates?.[0]?.content?.parts?.map(({ text: piece = "" }) => piece).join("") ?? "";
    }
    expect(said).toBe("hello there");
  });
});
