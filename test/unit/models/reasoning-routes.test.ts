import { describe, expect, it } from "vitest";
import type { ChatMessage } from "../../../src/api/contract/completions.ts";
import { callFor, dropsReasoning, reasoningFor, routeOfReasoning } from "../../../src/gateway/models/reasoning.ts";
import { modelOf, requestOf } from "./model-fixture.ts";

const ID = "lab/terra";
const by = (route: string | null, kind: "openai" | "openai-compatible" | "google" = "openai") =>
  modelOf({ id: ID, kind, route });
const answer = (detail: object, fields: object = {}): ChatMessage => ({
  role: "assistant",
  content: "Green.",
  ...fields,
  reasoning_details: [{ type: "reasoning.encrypted", data: "sealed", ...detail }],
});

describe("reasoning of a model with routes", () => {
  it.each<[what: string, message: ChatMessage, route: string | null, is_sent: boolean]>([
    ["made by this route", answer({ model: ID, route: "a" }), "a", true],
    ["made by another route", answer({ model: ID, route: "b" }), "a", false],
    ["made by a route, for a model without routes", answer({ model: ID, route: "a" }), null, false],
    ["made before the model had routes", answer({ model: ID }), "a", false],
    ["of a model without routes", answer({ model: ID }), null, true],
    ["of another model by this route", answer({ model: "lab/other", route: "a" }), "a", false],
    ["from elsewhere, without any mark", answer({}), "a", true],
    [
      "in an answer through another API, which names the model only",
      answer({ model: ID, route: "a" }, { model: ID }),
      "a",
      true,
    ],
    ["of another route in such an answer", answer({ model: ID, route: "b" }, { model: ID }), "a", false],
    ["in a step by this route", answer({ model: ID, route: "a" }, { model: ID, route: "a" }), "a", true],
    ["in a step by another route", answer({}, { model: ID, route: "b" }), "a", false],
  ])("%s", (_what, message, route, is_sent) => {
    const sent = reasoningFor(message, by(route));
    expect(JSON.stringify(sent).includes("sealed")).toBe(is_sent);
    expect(dropsReasoning(requestOf({ messages: [message] }), by(route))).toBe(!is_sent);
  });

  it("is sent to an OpenAI-compatible provider without the mark", () => {
    const sent = reasoningFor(answer({ format: "x", route: "a" }), by("a", "openai-compatible"));
    expect(sent.reasoning_details).toEqual([{ type: "reasoning.encrypted", data: "sealed", format: "x" }]);
  });

  it("sends Gemini's signatures of calls only to their route", () => {
    const google = { thought_signature: "s", model: ID, route: "a" };
    const call = {
      id: "c",
      type: "function" as const,
      function: { name: "f", arguments: "{}" },
      extra_content: { google },
    };
    const message: ChatMessage = { role: "assistant", tool_calls: [call] };
    expect(callFor(call, message, by("a", "google")).extra_content).toEqual({ google });
    expect(callFor(call, message, by("b", "google")).extra_content).toBeUndefined();
  });

  it("names the route of this model that made the latest reasoning", () => {
    const messages = [
      answer({ model: ID, route: "a" }),
      answer({ model: ID, route: "b" }),
      answer({ model: "x", route: "c" }),
    ];
    expect(routeOfReasoning(requestOf({ messages }), ID)).toBe("b");
    expect(routeOfReasoning(requestOf({ messages: [answer({}, { model: ID, route: "a" })] }), ID)).toBe("a");
    expect(
      routeOfReasoning(requestOf({ messages: [answer({ route: 7 }), { role: "user", content: "?" }] }), ID),
    ).toBeNull();
  });
});
