import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { charges, expectCleanAudit, settledBalance } from "../support/lab.ts";
import { claudeFault } from "../support/native-apis/claude-rules.ts";
import { NATIVE_APIS, NATIVE_ENV, type NativeKind, nativeConfig } from "../support/native-apis/lab.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import { calling, completion, json, startUpstream, type Upstream } from "../support/upstream.ts";

// What clients send every day reaches each provider in a form that it takes (contract 4.15).

const CHAT = "/api/v1/chat/completions";
const RESPONSES = "/api/v1/responses";
const MESSAGES = "/api/v1/messages";
const PATHS = [CHAT, RESPONSES, MESSAGES] as const;
type Path = (typeof PATHS)[number];

/** OpenAI-compatible providers beside the native kinds. */
const COMPATIBLE = [
  { id: "lab/plain", provider: "lab", provider_model: "plain" },
  { id: "lab/claude", provider: "lab", provider_model: "anthropic/claude-haiku" },
  { id: "mistral/small", provider: "mistral", provider_model: "small" },
];
const NATIVE = { openai: "native/openai", anthropic: "native/anthropic", google: "native/google" } as const;
const MODELS = [...COMPATIBLE.map(({ id }) => id), ...Object.values(NATIVE)];

let upstream: Upstream;
let service: Service;
let user: Client;
beforeAll(async () => {
  upstream = await startUpstream();
  const native = nativeConfig(upstream);
  const config = {
    ...native,
    providers: [
      ...native.providers,
      ...["lab", "mistral"].map((name) => ({
        name,
        kind: "openai-compatible",
        base_url: upstream.url,
        api_key_env: "NATIVE_KEY",
      })),
    ],
    models: [
      ...native.models,
      ...COMPATIBLE.map((model) => ({
        ...model,
        input_rate: 1,
        output_rate: 2,
        context_window: 128_000,
        max_output_tokens: 8_000,
        supports: { tools: true, json_schema: true, vision: true, files: true, audio: true },
      })),
    ],
  };
  service = await startService({ env: NATIVE_ENV, config });
});
afterAll(async () => {
  await expectCleanAudit(service);
  await service.stop();
  await upstream.close();
});
beforeEach(async () => {
  upstream.requests = [];
  user = await service.newUser({ trial: false, tokens: 10_000_000 });
});

const kindOf = (model: string) => Object.entries(NATIVE).find(([, id]) => id === model)?.[0] as NativeKind | undefined;
const sent = () => upstream.requests.at(-1)?.body;

/** The model answers with a text, or with a call of a tool. */
function answer(model: string, call?: { name: string; arguments: Record<string, unknown>; id?: string }): void {
  const kind = kindOf(model);
  const { reply } =
    kind !== undefined
      ? NATIVE_APIS[kind].create(() => (call === undefined ? { text: "ok" } : { calls: [call] }))
      : { reply: call === undefined ? completion() : calling(call.name, call.arguments, call.id) };
  upstream.answer((response, request) => {
    const fault = model === "lab/claude" ? claudeFault(request.body) : null;
    return fault === null ? reply(response, request) : json({ error: { message: fault } }, 400)(response, request);
  });
}

const PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const JPEG = "/9j/4AAQSkZJRgABAQEASABIAAD/2wBDAP//////////////////////////////////////////////2gAIAQEAAD8A0s8g/9k=";

/** The same request in each API: a conversation in chat completions' form, and tools by name and schema. */
function requestFor(path: Path, model: string, fields: { tools?: object[]; extra?: object; stream?: boolean } = {}) {
  const { tools, extra = {}, stream } = fields;
  const base = { model, ...(stream === undefined ? {} : { stream }), ...extra };
  const given = (tools ?? []) as { name: string; description?: string; parameters: object }[];
  if (path === CHAT) {
    const functions = given.map((each) => ({ type: "function", function: each }));
    return { messages: [{ role: "user", content: "go" }], ...(tools && { tools: functions }), ...base };
  }
  if (path === RESPONSES) {
    return { input: "go", ...(tools && { tools: given.map((each) => ({ type: "function", ...each })) }), ...base };
  }
  const own = given.map(({ parameters, ...each }) => ({ ...each, input_schema: parameters }));
  return { messages: [{ role: "user", content: "go" }], max_tokens: 500, ...(tools && { tools: own }), ...base };
}

describe.each(MODELS)("for %s", (model) => {
  it.each([
    [CHAT, { tools: [] }],
    [CHAT, { tools: [], tool_choice: "auto", parallel_tool_calls: false }],
    [CHAT, { tool_choice: "none" }],
    [CHAT, { tool_choice: { type: "function", function: { name: "f" } }, parallel_tool_calls: true }],
    [CHAT, { parallel_tool_calls: false }],
    [CHAT, { tools: null, tool_choice: null }],
    [RESPONSES, { tools: [], tool_choice: "auto", parallel_tool_calls: true }],
    [RESPONSES, { tools: [{ type: "web_search" }], tool_choice: "auto", parallel_tool_calls: false }],
    [MESSAGES, { tools: [], tool_choice: { type: "auto", disable_parallel_tool_use: true } }],
    [MESSAGES, { tools: [{ type: "web_search_20250305", name: "web_search" }] }],
  ] as const)("%s without tools sends no tools and no settings of tools: %j", async (path, extra) => {
    answer(model);
    const { status, body } = await user.post(path, requestFor(path, model, { extra }));
    expect([status, body]).toMatchObject([200, {}]);
    for (const field of ["tools", "tool_choice", "toolConfig", "parallel_tool_calls", "functionDeclarations"]) {
      expect(JSON.stringify(sent())).not.toContain(`"${field}"`);
    }
  });

  it("the role developer of chat completions and of Codex's prompts is one that the provider has", async () => {
    answer(model);
    const messages = ["developer", "user", "developer", "user"].map((role) => ({ role, content: `${role} text` }));
    for (const [path, extra] of [
      [CHAT, { messages }],
      [RESPONSES, { input: messages.map((message) => ({ type: "message", ...message })) }],
    ] as const) {
      expect((await user.post(path, requestFor(path, model, { extra }))).status).toBe(200);
      expect(JSON.stringify(sent()).includes('"developer"')).toBe(model === NATIVE.openai);
      expect(JSON.stringify(sent())).toContain("developer text");
    }
  });

  const typed = (type: string) => `data:${type};base64,${type.toLowerCase().includes("jp") ? JPEG : PICTURE}`;
  it.each([
    ["image/jpg", "image/jpeg"],
    ["IMAGE/JPEG", "image/jpeg"],
    ["image/pjpeg", "image/jpeg"],
    ["image/png;name=a.png", "image/png"],
    ["image/png; charset=utf-8", "image/png"],
    ['image/png;name="a,b.png"', "image/png"],
    ["image/x-png", "image/png"],
    ["application/octet-stream", "image/png"],
  ])("a picture of the type %s is one of the type %s, in each API", async (type, usual) => {
    answer(model);
    const url = typed(type);
    const [, data] = url.split("base64,") as [string, string];
    const messages = [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }];
    const input = [{ role: "user", content: [{ type: "input_image", image_url: url }] }];
    const source = { type: "base64", media_type: type, data };
    for (const [path, extra] of [
      [CHAT, { messages }],
      [RESPONSES, { input }],
      [MESSAGES, { messages: [{ role: "user", content: [{ type: "image", source }] }] }],
    ] as const) {
      const { status, body } = await user.post(path, requestFor(path, model, { extra }));
      expect([status, body.error?.message]).toEqual([200, undefined]);
      const text = JSON.stringify(sent());
      expect(text).toContain(data);
      expect(text).toContain(usual);
      if (type !== usual) expect(text).not.toContain(JSON.stringify(type).slice(1, -1));
    }
  });
});

describe("files and audio with other names of their types are what they are", () => {
  const PDF = "JVBERi0xLjQK";
  const WAV = "UklGRiQAAABXQVZF";
  it.each([NATIVE.anthropic, NATIVE.google, NATIVE.openai, "lab/plain"])("for %s, in each API", async (model) => {
    answer(model);
    for (const type of ["application/pdf;name=a.pdf", "APPLICATION/PDF", "application/x-pdf"]) {
      const file_data = `data:${type};base64,${PDF}`;
      const source = { type: "base64", media_type: type, data: PDF };
      for (const [path, part] of [
        [CHAT, { type: "file", file: { file_data, filename: "a.pdf" } }],
        [RESPONSES, { type: "input_file", file_data, filename: "a.pdf" }],
        [MESSAGES, { type: "document", source }],
      ] as const) {
        const conversation = [{ role: "user", content: [part] }];
        const extra = path === RESPONSES ? { input: conversation } : { messages: conversation };
        const { status, body } = await user.post(path, requestFor(path, model, { extra }));
        expect([status, body.error?.message]).toEqual([200, undefined]);
        expect(JSON.stringify(sent())).toContain(PDF);
        expect(JSON.stringify(sent())).not.toContain(type);
      }
    }
  });

  it.each([
    ["wav", WAV],
    ["WAV", WAV],
    ["audio/wav", WAV],
    ["x-wav", WAV],
    ["wav", `data:audio/wav;base64,${WAV}`],
    ["wav", `data:audio/x-wav;codecs=1;base64,${WAV}`],
  ])("audio of the format %s", async (format, data) => {
    const part = { type: "input_audio", input_audio: { data, format } };
    const extra = { messages: [{ role: "user", content: [part] }] };
    for (const model of ["lab/plain", NATIVE.google]) {
      answer(model);
      expect((await user.post(CHAT, requestFor(CHAT, model, { extra }))).body.error).toBeUndefined();
      const text = JSON.stringify(sent());
      if (model === "lab/plain") expect(text).toContain(JSON.stringify({ data: WAV, format: "wav" }));
      else expect(text).toContain(JSON.stringify({ mimeType: "audio/wav", data: WAV }));
    }
  });
});

const IDS = ["functions.get_weather:0", "call_a|fc_b", "call a", "call.a", "ü", `call_${"x".repeat(100)}`];
const CLAUDES = ["lab/claude", NATIVE.anthropic];

describe.each(CLAUDES)("for Claude (%s)", (model) => {
  /** The ids of calls and of results in the last request. */
  function sentIds(): { calls: string[]; results: string[] } {
    const calls: string[] = [];
    const results: string[] = [];
    for (const message of sent().messages) {
      for (const { id } of message.tool_calls ?? []) calls.push(id);
      if (message.tool_call_id !== undefined) results.push(message.tool_call_id);
      for (const block of Array.isArray(message.content) ? message.content : []) {
        if (block.type === "tool_use") calls.push(block.id);
        if (block.type === "tool_result") results.push(block.tool_use_id);
      }
    }
    return { calls, results };
  }
  const tools = [{ name: "f", parameters: { type: "object", properties: {} } }];
  const bodies: Record<Path, object> = {
    [CHAT]: {
      messages: [
        { role: "user", content: "go" },
        {
          role: "assistant",
          content: null,
          tool_calls: IDS.map((id) => ({ id, type: "function", function: { name: "f", arguments: "{}" } })),
        },
        ...IDS.map((id) => ({ role: "tool", tool_call_id: id, content: "r" })),
      ],
    },
    [RESPONSES]: {
      input: [
        { role: "user", content: "go" },
        ...IDS.map((call_id) => ({ type: "function_call", call_id, name: "f", arguments: "{}" })),
        ...IDS.map((call_id) => ({ type: "function_call_output", call_id, output: "r" })),
      ],
    },
    [MESSAGES]: {
      messages: [
        { role: "user", content: "go" },
        { role: "assistant", content: IDS.map((id) => ({ type: "tool_use", id, name: "f", input: {} })) },
        { role: "user", content: IDS.map((tool_use_id) => ({ type: "tool_result", tool_use_id, content: "r" })) },
      ],
    },
  };

  it.each(PATHS)(
    "%s: ids of calls with other characters are replaced by ones that Claude takes, each by its own",
    async (path) => {
      answer(model);
      const request = requestFor(path, model, { tools, extra: bodies[path] });
      expect((await user.post(path, request)).status).toBe(200);
      const first = sentIds();
      expect(first.results).toEqual(first.calls);
      expect(new Set(first.calls).size).toBe(IDS.length);
      for (const id of first.calls) expect(id).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
      await user.post(path, request);
      expect(sentIds()).toEqual(first);
    },
  );

  it.each([false, true])("an id of an earlier call in the answer is the caller's own (stream: %s)", async (stream) => {
    answer(model);
    await user.post(CHAT, requestFor(CHAT, model, { tools, extra: bodies[CHAT] }));
    for (const [at, id] of IDS.entries()) {
      answer(model, { name: "f", arguments: {}, id: sentIds().calls[at] as string });
      const { body } = await user.post(CHAT, requestFor(CHAT, model, { tools, extra: bodies[CHAT], stream }));
      expect(callsIn(body)).toMatchObject([{ id, function: { name: "f", arguments: "{}" } }]);
    }
  });

  const blank = (text: string) => [{ type: "text", text }];
  it.each([
    ["an empty text", [{ role: "user", content: "" }]],
    ["a blank text", [{ role: "user", content: " \n\t" }]],
    ["an empty part", [{ role: "user", content: [...blank(""), ...blank("go")] }]],
    ["blank parts only", [{ role: "user", content: [...blank(""), ...blank("  ")] }]],
    [
      "a blank system prompt",
      [
        { role: "system", content: " " },
        { role: "user", content: "go" },
      ],
    ],
    [
      "an empty part of a system prompt",
      [
        { role: "system", content: [...blank(""), ...blank("brief")] },
        { role: "user", content: "go" },
      ],
    ],
    [
      "a blank answer",
      [
        { role: "user", content: "go" },
        { role: "assistant", content: "" },
        { role: "user", content: "on" },
      ],
    ],
    [
      "an answer of blank parts",
      [
        { role: "user", content: "go" },
        { role: "assistant", content: blank("\n") },
        { role: "user", content: "on" },
      ],
    ],
    [
      "a blank turn in between",
      [
        { role: "user", content: "" },
        { role: "assistant", content: "yes" },
        { role: "user", content: "on" },
      ],
    ],
    [
      "a blank last turn",
      [
        { role: "user", content: "go" },
        { role: "assistant", content: "yes" },
        { role: "user", content: "" },
      ],
    ],
  ])("%s of chat completions and Messages does not reach it", async (_, messages) => {
    answer(model);
    expect((await user.post(CHAT, requestFor(CHAT, model, { extra: { messages } }))).body.error).toBeUndefined();
    const [first] = messages;
    const is_system = first?.role === "system";
    const extra = {
      messages: is_system ? messages.slice(1) : messages,
      ...(is_system ? { system: first?.content } : {}),
    };
    expect((await user.post(MESSAGES, requestFor(MESSAGES, model, { extra }))).body.error).toBeUndefined();
    expect(upstream.requests).toHaveLength(2);
  });

  it("blank instructions, input and outputs of Responses do not reach it", async () => {
    answer(model);
    const extra = {
      instructions: " ",
      input: [
        { role: "developer", content: [{ type: "input_text", text: "" }] },
        {
          role: "user",
          content: [
            { type: "input_text", text: " " },
            { type: "input_text", text: "go" },
          ],
        },
        { role: "assistant", content: [{ type: "output_text", text: "" }] },
        { type: "function_call", call_id: "call_1", name: "f", arguments: "{}" },
        { type: "function_call_output", call_id: "call_1", output: "" },
      ],
    };
    expect((await user.post(RESPONSES, requestFor(RESPONSES, model, { tools, extra }))).body.error).toBeFalsy();
    expect(upstream.requests).toHaveLength(1);
  });

  it.each([
    ["an empty text", ""],
    ["a blank text", " \n"],
    ["blank parts", blank(" ")],
    ["a blank part beside others", [...blank(""), ...blank("r")]],
  ])(
    "a tool's result of %s does not reach it, and the answer with the call has no blank text either",
    async (_, content) => {
      answer(model);
      const call = { id: "call_1", type: "function", function: { name: "f", arguments: "{}" } };
      const messages = [
        { role: "user", content: "go" },
        { role: "assistant", content: " ", tool_calls: [call] },
        { role: "tool", tool_call_id: "call_1", content },
      ];
      expect(
        (await user.post(CHAT, requestFor(CHAT, model, { tools, extra: { messages } }))).body.error,
      ).toBeUndefined();
      for (const is_error of [false, true]) {
        const blocks = [
          { role: "user", content: "go" },
          { role: "assistant", content: [...blank(" "), { type: "tool_use", id: "call_1", name: "f", input: {} }] },
          { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", content, is_error }] },
        ];
        const { body } = await user.post(MESSAGES, requestFor(MESSAGES, model, { tools, extra: { messages: blocks } }));
        expect(body.error).toBeUndefined();
      }
      expect(upstream.requests).toHaveLength(3);
    },
  );
});

/** The calls in an answer of chat completions, whole or streamed. */
// biome-ignore lint/suspicious/noExplicitAny: tests read any field
function callsIn(body: any): { id?: string; function: { name?: string; arguments: string } }[] {
  if (typeof body !== "string") return body.choices[0].message.tool_calls;
  const calls: { id?: string; function: { name?: string; arguments: string } }[] = [];
  for (const [, data = ""] of body.matchAll(/^data: (\{.*)$/gm)) {
    for (const piece of JSON.parse(data).choices[0]?.delta.tool_calls ?? []) {
      calls[piece.index] ??= { function: { arguments: "" } };
      const call = calls[piece.index] as { id?: string; function: { name?: string; arguments: string } };
      call.id ??= piece.id;
      call.function.name ??= piece.function?.name;
      call.function.arguments += piece.function?.arguments ?? "";
    }
  }
  return calls;
}

/** Schemas that MCP servers and callers send, the arguments of a call under the tool's own names, and what is left out. */
const SCHEMAS: [string, object, Record<string, unknown>][] = [
  [
    "alternatives at the root",
    {
      type: "object",
      anyOf: [
        { properties: { content: { type: "string" } }, required: ["content"] },
        { properties: { source_url: { type: "string" } }, required: ["source_url"] },
      ],
    },
    { source_url: "https://a.example" },
  ],
  [
    "oneOf at the root, without a type",
    {
      oneOf: [
        { type: "object", properties: { kind: { const: "a" }, a: { type: "string" } }, required: ["kind", "a"] },
        { type: "object", properties: { kind: { const: "b" }, b: { type: "number" } }, required: ["kind", "b"] },
        { type: "null" },
      ],
    },
    { kind: "b", b: 1 },
  ],
  [
    "allOf at the root, with references",
    {
      allOf: [{ $ref: "#/$defs/Page" }, { properties: { q: { type: "string" } }, required: ["q"] }],
      $defs: { Page: { type: "object", properties: { page: { type: "integer" } } } },
    },
    { q: "x", page: 2 },
  ],
  [
    "a reference at the root",
    { $ref: "#/definitions/Args", definitions: { Args: { type: "object", properties: { a: { type: "string" } } } } },
    { a: "x" },
  ],
  ["no properties", { type: "object" }, { a: 1 }],
  ["nothing", {}, {}],
  ["several types at the root", { type: ["object", "null"], properties: { a: {} } }, { a: 1 }],
  ["a list without items", { type: "object", properties: { tags: { type: "array" } } }, { tags: ["a"] }],
  [
    "lists without items inside",
    {
      type: "object",
      properties: {
        rows: { type: "array", items: { type: "array" } },
        pair: { type: ["array", "null"], prefixItems: [{ type: "number" }, { type: "string" }] },
        old: { type: "array", items: [{ type: "number" }, { type: "string" }] },
        either: { anyOf: [{ type: "array" }, { type: "string" }] },
      },
    },
    { rows: [[1]], pair: [1, "a"] },
  ],
  [
    "names with other characters",
    {
      type: "object",
      properties: {
        $filter: { type: "string" },
        filter: { type: "string" },
        "a:b": { type: "string", description: "the b of a" },
        "filter[id]": { type: "integer" },
        日付: { type: "string" },
        "First name": { type: "string" },
        ["x".repeat(70)]: { type: "boolean" },
      },
      required: ["$filter", "日付"],
    },
    {
      $filter: "a eq 1",
      filter: "f",
      "a:b": "c",
      "filter[id]": 7,
      日付: "2026-11-28",
      "First name": "Ann",
      ["x".repeat(70)]: true,
    },
  ],
  [
    "such names inside",
    {
      type: "object",
      properties: {
        query: {
          type: "object",
          properties: { "@type": { type: "string" } },
          additionalProperties: { type: "string" },
        },
        rows: { type: "array", items: { $ref: "#/$defs/row" } },
        one: { anyOf: [{ type: "object", properties: { "k/v": {} } }, { type: "string" }] },
      },
      $defs: {
        row: {
          type: "object",
          properties: { größe: { type: "number" }, children: { type: "array", items: { $ref: "#/$defs/row" } } },
        },
      },
    },
    {
      query: { "@type": "t", type: "free" },
      rows: [{ größe: 1, children: [{ größe: 2 }] }],
      one: { "k/v": { "@type": "data" } },
    },
  ],
];

describe.each(MODELS)("tools with schemas that a provider rejects work with %s", (model) => {
  it.each(SCHEMAS)("%s", async (_, parameters, given) => {
    const fine = {
      name: "fine",
      description: "A tool.",
      parameters: { type: "object", properties: { a: { type: "string" } } },
    };
    const tools = [{ name: "odd", description: "Odd.", parameters }, fine];
    for (const path of PATHS) {
      for (const stream of [false, true]) {
        answer(model);
        await user.post(path, requestFor(path, model, { tools, stream }));
        const { odd, others } = schemasSent();
        expect(faultsIn(odd)).toEqual([]);
        expect(others).toEqual([fine.parameters]);
        answer(model, { name: "odd", arguments: asProviderNames(odd, given) });
        const { status, body } = await user.post(path, requestFor(path, model, { tools, stream }));
        expect([status, argumentsIn(path, body)]).toEqual([200, given]);
      }
    }
    await settledBalance(user);
    expect(await charges(user)).toHaveLength(12);
  });
});

// biome-ignore lint/suspicious/noExplicitAny: schemas and answers of several APIs
type Any = any;

/** The schemas that the provider got: of the tool odd, and of the others. */
function schemasSent(): { odd: Any; others: Any[] } {
  const { tools = [] } = sent();
  const all: Any[] = tools.flatMap((tool: Any) => tool.functionDeclarations ?? tool.function ?? tool);
  const of = (tool: Any) => tool.parametersJsonSchema ?? tool.input_schema ?? tool.parameters;
  return {
    odd: of(all.find(({ name }) => name === "odd")),
    others: all.filter(({ name }) => name !== "odd").map(of),
  };
}

/** What Claude, Gemini or OpenAI reject. */
function faultsIn(schema: Any): string[] {
  const path = upstream.requests.at(-1)?.path ?? "";
  const takes_any_name = path.includes("/responses") || sent().model === "plain" || sent().model === "small";
  const faults: string[] = [];
  if (schema.type !== "object") faults.push("the root is no object");
  // Anthropic and OpenAI take the caller's own object without properties.
  if (schema.properties === undefined && !/messages|responses/.test(path)) faults.push("no properties");
  for (const key of ["anyOf", "oneOf", "allOf", "not", "enum", "$ref"]) {
    if (schema[key] !== undefined) faults.push(`${key} at the root`);
  }
  const walk = (node: Any): void => {
    if (typeof node !== "object" || node === null) return;
    const types = [node.type].flat();
    if (types.includes("array") && (typeof node.items !== "object" || Array.isArray(node.items)))
      faults.push("a list without items");
    for (const name of Object.keys(typeof node.properties === "object" ? node.properties : {})) {
      if (!takes_any_name && !/^[a-zA-Z0-9_.-]{1,64}$/.test(name)) faults.push(`the name ${name}`);
    }
    for (const each of Object.values(node)) walk(each);
  };
  walk(schema);
  return faults;
}

/** Arguments as a model writes them: it finds each argument by its name or by its description. */
function asProviderNames(root: Any, value: Any): Any {
  const parts = (node: Any): Any[] => {
    if (typeof node !== "object" || node === null) return [];
    const target =
      node.$ref === undefined
        ? []
        : parts(
            node.$ref
              .split("/")
              .slice(1)
              .reduce((at: Any, key: string) => at[key], root),
          );
    return [node, ...target, ...(node.anyOf ?? []).flatMap(parts)];
  };
  const named = (node: Any, given: Any): Any => {
    if (Array.isArray(given))
      return given.map((each) => named(parts(node).find(({ items }) => items !== undefined)?.items, each));
    if (typeof given !== "object" || given === null) return given;
    const entries = Object.entries(given).map(([key, each]) => {
      for (const { properties = {} } of parts(node)) {
        if (properties[key] !== undefined) return [key, named(properties[key], each)];
        const other = Object.keys(properties).find((name) =>
          `${properties[name].description}: `.startsWith(`${key}: `),
        );
        if (other !== undefined) return [other, named(properties[other], each)];
      }
      return [key, each];
    });
    return Object.fromEntries(entries);
  };
  return named(root, value);
}

/** The arguments of the only call in an answer. */
function argumentsIn(path: Path, body: Any): Any {
  if (path === CHAT) return JSON.parse(callsIn(body)[0]?.function.arguments ?? "null");
  const data =
    typeof body === "string"
      ? [...body.matchAll(/^data: (\{.*)$/gm)].map(([, each]) => JSON.parse(each as string))
      : null;
  if (path === RESPONSES) {
    const items =
      data?.filter(({ type }) => type === "response.output_item.done").map(({ item }) => item) ?? body.output;
    return JSON.parse(items.find(({ type }: Any) => type === "function_call").arguments);
  }
  if (data === null) return body.content.find(({ type }: Any) => type === "tool_use").input;
  return JSON.parse(data.map(({ delta }) => delta?.partial_json ?? "").join("") || "{}");
}
