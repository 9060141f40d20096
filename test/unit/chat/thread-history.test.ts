import { describe, expect, test } from "vitest";
import { fitting, measureBytes, roomForHistory } from "../../../src/agents/chat/threads.service.ts";
import { newConfig } from "../../../src/agents/definitions/agent-config.ts";

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
