import Anthropic from "@anthropic-ai/sdk";
import { betaMemoryTool } from "@anthropic-ai/sdk/helpers/beta/memory";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { charges, expectCleanAudit, settledBalance } from "../support/lab.ts";
import { NATIVE_APIS, NATIVE_ENV, NATIVE_KINDS, type NativeKind, nativeConfig } from "../support/native-apis/lab.ts";
import type { Turn } from "../support/native-apis/turn.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import { startUpstream, type Upstream } from "../support/upstream.ts";

// Tools that Anthropic defines and the caller executes reach every model of Messages (contract 4.12.6).

const BLIND = "native/blind";
const SHELL = { type: "bash_20250124", name: "bash" } as const;
const EDITOR = { type: "text_editor_20250728", name: "str_replace_based_edit_tool", max_characters: 9_000 } as const;
const MEMORY = { type: "memory_20250818", name: "memory" } as const;
const SCREEN = { name: "computer", display_width_px: 1_024, display_height_px: 768 } as const;
const COMPUTER = { type: "computer_20251124", ...SCREEN, enable_zoom: true } as const;
const CALLS: [tool: { type: string; name: string }, input: object][] = [
  [SHELL, { command: "ls" }],
  [EDITOR, { command: "insert", path: "/a.txt", insert_line: 0, insert_text: "x" }],
  [MEMORY, { command: "view", path: "/memories" }],
  [COMPUTER, { action: "left_click", coordinate: [7, 9] }],
];

let upstream: Upstream;
let service: Service;
let user: Client;
let anthropic: Anthropic;
beforeAll(async () => {
  upstream = await startUpstream();
  const config = nativeConfig(upstream);
  const [first] = config.models.filter(({ id }) => id === "native/google");
  const blind = { ...first, id: BLIND, supports: { tools: true }, input_rate: 0.1, output_rate: 0.2 };
  service = await startService({ env: NATIVE_ENV, config: { ...config, models: [...config.models, blind] } });
});
afterAll(async () => {
  await expectCleanAudit(service);
  await service.stop();
  await upstream.close();
});
beforeEach(async () => {
  upstream.requests = [];
  user = await service.newUser({ trial: false, tokens: 10_000_000 });
  anthropic = new Anthropic({ baseURL: `${service.url}/api`, apiKey: user.key, maxRetries: 0 });
});

const answerAs = (kind: NativeKind, ...turns: Turn[]) =>
  upstream.answer(NATIVE_APIS[kind].create((n) => turns[n] ?? { text: "done" }).reply);
const sent = (nth = -1) => upstream.requests.at(nth)?.body;
/** The names of the tools that the provider got last. */
const offered = () =>
  sent()
    .tools?.flatMap((tool: { functionDeclarations?: object[] }) => tool.functionDeclarations ?? [tool])
    .map(({ name }: { name: string }) => name);
const asked = (model: string, tools: readonly object[]) => ({
  model,
  max_tokens: 500,
  tools: [...tools] as Anthropic.Beta.BetaToolUnion[],
  messages: [{ role: "user" as const, content: "go" }],
});

describe.each(NATIVE_KINDS)("%s", (kind) => {
  it.each([false, true])("a model calls each of these tools by its name (streamed: %s)", async (streamed) => {
    for (const [tool, input] of CALLS) {
      answerAs(kind, { calls: [{ name: tool.name, arguments: input }] });
      const request = asked(`native/${kind}`, [tool]);
      const answer = streamed
        ? await anthropic.beta.messages.stream(request).finalMessage()
        : await anthropic.beta.messages.create(request);
      expect(offered()).toEqual([tool.name]);
      expect(answer.stop_reason).toBe("tool_use");
      // A thinking block before it may carry the provider's signature.
      expect(answer.content.at(-1)).toMatchObject({ type: "tool_use", name: tool.name, input });
    }
  });

  it("the tool runner executes the memory tool, and the model continues with its result", async () => {
    const files: string[] = [];
    const memory = betaMemoryTool({
      view: () => "empty",
      create: ({ path }) => `wrote ${files.push(path)}`,
      str_replace: () => "",
      insert: () => "",
      delete: () => "",
      rename: () => "",
    });
    const input = { command: "create", path: "/memories/a.md", file_text: "berth 7" };
    answerAs(kind, { calls: [{ name: "memory", arguments: input }] });
    const final = await anthropic.beta.messages.toolRunner({ ...asked(`native/${kind}`, []), tools: [memory] });
    expect(final.content).toMatchObject([{ type: "text", text: "done" }]);
    expect(offered()).toEqual(["memory"]);
    expect(files).toEqual(["/memories/a.md"]);
    expect(JSON.stringify(sent())).toContain("wrote 1");
    await settledBalance(user);
    expect(await charges(user)).toHaveLength(2);
  });
});

describe("Anthropic's models", () => {
  it("get the tools as the caller wrote them, with the beta that a tool needs beside the caller's own", async () => {
    answerAs("anthropic");
    const tools = [SHELL, EDITOR, MEMORY, { ...COMPUTER, cache_control: { type: "ephemeral" } }];
    const betas = ["interleaved-thinking-2025-05-14"];
    await anthropic.beta.messages.create({ ...asked("native/anthropic", tools), betas });
    expect(sent().tools).toEqual(tools);
    const header = String(upstream.requests.at(-1)?.headers["anthropic-beta"]).split(",");
    expect(header).toEqual(expect.arrayContaining(["computer-use-2025-11-24", ...betas]));
  });

  it("can be made to use one", async () => {
    answerAs("anthropic");
    const tool_choice = { type: "tool" as const, name: "bash" };
    await anthropic.beta.messages.create({ ...asked("native/anthropic", [SHELL]), tool_choice });
    expect(sent()).toMatchObject({ tools: [SHELL], tool_choice });
  });
});

describe("other models", () => {
  it("get the schema that Anthropic documents, and the size of the screen", async () => {
    answerAs("openai");
    await anthropic.beta.messages.create(asked("native/openai", [SHELL, EDITOR, MEMORY, COMPUTER]));
    const [bash, editor, memory, computer] = sent().tools;
    expect(Object.keys(bash.parameters.properties)).toEqual(["command", "restart"]);
    expect(editor.parameters.properties.command.enum).toEqual(["view", "create", "str_replace", "insert"]);
    expect(editor.parameters.properties).toHaveProperty("insert_text");
    expect(memory.parameters.properties.command.enum).toContain("rename");
    expect(computer.parameters.properties.action.enum).toContain("zoom");
    expect(computer.description).toContain("1024 x 768");
    expect([editor, memory, computer].map(({ parameters }) => parameters.required[0])).toEqual([
      "command",
      "command",
      "action",
    ]);
  });

  it("are held for and counted with these schemas", async () => {
    const { model, tools, messages } = asked("native/openai", [SHELL]);
    const tokensOf = async (given: object) => (await anthropic.messages.countTokens(given as never)).input_tokens;
    const [plain, with_tool] = [await tokensOf({ model, messages }), await tokensOf({ model, messages, tools })];
    expect(with_tool).toBeGreaterThan(plain + 50);
  });

  it("learn that a call failed, also from a result with a picture", async () => {
    answerAs("openai");
    const data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    const picture = {
      type: "image" as const,
      source: { type: "base64" as const, media_type: "image/png" as const, data },
    };
    const call = { type: "tool_use" as const, id: "toolu_1", name: "computer", input: { action: "screenshot" } };
    const failed = { type: "tool_result" as const, tool_use_id: "toolu_1", is_error: true, content: [picture] };
    const request = asked("native/openai", [COMPUTER]);
    const messages = [
      ...request.messages,
      { role: "assistant" as const, content: [call] },
      { role: "user" as const, content: [failed] },
    ];
    await anthropic.beta.messages.create({ ...request, messages });
    expect(sent().input.at(-1).output).toMatchObject([{ type: "input_image" }, { type: "input_text", text: "Error" }]);
  });

  it("that take no pictures are rejected before a charge for the computer, and auto does not choose them", async () => {
    const { status, body } = await user.post("/api/v1/messages", asked(BLIND, [COMPUTER]));
    expect([status, body.error.param, body.error.code]).toEqual([400, "model", "invalid_value"]);
    expect(body.error.message).toContain("supports.vision");
    expect(upstream.requests).toEqual([]);
    answerAs("google");
    expect((await user.post("/api/v1/messages", asked(BLIND, [SHELL]))).status).toBe(200);
    const chosen = async (tools: object[]) =>
      (await user.post("/api/v1/messages", asked("auto", tools))).body.routing?.chosen;
    expect(await chosen([SHELL])).toBe(BLIND);
    answerAs("anthropic");
    expect(await chosen([COMPUTER])).toBe("native/anthropic");
  });
});

it.each([
  { type: "function", function: { name: "f", parameters: { type: "object" } } },
  { type: "function", name: "f", parameters: { type: "object" } },
])(
  "a tool in OpenAI's form is 400 and tells the form that is accepted, because it would be dropped: %j",
  async (tool) => {
    for (const path of ["/api/v1/messages", "/api/v1/messages/count_tokens"]) {
      const { status, body } = await user.post(path, asked("native/openai", [SHELL, tool]));
      expect([status, body.error.param, body.error.code]).toEqual([400, "tools[1].type", "invalid_value"]);
      expect(body.error.message).toContain("input_schema");
    }
  },
);

it("fields that are objects in place of texts and numbers are no error of the service", async () => {
  answerAs("openai");
  const object = { toString: 1, valueOf: 1 };
  const text = { type: "text", text: "hm", signature: object };
  const messages = [...asked("", []).messages, { role: "assistant", content: [text] }, ...asked("", []).messages];
  const screen = { ...COMPUTER, display_width_px: object };
  const { status } = await user.post("/api/v1/messages", { ...asked("native/openai", [screen]), messages });
  expect(status).toBe(200);
  expect(sent().tools[0].description).not.toContain("pixels");
});

it("beside another tool of the same name they are 400, because the model could not tell them apart", async () => {
  const own = { name: "bash", input_schema: { type: "object" } };
  const { status, body } = await user.post("/api/v1/messages", asked("native/openai", [own, SHELL]));
  expect([status, body.error.param]).toEqual([400, "tools"]);
  expect(body.error.message).toContain("Rename");
});

it("tools that Anthropic executes, and types that are not known here, are still dropped", async () => {
  answerAs("anthropic");
  const types = ["code_execution_20260521", "computer_toolset_20260801", "new_20990101", "constructor"];
  const tools = [SHELL, ...types.map((type) => ({ type, name: "other" }))];
  expect((await user.post("/api/v1/messages", asked("native/anthropic", tools))).status).toBe(200);
  expect(sent().tools).toEqual([SHELL]);
});

it.each<[object, string]>([
  [{ type: "bash_20990101", name: "bash" }, "tools[1].type must be bash_20241022 or bash_20250124."],
  [{ type: "memory", name: "memory" }, "tools[1].type must be memory_20250818."],
  [
    { type: "costum", name: "f", input_schema: { type: "object" } },
    "tools[1].type must be custom, or absent, because the tool has an input_schema.",
  ],
])("a tool that only the caller can execute is not dropped for a wrong type, but 400: %j", async (tool, message) => {
  const search = { type: "web_search_20250305", name: "web_search" };
  for (const path of ["/api/v1/messages", "/api/v1/messages/count_tokens"]) {
    const { status, body } = await user.post(path, asked("native/openai", [search, tool]));
    expect([status, body.error.param, body.error.code]).toEqual([400, "tools[1].type", "invalid_value"]);
    expect(body.error.message).toBe(message);
  }
  expect(upstream.requests).toEqual([]);
});
