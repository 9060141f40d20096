import { describe, expect, test } from "vitest";
import { createMessageBuilder } from "../../../src/gateway/models/answer-message.ts";
import { createChatReader } from "../../../src/gateway/models/chat-reader.ts";
import { event } from "../../support/upstream.ts";
import { modelOf, requestOf } from "./model-fixture.ts";

/** The message of a stream of chat completions with these deltas. */
function read(...deltas: object[]) {
  const sizes = { input_tokens: 7, media_tokens: 0, likely_tokens: 7, max_output_tokens: 50 };
  const reader = createChatReader({ model: modelOf(), request: requestOf(), stream: true, ...sizes });
  const answer = createMessageBuilder();
  const sent = deltas.map((delta) => event({ choices: [{ index: 0, delta }] }));
  for (const part of reader.push(sent.join(""))) part.events.forEach(answer.add);
  return answer.message();
}
const call = (id: string, name: string, text: string) => ({
  id,
  type: "function",
  function: { name, arguments: text },
});

describe("a joined streamed answer", () => {
  test("has its text from all pieces, and null without text", () => {
    const message = read({ role: "assistant", content: "" }, { content: "Once " }, { content: "more" });
    expect(message).toEqual({ role: "assistant", content: "Once more" });
    expect(read({ role: "assistant" })).toEqual({ role: "assistant", content: null });
  });

  test("has complete tool calls in the order in which they begin, however their pieces are mixed", () => {
    const message = read(
      { tool_calls: [{ index: 1, id: "b", type: "function", function: { name: "two", arguments: "" } }] },
      { tool_calls: [{ index: 0, id: "a", type: "function", function: { name: "one", arguments: '{"x' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '":1}' } }] },
      { tool_calls: [{ index: 1, function: { arguments: "{}" } }] },
    );
    expect(message.tool_calls).toEqual([call("b", "two", "{}"), call("a", "one", '{"x":1}')]);
  });

  test("has calls without an index as complete ones, unless they continue the last call", () => {
    const message = read(
      { tool_calls: [{ id: "a", function: { name: "one", arguments: "{}" } }] },
      { tool_calls: [{ id: "b", function: { name: "two", arguments: "{" } }] },
      { tool_calls: [{ function: { arguments: "}" } }] },
    );
    expect(message.tool_calls).toEqual([call("a", "one", "{}"), call("b", "two", "{}")]);
  });

  test("has each of several calls without index and id, and the pieces of the last one", () => {
    const message = read(
      { tool_calls: [{ function: { name: "one", arguments: "{}" } }] },
      { tool_calls: [{ function: { name: "two", arguments: "{" } }] },
      { tool_calls: [{ function: { arguments: "}" } }] },
    );
    expect(message.tool_calls).toEqual([
      call(expect.stringMatching(/^call_/), "one", "{}"),
      call(expect.stringMatching(/^call_/), "two", "{}"),
    ]);
  });

  test("tolerates repeated names, missing ids and a huge index", () => {
    const message = read(
      { tool_calls: [{ index: 4e9, id: "", function: { name: "one", arguments: "{" } }] },
      { tool_calls: [{ index: 4e9, function: { name: "one", arguments: "}" } }] },
    );
    expect(message.tool_calls).toEqual([call(expect.stringMatching(/^call_/), "one", "{}")]);
  });
});
