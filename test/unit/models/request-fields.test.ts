import { readFileSync } from "node:fs";
import { describe, expect, it, test } from "vitest";
import { type ChatRequest, createCompletionRoute } from "../../../src/api/contract/completions.ts";
import type { Model } from "../../../src/gateway/models/models.types.ts";
import { PROVIDER_KINDS, type ProviderKind } from "../../../src/gateway/models/providers.ts";
import {
  ADVISORY_FIELDS,
  DEFAULT_VALUES,
  forwardedRequest,
  SERVED_FIELDS,
} from "../../../src/gateway/models/request-fields.ts";
import type { PurserError } from "../../../src/kernel/errors.ts";
import { modelOf, requestOf } from "./model-fixture.ts";

const KINDS = Object.keys(PROVIDER_KINDS) as ProviderKind[];

const forwarded = (fields: object, model: Partial<Model> = {}) =>
  forwardedRequest(requestOf(fields as Partial<ChatRequest>), modelOf(model)) as Record<string, unknown>;

function refusalOf(fields: object, model: Partial<Model> = {}) {
  try {
    forwarded(fields, model);
  } catch (error) {
    const { status, code, param } = (error as PurserError).shape;
    return { status, code, param };
  }
  return null;
}

describe("an option with a price of its own is rejected by name, for every kind of provider (attack: paid options at the plain rate)", () => {
  const paid: [string, unknown][] = [
    ["service_tier", "priority"],
    ["web_search_options", {}],
    ["models", ["dear/model"]],
    ["fallbacks", ["dear/model"]],
    ["modalities", ["text", "audio"]],
    ["audio", { voice: "alloy", format: "wav" }],
    ["best_of", 20],
    ["store", true],
    ["min_tokens", 100_000],
    ["api_base", "http://169.254.169.254"],
    ["plugins", [{ id: "web" }]],
    ["prediction", { type: "content", content: "x" }],
    ["constructor", {}],
    ["x_vendor", 1],
  ];
  it.each(paid)("%s", (field, value) => {
    for (const kind of KINDS) {
      expect(refusalOf({ [field]: value }, { kind })).toEqual({
        status: 400,
        code: "unsupported_parameter",
        param: field,
      });
    }
  });

  it.each([
    ["tools[0].type", { tools: [{ type: "web_search" }] }],
    ["tools[0].filters", { tools: [{ type: "function", function: { name: "f" }, filters: {} }] }],
    ["tools[0].function.hosted", { tools: [{ type: "function", function: { name: "f", hosted: true } }] }],
    ["stream_options.extra", { stream_options: { extra: 1 } }],
    ["tool_choice.extra", { tool_choice: { type: "function", function: { name: "f" }, extra: 1 } }],
    ["tool_choice.function.extra", { tool_choice: { type: "function", function: { name: "f", extra: 1 } } }],
    ["response_format.extra", { response_format: { type: "json_object", extra: 1 } }],
    [
      "response_format.json_schema.extra",
      { response_format: { type: "json_schema", json_schema: { name: "s", extra: 1 } } },
    ],
    ["messages[0].reasoning_content", { messages: [{ role: "user", content: "x", reasoning_content: "x" }] }],
    ["messages[0].audio", { messages: [{ role: "assistant", content: "x", audio: { id: "audio_1" } }] }],
    ["messages[0].file_ids", { messages: [{ role: "user", content: "x", file_ids: ["file-1"] }] }],
    [
      "messages[0].content[0].image_url.pages",
      {
        messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "https://a.test", pages: 9 } }] }],
      },
    ],
  ])("%s", (param, fields) => {
    expect(refusalOf(fields)).toEqual({ status: 400, code: "unsupported_parameter", param });
  });
});

test("every default value is accepted by chat completions, and an empty list of stop sequences is not sent", () => {
  for (const [field, values] of Object.entries(DEFAULT_VALUES)) {
    for (const value of values) {
      const asked = { model: "m", messages: [{ role: "user", content: "hi" }], [field]: value };
      const { schema } = createCompletionRoute.request.body.content["application/json"];
      expect(schema.safeParse(asked).error, `${field}: ${JSON.stringify(value)}`).toBeUndefined();
    }
  }
  for (const kind of KINDS) expect(forwarded({ stop: [] }, { kind })).not.toHaveProperty("stop");
});

test("hints and default values are accepted for every kind, and dropped if the provider lacks them", () => {
  const hints = Object.fromEntries(ADVISORY_FIELDS.map((field) => [field, "x"]));
  const defaults = Object.fromEntries(Object.entries(DEFAULT_VALUES).map(([field, [value]]) => [field, value]));
  for (const kind of KINDS) {
    const allowed = new Set<string>([...SERVED_FIELDS, ...PROVIDER_KINDS[kind].forwarded_fields]);
    for (const field of Object.keys(forwarded({ ...hints, ...defaults }, { kind }))) expect(allowed).toContain(field);
  }
});

test("null counts as absent, at every depth", () => {
  const message = { role: "user", content: "hello", name: null, tool_calls: null };
  const tool = { type: "function", function: { name: "f", description: null, strict: null }, cache_control: null };
  const request = { messages: [message], tools: [tool], service_tier: null, web_search_options: null, user: null };
  expect(forwarded(request)).toEqual({
    model: "lab/small",
    messages: [{ role: "user", content: "hello" }],
    tools: [{ type: "function", function: { name: "f" } }],
  });
});

test("nested hints are dropped, and an answer that is sent back loses only its provider's fields", () => {
  const text = { type: "text", text: "hello", cache_control: { type: "ephemeral" } };
  const answer = { role: "assistant", content: "yes", refusal: null, annotations: [], provider_specific_fields: {} };
  const tool = { type: "function", function: { name: "f" }, defer_loading: true };
  const { messages, tools } = forwarded({ messages: [{ role: "user", content: [text] }, answer], tools: [tool] });
  expect(messages).toEqual([
    { role: "user", content: [{ type: "text", text: "hello" }] },
    { role: "assistant", content: "yes" },
  ]);
  expect(tools).toEqual([{ type: "function", function: { name: "f" } }]);
});

test("a call that is sent back has its provider's signature, and no fields of another provider", () => {
  const call = { id: "call_1", type: "function", function: { name: "f", arguments: "{}" } };
  const sent = { ...call, index: 0, extra_content: { google: {} }, function: { ...call.function, parsed: {} } };
  const callTo = (kind: ProviderKind) =>
    forwarded({ messages: [{ role: "assistant", content: null, tool_calls: [sent] }] }, { kind }).messages;
  const answer = { role: "assistant", content: null };
  expect(callTo("openai")).toEqual([{ ...answer, tool_calls: [call] }]);
  expect(callTo("openai-compatible")).toEqual([
    { ...answer, tool_calls: [{ ...call, extra_content: { google: {} } }] },
  ]);
});

test.each(["openai", "anthropic", "google"] as const)(
  "reasoning that %s cannot have made is dropped (attack: a malformed request that looks like the provider's failure)",
  (kind) => {
    const malformed = [
      null,
      5,
      "x",
      {},
      { type: "reasoning.text", text: {}, signature: [] },
      { type: 1, data: 2, id: 3 },
    ];
    for (const reasoning_details of [malformed, "x", {}, 7]) {
      const [answer] = forwarded({ messages: [{ role: "assistant", content: "a", reasoning_details }] }, { kind })
        .messages as object[];
      expect(answer).toEqual({ role: "assistant", content: "a" });
    }
  },
);

test("the operator's `forward` passes exactly its fields, with any value", () => {
  const forward = ["service_tier", "metadata"];
  const fields = { service_tier: "priority", metadata: { a: "b" } };
  expect(forwarded(fields, { forward })).toMatchObject(fields);
  expect(refusalOf({ web_search_options: {} }, { forward })).toMatchObject({ param: "web_search_options" });
});

describe("a part that its model has not declared is rejected by its place (attack: content by reference)", () => {
  const parts: [string, object, string | null][] = [
    ["image_url", { image_url: { url: "https://a.test/1.png" } }, "vision"],
    ["file", { file: { file_id: "file-1" } }, "files"],
    ["input_audio", { input_audio: { data: "AAAA", format: "mp3" } }, "audio"],
    ["video_url", { video_url: { url: "https://a.test/film.mp4" } }, null],
    ["input_file", { file_id: "file-1" }, null],
    ["document", { source: { type: "url", url: "https://a.test/book.pdf" } }, null],
    ["toString", {}, null],
  ];
  const supports = { ...modelOf().supports, vision: false, files: false, audio: false };
  it.each(parts)("%s", (type, fields, declared_by) => {
    const content = [
      { type: "text", text: "look" },
      { type, ...fields },
    ];
    const request = { messages: [{ role: "user", content }] };
    const refusal = { status: 400, code: "invalid_value", param: "messages[0].content[1]" };
    expect(refusalOf(request, { supports })).toEqual(refusal);
    if (declared_by === null) expect(refusalOf(request)).toEqual(refusal);
    else expect(refusalOf(request, { supports: { ...supports, [declared_by]: true } })).toBeNull();
  });
});

test("the guide lists the forwarded fields of each kind", () => {
  const guide = readFileSync("docs/guides/developers.md", "utf8");
  const listOf = (fields: readonly string[]) => fields.map((field) => `\`${field}\``).join(", ");
  expect(guide).toContain(listOf(SERVED_FIELDS));
  for (const kind of KINDS) {
    const { forwarded_fields, lacked_fields } = PROVIDER_KINDS[kind];
    expect(guide).toContain(`| \`${kind}\` | ${listOf(forwarded_fields)} |`);
    if (lacked_fields.length > 0) expect(guide).toContain(listOf(lacked_fields));
  }
  expect(guide).toContain(listOf(ADVISORY_FIELDS));
});
