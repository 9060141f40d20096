import { describe, expect, test } from "vitest";
import { fitting, measureBytes, roomForHistory, titleOf } from "../../../src/agents/chat/threads.service.ts";
import { newConfig } from "../../../src/agents/definitions/agent-config.ts";
import type { ChatMessage } from "../../../src/api/contract/completions.ts";

const config = newConfig({ name: "Scout", model_id: "lab/plain", system_prompt: "Be brief." });
const input = { request_id: null, api_key_id: null, key_budget_tokens: null, ticket: null };
const message = (length: number) => [{ role: "user" as const, content: "x".repeat(length) }];

describe("the turns that a thread sends", () => {
  test("are the latest ones, complete and without a gap", () => {
    const turns = [message(10), message(500), message(10)];
    const sizes = turns.map(measureBytes);
    const sum = (count: number) => sizes.slice(0, count).reduce((total, size) => total + size, 0);
    for (const [room, count] of [
      [sum(3), 3],
      [sum(3) - 1, 2],
      [sum(2), 2],
      [sum(2) - 1, 1],
      [sum(1) - 1, 0],
      [-5, 0],
    ]) {
      expect(fitting(turns, room ?? 0)).toEqual(turns.slice(0, count));
    }
    expect(fitting([], 100)).toEqual([]);
  });

  test("leave a quarter of the context for the turn's answer and tools, at two bytes per token", () => {
    const empty = roomForHistory(1000, config, { ...input, messages: [] });
    expect(empty).toBeLessThan(1500);
    expect(empty).toBeGreaterThan(1400);
    expect(roomForHistory(1000, config, { ...input, messages: message(5000) })).toBeLessThan(0);
  });

  test("count the bytes of letters outside ASCII", () => {
    expect(measureBytes("水")).toBe(5);
  });
});

const image = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
const part = (text: string) => ({ type: "text", text });
const user = (content: unknown) => ({ role: "user", content }) as ChatMessage;
const words = (count: number) => Array.from({ length: count }, (_, n) => `word${n}`).join(" ");

describe("the title of a conversation", () => {
  test.each<[messages: ChatMessage[], title: string | null]>([
    [[user("When does the tide turn?")], "When does the tide turn?"],
    [[{ role: "system", content: "Be brief." }, user("Hello"), user("Are you there?")], "Hello"],
    [[user("\n\r\n  First\tline   of it \r\nSecond line")], "First line of it"],
    [[user([image, part("What is on this picture?"), part("Be brief.")] as never)], "What is on this picture?"],
    [[user([part("  "), part("After a blank part")] as never)], "After a blank part"],
    [[user([image] as never)], null],
    [[user([image] as never), user("Look at it")], "Look at it"],
    [[user("")], null],
    [[user(" \n ")], null],
    [[{ role: "assistant", content: "Hi." }], null],
    [[], null],
    [[user("x".repeat(80))], "x".repeat(80)],
    [[user("x".repeat(81))], `${"x".repeat(80)}…`],
    [[user(words(100))], `${words(13)}…`],
    [[user("👩‍👩‍👧‍👦".repeat(10))], `${"👩‍👩‍👧‍👦".repeat(7)}…`],
    [[user("🦀 Where do crabs go?")], "🦀 Where do crabs go?"],
    [[user("潮".repeat(100))], `${"潮".repeat(80)}…`],
    [[user(`${"x".repeat(500_000)}\nnext`)], `${"x".repeat(80)}…`],
  ])("%#: is the first line of the user's first text, whole words of it, or null", (messages, title) => {
    expect(titleOf(messages)).toBe(title);
  });
});
