import { describe, expect, test } from "vitest";
import { createAnswerReader } from "../../../src/agents/runs/model-call.ts";

function read(...deltas: object[]) {
  const reader = createAnswerReader();
  const texts = deltas.map((delta) => reader.read(`data: ${JSON.stringify({ choices: [{ delta }] })}\n\n`));
  return { text: texts.join(""), message: reader.message() };
}
const call = (id: string, name: string, text: string) => ({
  id,
  type: "function",
  function: { name, arguments: text },
});

describe("a joined streamed answer", () => {
  test("has its text from all pieces, and null without text", () => {
    const { text, message } = read({ role: "assistant", content: "" }, { content: "Once " }, { content: "more" });
    expect([text, message]).toEqual(["Once more", { role: "assistant", content: "Once more" }]);
    expect(read({ role: "assistant" }).message).toEqual({ role: "assistant", content: null });
  });

  test("has complete tool calls, in any order of their pieces", () => {
    const { message } = read(
      { tool_calls: [{ index: 1, id: "b", type: "function", function: { name: "two", arguments: "" } }] },
      { tool_calls: [{ index: 0, id: "a", type: "function", function: { name: "one", arguments: '{"x' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '":1}' } }] },
      { tool_calls: [{ index: 1, function: { arguments: "{}" } }] },
    );
    expect(message.tool_calls).toEqual([call("a", "one", '{"x":1}'), call("b", "two", "{}")]);
  });

  test("has calls without an index as complete ones, unless they continue the last call", () => {
    const { message } = read(
      { tool_calls: [{ id: "a", function: { name: "one", arguments: "{}" } }] },
      { tool_calls: [{ id: "b", function: { name: "two", arguments: "{" } }] },
      { tool_calls: [{ function: { arguments: "}" } }] },
    );
    expect(message.tool_calls).toEqual([call("a", "one", "{}"), call("b", "two", "{}")]);
  });

  test("has each of several calls without index and id, and the pieces of the last one", () => {
    const { message } = read(
      { tool_calls: [{ function: { name: "one", arguments: "{}" } }] },
      { tool_calls: [{ function: { name: "two", arguments: "{" } }] },
      { tool_calls: [{ function: { arguments: "}" } }] },
    );
    expect(message.tool_calls).toEqual([call("call_0", "one", "{}"), call("call_1", "two", "{}")]);
  });

  test("tolerates repeated names, missing ids and a huge index", () => {
    const { message } = read(
      { tool_calls: [{ index: 4e9, id: "", function: { name: "one", arguments: "{" } }] },
      { tool_calls: [{ index: 4e9, function: { name: "one", arguments: "}" } }] },
    );
    expect(message.tool_calls).toEqual([call("call_4000000000", "one", "{}")]);
  });

  test("throws the failure of an error event, and keeps the pieces before it", () => {
    const reader = createAnswerReader();
    const failure = { error: { type: "api_error", code: "upstream_error", message: "broke off" } };
    const chunk = { choices: [{ delta: { content: "Once" } }] };
    reader.read(`data: ${JSON.stringify(chunk)}\n\n`);
    expect(() => reader.read(`data: ${JSON.stringify(failure)}\n\n`)).toThrow("broke off");
    expect(reader.message().content).toBe("Once");
  });
});
