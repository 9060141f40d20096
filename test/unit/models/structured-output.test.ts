import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createAnthropicProvider } from "../../../src/gateway/models/anthropic.adapter.ts";
import { createGoogleProvider } from "../../../src/gateway/models/google.adapter.ts";
import { schemaFault } from "../../../src/gateway/models/json-schema.ts";
import { createOpenAiProvider } from "../../../src/gateway/models/openai.adapter.ts";
import { createOpenAiCompatible } from "../../../src/gateway/models/openai-compatible.adapter.ts";
import { forwardedRequest } from "../../../src/gateway/models/request-fields.ts";
import { jsonText, withStructuredOutput } from "../../../src/gateway/models/structured-output.ts";
import { threadMs } from "../../support/held.ts";
import { NATIVE_APIS, NATIVE_KINDS } from "../../support/native-apis/lab.ts";
import { completion, cut, delta, event, events, json, startUpstream, type Upstream } from "../../support/upstream.ts";
import { callerOf, chunksOf, contentOf, modelOf, partsOfStream, requestOf, textOfStream } from "./model-fixture.ts";

const SCHEMA = {
  type: "object",
  properties: { berth: { type: "integer" }, free: { type: "boolean" } },
  required: ["berth", "free"],
  additionalProperties: false,
};
const response_format = { type: "json_schema" as const, json_schema: { name: "berth", schema: SCHEMA, strict: true } };
const VALID = '{"berth":7,"free":true}';

let upstream: Upstream;
beforeEach(async () => {
  upstream = await startUpstream();
});
afterEach(() => upstream.close());

describe("a model whose provider supports JSON schemas", () => {
  const PROVIDERS = { openai: createOpenAiProvider, anthropic: createAnthropicProvider, google: createGoogleProvider };

  it.each(NATIVE_KINDS)("%s gets the schema in its own format", async (kind) => {
    upstream.answer(NATIVE_APIS[kind].create(() => ({ text: VALID })).reply);
    const model = modelOf({ kind, provider_model: NATIVE_APIS[kind].provider_model });
    const provider = withStructuredOutput(PROVIDERS[kind]({ base_url: upstream.url, api_key: "k" }));
    const { response } = await callerOf(provider, model).complete(
      forwardedRequest(requestOf({ response_format }), model),
    );
    expect(response.choices[0]?.message.content).toBe(VALID);
    expect(upstream.requests).toHaveLength(1);
    const sent = upstream.requests[0]?.body;
    const [format, schema] = {
      openai: [sent.text?.format?.strict, sent.text?.format?.schema],
      anthropic: [sent.output_config?.format?.type === "json_schema", sent.output_config?.format?.schema],
      google: [
        sent.generationConfig?.responseMimeType === "application/json",
        sent.generationConfig?.responseJsonSchema ?? sent.generationConfig?.responseSchema,
      ],
    }[kind];
    expect(format).toBe(true);
    expect(schema).toMatchObject({ required: ["berth", "free"] });
  });

  it("gets response_format unchanged if it is openai-compatible", async () => {
    const provider = withStructuredOutput(createOpenAiCompatible({ base_url: upstream.url, api_key: null }));
    await callerOf(provider).complete(requestOf({ response_format }));
    expect(upstream.requests[0]?.body.response_format).toEqual(response_format);
  });
});

describe("a model whose provider does not support JSON schemas", () => {
  const supports = { ...modelOf().supports, json_schema: false };
  const model = modelOf({ supports });
  const caller = () =>
    callerOf(withStructuredOutput(createOpenAiCompatible({ base_url: upstream.url, api_key: null })), model);
  const ask = (fields = {}) => requestOf({ response_format, ...fields });

  it("gets the schema in the prompt; a valid answer is returned without its code fence", async () => {
    upstream.answer(completion(`\`\`\`json\n${VALID}\n\`\`\``));
    const { response } = await caller().complete(ask());
    expect(response.choices[0]?.message.content).toBe(VALID);
    const [sent] = upstream.requests;
    expect(sent?.body).not.toHaveProperty("response_format");
    expect(sent?.body.messages[0]).toMatchObject({ role: "system", content: expect.stringContaining('"berth"') });
  });

  it("can correct an invalid answer once, and both calls are counted", async () => {
    upstream.answer(completion('{"berth":"seven"}', { prompt_tokens: 20, completion_tokens: 5 }), completion(VALID));
    const { response, counts } = await callerOfCap(200).complete();
    expect(response.choices[0]?.message.content).toBe(VALID);
    expect(upstream.requests).toHaveLength(2);
    expect(upstream.requests[1]?.body.messages.at(-1).content).toContain('must have "free"');
    expect(upstream.requests[1]?.body.max_tokens).toBe(195);
    expect(counts).toMatchObject({ input_tokens: 30, output_tokens: 9 });
  });

  it("is called at most twice, and its second answer is returned unchanged", async () => {
    upstream.answer(completion("no JSON"));
    const { response } = await callerOfCap(200).complete();
    expect(response.choices[0]?.message.content).toBe("no JSON");
    expect(upstream.requests).toHaveLength(2);
  });

  it("gets a short description of the fault (attack: a schema with long names, a correction beyond its hold)", async () => {
    upstream.answer(completion("{}"), completion(VALID));
    const json_schema = { name: "long", schema: { required: ["x".repeat(50_000)] } };
    await callerOfCap(200, { response_format: { type: "json_schema", json_schema } }).complete();
    const { content } = upstream.requests[1]?.body.messages.at(-1) ?? {};
    expect(content).toContain("the value must have");
    expect(content.length).toBeLessThan(300);
  });

  it("returns its first answer, which is billed, if its correction fails", async () => {
    upstream.answer(completion("no JSON"), json({}, 500));
    const { response, counts } = await callerOfCap(200).complete();
    expect(response.choices[0]?.message.content).toBe("no JSON");
    expect(counts.output_tokens).toBe(4);
  });

  it("has a hold for the input of both calls", async () => {
    const provider = withStructuredOutput(createOpenAiCompatible({ base_url: upstream.url, api_key: null }));
    const request = ask();
    const held = await provider.prepare({ model, request, max_output_tokens: 200, stream: false });
    const { response_format: _, ...plain } = request;
    const once = await provider.prepare({ model, request: plain, max_output_tokens: 200, stream: false });
    expect(held.input_tokens).toBeGreaterThan(2 * once.input_tokens);
    expect(held).toMatchObject({ call_input_tokens: expect.any(Number), resends_output: true });
    expect(held.call_input_tokens).toBeLessThan(held.input_tokens / 2);
  });

  it("streams its answer after the check", async () => {
    upstream.answer(completion(VALID));
    const stream = await caller().stream(ask());
    const [head, ...rest] = await partsOfStream(stream);
    expect(head?.events).toMatchObject([{ type: "start" }]);
    expect(rest.flatMap(({ events: said }) => said)).toMatchObject([{ type: "text", text: VALID }, { type: "finish" }]);
    expect(stream.counts()).toMatchObject({ output_tokens: 4, estimated: false });
  });

  it("streams only the corrected answer, and both calls are counted", async () => {
    upstream.answer(completion("no JSON", { prompt_tokens: 20, completion_tokens: 5 }), completion(VALID));
    const stream = await caller().stream(ask());
    expect(contentOf(await textOfStream(stream))).toBe("no JSON");
    expect(upstream.requests).toHaveLength(1); // a cap of 50 leaves too little for a correction
    upstream.answer(completion("no JSON", { prompt_tokens: 20, completion_tokens: 5 }), completion(VALID));
    const provider = withStructuredOutput(createOpenAiCompatible({ base_url: upstream.url, api_key: null }));
    const prepared = await provider.prepare({ model, request: ask(), max_output_tokens: 200, stream: true });
    const longer = await provider.stream(prepared, { signal: new AbortController().signal, deadline_ms: 1e12 });
    expect(contentOf(await textOfStream(longer))).toBe(VALID);
    expect(longer.counts()).toMatchObject({ input_tokens: 30, output_tokens: 9, call_input_tokens: 20 });
  });

  it("streams calls of tools and reasoning unchanged", async () => {
    const call = { index: 0, id: "c", type: "function", function: { name: "lookup", arguments: "{}" } };
    upstream.answer(
      events(
        event({ choices: [{ index: 0, delta: { role: "assistant", reasoning_content: "hm" }, finish_reason: null }] }),
        event({ choices: [{ index: 0, delta: { content: "Let me look." }, finish_reason: null }] }),
        event({ choices: [{ index: 0, delta: { tool_calls: [call] }, finish_reason: null }] }),
        event({
          choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }],
          usage: { prompt_tokens: 9, completion_tokens: 9 },
        }),
        "data: [DONE]\n\n",
      ),
    );
    const chunks = chunksOf(await textOfStream(await caller().stream(ask())));
    expect(chunks.map(({ choices: [choice] }) => choice.finish_reason ?? choice.delta)).toEqual([
      { role: "assistant", content: "" },
      { reasoning_content: "hm" },
      { content: "Let me look." },
      { tool_calls: [call] },
      "tool_calls",
    ]);
  });

  it("streams its first answer if its correction is interrupted, and the correction's output so far is counted", async () => {
    upstream.answer(completion("no JSON"), cut(delta("12345678")));
    const provider = withStructuredOutput(createOpenAiCompatible({ base_url: upstream.url, api_key: null }));
    const prepared = await provider.prepare({ model, request: ask(), max_output_tokens: 200, stream: true });
    const stream = await provider.stream(prepared, { signal: new AbortController().signal, deadline_ms: 1e12 });
    expect(contentOf(await textOfStream(stream))).toBe("no JSON");
    expect(stream.counts()).toMatchObject({ output_tokens: 4 + 2, estimated: true });
  });

  it("is charged for the input of a correction that its caller cancelled, without streaming", async () => {
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    upstream.answer(completion("no JSON"), () => resolve());
    const left = new AbortController();
    const provider = withStructuredOutput(createOpenAiCompatible({ base_url: upstream.url, api_key: null }));
    const prepared = await provider.prepare({ model, request: ask(), max_output_tokens: 200, stream: false });
    const answer = provider.complete(prepared, { signal: left.signal, deadline_ms: 1e12 });
    await asked;
    left.abort();
    const { counts } = await answer;
    expect(counts).toMatchObject({ output_tokens: 4, call_input_tokens: 10, estimated: true });
    expect(counts.input_tokens).toBeGreaterThan(10 + 50);
  });

  it("is not corrected if the second call would reach a more expensive tier", async () => {
    upstream.answer(completion("no JSON", { prompt_tokens: 800, completion_tokens: 5 }));
    const tiers = [{ ...model, above_input_tokens: 1_000 }];
    const tiered = callerOf(
      withStructuredOutput(createOpenAiCompatible({ base_url: upstream.url, api_key: null })),
      modelOf({ supports, tiers }),
    );
    const { counts } = await tiered.complete(ask({ max_tokens: 200 }));
    expect(upstream.requests).toHaveLength(1);
    expect(counts.input_tokens).toBe(800);
  });

  function callerOfCap(max_output_tokens: number, fields = {}) {
    const provider = withStructuredOutput(createOpenAiCompatible({ base_url: upstream.url, api_key: null }));
    return {
      async complete() {
        const prepared = await provider.prepare({ model, request: ask(fields), max_output_tokens, stream: false });
        return provider.complete(prepared, { signal: new AbortController().signal, deadline_ms: 1e12 });
      },
    };
  }
});

describe("the fault of a value", () => {
  it.each<[unknown, object, string | null]>([
    [{ berth: 7, free: true }, SCHEMA, null],
    [{ berth: 7.5, free: true }, SCHEMA, 'the value.berth must be of type "integer"'],
    [{ berth: 7 }, SCHEMA, 'the value must have "free"'],
    [{ berth: 7, free: true, x: 1 }, SCHEMA, 'the value must not have "x"'],
    [["a", 1], { type: "array", items: { type: "string" } }, 'the value[1] must be of type "string"'],
    ["c", { enum: ["a", "b"] }, 'the value must be one of ["a","b"]'],
    [null, { type: ["string", "null"] }, null],
    [{ b: [1], a: 2 }, { const: { a: 2, b: [1] } }, null],
    [
      { a: [1, 2] },
      { enum: [{ a: [1] }, { a: { 0: 1, 1: 2 } }] },
      'the value must be one of [{"a":[1]},{"a":{"0":1,"1":2}}]',
    ],
    [1, { anyOf: [{ type: "string" }, { type: "integer" }] }, null],
    [
      { next: { next: {} } },
      { $ref: "#/$defs/n", $defs: { n: { properties: { next: { $ref: "#/$defs/n" } } } } },
      null,
    ],
  ])("%j", (value, schema, fault) => {
    expect(schemaFault(value, schema as Record<string, unknown>)).toBe(fault);
  });

  it("in a schema that refers to itself twice is found in a bounded time (attack: an endless check)", () => {
    const loop = { anyOf: [{ $ref: "#" }, { $ref: "#" }], type: "string" };
    expect(schemaFault("x", loop)).toBeNull();
  });
});

it("a schema that compares one value with many others counts each comparison (attack: minutes of comparing)", () => {
  const wide = { $defs: { a: { enum: Array.from({ length: 20_000 }, (_, n) => n) } } };
  const schema = { ...wide, anyOf: Array.from({ length: 5_000 }, () => ({ $ref: "#/$defs/a" })) };
  const began_ms = threadMs();
  expect(schemaFault("none of them", schema)).toBeNull();
  expect(threadMs() - began_ms).toBeLessThan(1_000);
});

const LONG = "a/".repeat(100_000);
it.each<[string, object]>([
  ["a long reference", { $ref: `#/${LONG}` }],
  ["a long list of types", { type: Array(50_000).fill("none") }],
  ["a long type", { type: LONG }],
  ["a long value", { const: LONG }],
  ["long values", { enum: [LONG, LONG] }],
  ["a large object", { const: { list: Array(50_000).fill(1) } }],
])("a schema that refers to %s 5,000 times is checked in a bounded time (attack: a blocked node)", (_name, part) => {
  const schema = { $defs: { a: part }, anyOf: Array(5_000).fill({ $ref: "#/$defs/a" }) };
  const began_ms = threadMs();
  schemaFault({ list: Array(1_000).fill(2) }, schema);
  expect(threadMs() - began_ms).toBeLessThan(1_000);
});

describe("the JSON text of an answer", () => {
  it.each([
    ['```json\n{"a":1}\n```', '{"a":1}'],
    [" ```\n\n[1]``` ", "[1]"],
    ['{"a":"```"}', '{"a":"```"}'],
    ["```json\n{", "```json\n{"],
    ["```json\n```", ""],
  ])("%j is %j", (answer, text) => {
    expect(jsonText(answer)).toBe(text);
  });

  it("is found in linear time (attack: an open code fence and 100,000 line breaks)", () => {
    const began_ms = threadMs();
    jsonText(`\`\`\`json${"\n".repeat(100_000)}${"x".repeat(100_000)}`);
    expect(threadMs() - began_ms).toBeLessThan(1_000);
  });
});
