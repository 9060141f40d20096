import fc from "fast-check";
import { expect, it } from "vitest";
import type { AnswerEvent } from "../../../src/gateway/models/answer-events.ts";
import { createChatReader } from "../../../src/gateway/models/chat-reader.ts";
import type { Model } from "../../../src/gateway/models/models.types.ts";
import { threadMs } from "../../support/held.ts";
import { delta, event } from "../../support/upstream.ts";
import { chunksOf, contentOf, modelOf, requestOf } from "./model-fixture.ts";

const relayOf = (model: Model, onDisbelieved?: () => void) => {
  const sizes = { input_tokens: 7, media_tokens: 0, likely_tokens: 7, max_output_tokens: 50 };
  const reader = createChatReader({ model, request: requestOf(), stream: true, ...sizes }, onDisbelieved);
  const events: AnswerEvent[] = [];
  return {
    ...reader,
    events,
    /** The text for a caller of the same API. */
    push(text: string): string {
      const parts = reader.push(text);
      events.push(...parts.flatMap((part) => part.events));
      return parts.map(({ chat_text = "" }) => chat_text).join("");
    },
  };
};

it("gives out the same text and counts however the network cuts the stream", () => {
  const pieces = fc.array(fc.string({ unit: "grapheme" }), { maxLength: 8 });
  const cuts = fc.array(fc.nat(400), { minLength: 1, maxLength: 40 });
  fc.assert(
    fc.property(pieces, cuts, fc.boolean(), (contents, sizes, carriage_returns) => {
      const usage = { prompt_tokens: 7, completion_tokens: contents.length };
      const whole = [
        event({ choices: [] }),
        ...contents.map(delta),
        event({ choices: [], usage }),
        "data: [DONE]\n\n",
      ].join("");
      const sent = carriage_returns ? whole.replaceAll("\n", "\r\n") : whole;
      const model = modelOf();
      const relay = relayOf(model);
      let received = "";
      for (let start = 0, turn = 0; start < sent.length; turn += 1) {
        const end = start + (sizes[turn % sizes.length] ?? 0) + 1;
        received += relay.push(sent.slice(start, end));
        start = end;
      }
      relay.close();
      expect(relay.isDone()).toBe(true);
      const texts = relay.events.map((said) => (said.type === "text" ? said.text : ""));
      expect(texts.join("")).toBe(contents.join(""));
      expect(contentOf(received)).toBe(contents.join(""));
      expect(received).not.toMatch(/fake-large|"usage"|\[DONE\]\n/);
      expect(relay.counts()).toMatchObject({ input_tokens: 7, output_tokens: contents.length });
    }),
  );
});

it.each([
  ["", delta("kept")],
  [
    " of a server that names no model",
    event({ choices: [{ index: 0, delta: { content: "kept" } }], model: undefined }),
  ],
])(
  "the events before a faulty one in the same piece%s are relayed and counted, and then the stream fails",
  (_, said) => {
    const relay = relayOf(modelOf());
    const received = relay.push(`${said}${event({ error: { message: "secret detail" } })}`);
    expect(contentOf(received)).toBe("kept");
    const counts = relay.counts();
    expect(counts).toMatchObject({ output_tokens: 1, estimated: true });
    expect(() => relay.isDone()).toThrow("did not give a usable answer");
  },
);

it("words after a usage report in the same piece are counted", () => {
  const model = modelOf();
  const relay = relayOf(model);
  const usage = { prompt_tokens: 10, completion_tokens: 1 };
  relay.push(`${event({ choices: [], usage })}${delta("twelve bytes")}`);
  const counts = relay.counts();
  expect(counts).toMatchObject({ input_tokens: 10, output_tokens: 1 + 3, estimated: true });
});

it("of several reports, one of more than the call can have used does not replace a good one", () => {
  let disbelieved = 0;
  const relay = relayOf(modelOf(), () => {
    disbelieved += 1;
  });
  const usage = { prompt_tokens: 10, completion_tokens: 1 };
  const faulty = { prompt_tokens: 90_000_000, completion_tokens: 1 };
  relay.push(event({ choices: [{ index: 0, delta: { content: "hi" } }], usage: faulty }));
  expect(relay.counts()).toMatchObject({ input_tokens: 2, output_tokens: 1, estimated: true });
  relay.push(
    event({ choices: [], usage }) + event({ choices: [], usage: faulty }) + event({ choices: [], usage: faulty }),
  );
  expect(relay.counts()).toMatchObject({ input_tokens: 10, output_tokens: 1, estimated: false });
  expect(disbelieved).toBe(3);
});

it("a stream of 30,000 reports that are not believed is judged in a bounded time (attack: a blocked node)", () => {
  const relay = relayOf(modelOf());
  const usage = { prompt_tokens: 10, completion_tokens: 90_000_000 };
  const sent = event({ choices: [{ index: 0, delta: { content: " wörd" } }], usage });
  const began_ms = threadMs();
  for (let index = 0; index < 30_000; index++) relay.push(sent);
  expect(threadMs() - began_ms).toBeLessThan(6_000);
  expect(relay.counts()).toMatchObject({ output_tokens: 45_000, estimated: true });
});

it("a list among the events is no chunk: it does not keep the words around it from being counted", () => {
  const model = modelOf();
  const relay = relayOf(model);
  relay.push(`${delta("twelve bytes")}data: [null]\n\n${delta("four")}`);
  const counts = relay.counts();
  expect(counts).toMatchObject({ output_tokens: 4, estimated: true });
  expect(relayOf(model).push("data: [null]\n\n")).toBe("");
  expect(() => relayOf(model).push("data: no JSON\n\n")).toThrow("did not give a usable answer");
});

it("comments do not begin a stream: they are sent with the first chunk, and an error before it is a failure", () => {
  const model = modelOf();
  const relay = relayOf(model);
  expect(relay.push(": processing\n\n")).toBe("");
  expect(relay.push("event: ping\n\n: processing\n\n")).toBe("");
  const begun = relay.push(delta("a"));
  expect(begun.startsWith(": processing\n\n: processing\n\ndata: {")).toBe(true);
  expect(relay.push(": processing\n\n")).toBe(": processing\n\n");
  const failing = relayOf(model);
  expect(failing.push(": processing\n\n")).toBe("");
  expect(() => failing.push(event({ error: { message: "no" } }))).toThrow("did not give a usable answer");
});

it("of endless comments before the first chunk at most 64 KB are kept", () => {
  const relay = relayOf(modelOf());
  const comment = `: ${"x".repeat(1_000)}\n\n`;
  for (let sent = 0; sent < 1_000; sent += 1) expect(relay.push(comment)).toBe("");
  const begun = relay.push(delta("a"));
  expect(begun.length).toBeLessThan(70_000);
  expect(begun).toContain("data: {");
});

it("an event of 2,000 levels is a failure of the provider (attack: neither it nor other data in its row can be stored)", () => {
  const deep = `data: {"choices":[{"delta":{"reasoning_details":[${"[".repeat(2_000)}${"]".repeat(2_000)}]}}]}\n\n`;
  const relay = relayOf(modelOf());
  relay.push(delta("a"));
  expect(() => relay.push(deep)).toThrow("did not give a usable answer");
});

it("every chunk names the requested model, also if its JSON is rewritten because it has spaces", () => {
  const model = modelOf();
  const relay = relayOf(model);
  const spaced = (fields: Record<string, unknown>) => event(fields).replace('"model":"', '"model": "');
  const usage = { prompt_tokens: 1, completion_tokens: 2 };
  const choice = (content: unknown) => [{ index: 0, delta: { content }, finish_reason: null }];
  const received = [
    spaced({ choices: choice("a") }),
    spaced({ choices: choice([{ type: "text", text: "b" }]) }),
    spaced({ choices: choice("c"), usage }),
  ].map((sent) => relay.push(sent));
  expect(contentOf(received.join(""))).toBe("abc");
  for (const chunk of received) expect(chunk).toContain(`"model":${JSON.stringify(model.id)}`);
});

it.each(["in one piece", "in many"])(
  "every chunk names the requested model if the provider's names are empty, %s",
  (pieces) => {
    const model = modelOf();
    const relay = relayOf(model);
    const sent = ["a", "b", "c"].map((content) => event({ choices: [{ index: 0, delta: { content } }], model: "" }));
    const received = (pieces === "in many" ? sent : [sent.join("")]).map((text) => relay.push(text)).join("");
    expect(chunksOf(received).map((chunk) => chunk.model)).toEqual([model.id, model.id, model.id]);
  },
);

it("a chunk with log probabilities passes as it is written", () => {
  const relay = relayOf(modelOf());
  const logprobs = { content: [{ token: "a", logprob: -1 }] };
  const said = { role: "assistant", content: "a" };
  const sent = event({ choices: [{ index: 0, delta: said, logprobs }] }).replace('"index":', '"index" : ');
  expect(relay.push(sent)).toContain('"index" : 0');
});

it.each([
  ["of older vLLM", event({ object: "error", message: "no", code: 400 })],
  ["by the event's name", 'event: error\ndata: {"message":"no"}\n\n'],
  ["by the event's name, with text", "event: error\ndata: overloaded\n\n"],
])(
  "an error %s fails the stream, also where [DONE] follows; the text of an answer that quotes one does not",
  (_, sent) => {
    const model = modelOf();
    const end = "data: [DONE]\n\n";
    expect(() => relayOf(model).push(sent + end)).toThrow("did not give a usable answer");
    const begun = relayOf(model);
    expect(contentOf(begun.push(delta("kept") + sent + end))).toBe("kept");
    expect(() => begun.isDone()).toThrow("did not give a usable answer");
    const quoting = relayOf(model);
    expect(contentOf(quoting.push(delta(sent) + end))).toBe(sent);
    expect(quoting.isDone()).toBe(true);
  },
);

it("calls are numbered from 0 and have an id and a type; complete ones are relayed unchanged", () => {
  const piece = (fields: object) => event({ choices: [{ index: 0, delta: { tool_calls: [fields] } }] });
  const add = { type: "function", function: { name: "add", arguments: "{}" } };
  const callsOf = (...sent: string[]) => {
    const relay = relayOf(modelOf());
    return chunksOf(sent.map((text) => relay.push(text)).join("")).map(
      ({ choices }) => (choices as { delta: { tool_calls: Record<string, unknown>[] } }[])[0]?.delta.tool_calls[0],
    );
  };
  const numbered = [0, undefined, "0", 4_294_967_295];
  for (const index of numbered) {
    const calls = callsOf(piece({ index, id: "a", ...add }), piece({ index, id: "b", ...add }));
    expect(calls).toMatchObject([
      { index: 0, id: "a" },
      { index: 1, id: "b" },
    ]);
  }
  expect(callsOf(piece({ index: 7, id: "a", ...add }), piece({ index: 3, id: "b", ...add }))).toMatchObject([
    { index: 0, id: "a" },
    { index: 1, id: "b" },
  ]);
  // Without an index, a piece continues the last call if its id is null or repeated.
  const rests = [null, "a"].map((id) => piece({ id, function: { arguments: "{}" } }));
  const continued = callsOf(piece({ id: "a", ...add }), ...rests, piece({ id: "b", ...add }));
  expect(continued.map((call) => call?.index)).toEqual([0, 0, 0, 1]);
  const bare = { index: 0, function: { name: "add", arguments: "" } };
  const rest = { index: 0, function: { arguments: "{}" } };
  const calls = callsOf(piece(bare), piece(rest));
  expect(calls).toEqual([{ ...bare, id: expect.stringMatching(/^call_/), type: "function" }, rest]);
  const relay = relayOf(modelOf());
  relay.push(event({ choices: [{ index: 0, delta: { role: "assistant" } }] }));
  const sent = piece({ index: 0, id: "a", ...add }).replace('"index":', '"index" : ');
  expect(relay.push(sent)).toContain('"index" : 0');
});

it("a finish reason that OpenAI does not have becomes one of OpenAI's, and an empty one null", () => {
  const ended = (finish_reason: string) =>
    relayOf(modelOf()).push(event({ choices: [{ index: 0, delta: {}, finish_reason }] }));
  expect(
    ["eos", "max_tokens", "", "tool_calls"].map((reason) => /"finish_reason":"?(\w*)"?/.exec(ended(reason))?.[1]),
  ).toEqual(["stop", "length", "null", "tool_calls"]);
});
