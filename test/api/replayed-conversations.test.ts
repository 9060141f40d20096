import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { expectCleanAudit } from "../support/lab.ts";
import { NATIVE_APIS, NATIVE_ENV, type NativeKind, nativeConfig } from "../support/native-apis/lab.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import { startUpstream, type Upstream } from "../support/upstream.ts";

// A conversation that began at OpenAI or Anthropic goes on here with every model (contract 4.11.4, 4.12, 4.12.4).

const RESPONSES = "/api/v1/responses";
const MESSAGES = "/api/v1/messages";
const KINDS: NativeKind[] = ["openai", "anthropic", "google"];
let upstream: Upstream;
let service: Service;
let user: Client;
beforeAll(async () => {
  upstream = await startUpstream();
  service = await startService({ env: NATIVE_ENV, config: nativeConfig(upstream) });
});
afterAll(async () => {
  await expectCleanAudit(service);
  await service.stop();
  await upstream.close();
});
beforeEach(async () => {
  user = await service.newUser({ trial: false, tokens: 10_000_000 });
});

/** Sends a request to the model of each kind, and returns the conversations that their providers got, as text. */
async function conversationsOf(path: string, fields: object, kinds: readonly NativeKind[] = KINDS): Promise<string[]> {
  const sent: string[] = [];
  for (const kind of kinds) {
    upstream.answer(NATIVE_APIS[kind].create(() => ({ text: "ok" })).reply);
    upstream.requests = [];
    const { status, body } = await user.post(path, { model: `native/${kind}`, ...fields });
    expect([status, body.error ?? null]).toEqual([200, null]);
    const request = upstream.requests[0]?.body;
    sent.push(JSON.stringify(request?.input ?? request?.messages ?? request?.contents));
  }
  return sent;
}

const ASKED = { role: "user", content: "first question" };
const AGAIN = { role: "user", content: "second question" };

describe("Responses", () => {
  const said = { type: "message", role: "assistant", content: [{ type: "output_text", text: "the answer" }] };

  it.each([
    { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: "HIDDEN" } },
    { type: "file_search_call", id: "fs_1", status: "completed", queries: ["HIDDEN"], results: null },
    { type: "computer_call", id: "cu_1", call_id: "c", action: { type: "screenshot" }, status: "completed" },
    { type: "computer_call_output", call_id: "c", output: { type: "computer_screenshot", file_id: "HIDDEN" } },
    { type: "code_interpreter_call", id: "ci_1", code: "HIDDEN", container_id: "x", outputs: [], status: "completed" },
    { type: "mcp_list_tools", id: "mcpl_1", server_label: "HIDDEN", tools: [] },
    { type: "mcp_call", id: "mcp_1", server_label: "x", name: "f", arguments: "{}", output: "HIDDEN" },
    { type: "mcp_approval_request", id: "mcpr_1", server_label: "x", name: "HIDDEN", arguments: "{}" },
    { type: "mcp_approval_response", approval_request_id: "HIDDEN", approve: true },
    { type: "tool_search_call", id: "ts_1", arguments: "HIDDEN" },
    { type: "tool_search_output", id: "tso_1", tools: [] },
    { type: "program", id: "p_1", call_id: "c", code: "HIDDEN", fingerprint: "x" },
    { type: "program_output", id: "po_1", call_id: "c", result: "HIDDEN", status: "completed" },
  ])("the item $type of an earlier turn is left out", async (item) => {
    for (const text of await conversationsOf(RESPONSES, { input: [ASKED, item, said, AGAIN] })) {
      expect(text).toMatch(/first question.*the answer.*second question/);
      expect(text).not.toMatch(new RegExp(`HIDDEN|${item.type}`));
    }
  });

  it.each(["computer_call_output", "mcp_approval_response"])(
    "an input that ends with %s is 400, because the model would answer the turn before it",
    async (type) => {
      const { status, body } = await user.post(RESPONSES, {
        model: "native/anthropic",
        input: [ASKED, said, { type }],
      });
      expect([status, body.error.param]).toEqual([400, "input[2]"]);
      expect(body.error.message).toContain(type);
    },
  );

  it.each([
    ["assistant", ["openai", "anthropic"]],
    ["model", ["google"]],
  ] as const)(
    "a generated image is a sentence of the %s, because nothing else answers its turn",
    async (role, kinds) => {
      const item = { type: "image_generation_call", id: "ig_1", status: "completed", result: "aGlkZGVu" };
      for (const text of await conversationsOf(RESPONSES, { input: [ASKED, item, AGAIN] }, kinds)) {
        expect(text).toMatch(new RegExp(`first question.*"${role}".*An image was generated here.*second question`));
        expect(text).not.toContain("aGlkZGVu");
      }
    },
  );

  it.each([
    ["compaction", "Send the messages themselves, or a summary"],
    ["invented_call", "Send messages, calls"],
  ])("an item %s is 400, because the model would lose its content", async (type, advice) => {
    const { status, body } = await user.post(RESPONSES, { model: "native/openai", input: [ASKED, { type }, AGAIN] });
    expect([status, body.error.param]).toEqual([400, "input[1].type"]);
    expect(body.error.message).toContain(advice);
  });

  it.each([
    [
      { type: "shell_call", id: "sh_1", call_id: "c", action: { commands: ["ls /srv"] }, status: "completed" },
      { type: "shell_call_output", call_id: "c", output: [{ stdout: "the result", outcome: { type: "exit" } }] },
      /"shell".*ls \/srv/,
    ],
    [
      { type: "local_shell_call", call_id: "c", action: { type: "exec", command: ["ls", "/srv"], env: {} } },
      { type: "local_shell_call_output", id: "c", output: "the result" },
      /"local_shell".*ls.*\/srv/,
    ],
    [
      {
        type: "apply_patch_call",
        call_id: "c",
        operation: { type: "delete_file", path: "a.txt" },
        status: "completed",
      },
      { type: "apply_patch_call_output", call_id: "c", status: "failed", output: "the result" },
      /"apply_patch".*delete_file.*a\.txt/,
    ],
  ])(
    "a call of a tool that the caller executed, and its output, reach every model (%j)",
    async (call, output, shown) => {
      for (const text of await conversationsOf(RESPONSES, { input: [ASKED, call, output, AGAIN] })) {
        expect(text).toMatch(/first question.*the result.*second question/);
        expect(text).toMatch(shown);
      }
    },
  );

  it("a call of such a tool without its action is 400 that names it", async () => {
    const call = { type: "shell_call", call_id: "c" };
    const { status, body } = await user.post(RESPONSES, { model: "native/openai", input: [ASKED, call, AGAIN] });
    expect([status, body.error.param]).toEqual([400, "input[1].action"]);
  });

  it("calls that a program of OpenAI made stay with their results, without the program that is left out", async () => {
    const caller = { type: "program", caller_id: "HIDDEN" };
    const call = { type: "function_call", call_id: "c", name: "add", arguments: "{}", caller };
    const result = { type: "function_call_output", call_id: "c", output: "the result", caller };
    for (const text of await conversationsOf(RESPONSES, { input: [ASKED, call, result, AGAIN] })) {
      expect(text).toMatch(/first question.*add.*the result.*second question/);
      expect(text).not.toContain("HIDDEN");
    }
  });

  it.each(["user", "assistant"])("a message of the role %s with empty content has no effect", async (role) => {
    const [openai, ...others] = await conversationsOf(RESPONSES, { input: [ASKED, { role, content: [] }, AGAIN] });
    expect(openai).toMatch(/first question.*second question/);
    for (const text of others) {
      expect(text).toMatch(/first question.*second question/);
      expect(text).not.toMatch(/\[\]|""/);
    }
  });

  it.each([
    { type: "web_search_call", id: "ws_1", status: "completed" },
    { role: "user", content: [] },
  ])("an input without anything for the model is 400, and costs nothing", async (item) => {
    const { status, body } = await user.post(RESPONSES, { model: "native/openai", input: [item] });
    expect([status, body.error.param]).toEqual([400, "input"]);
  });

  it("empty lists count as absent", async () => {
    await conversationsOf(RESPONSES, { input: "hello", tools: [], include: [], modalities: [] });
  });
});

describe("Messages", () => {
  it("a tool that only a dropped tool could find or call is offered like any other (attack: the model never sees it)", async () => {
    const offered = async (tools: object[]) => {
      upstream.answer(NATIVE_APIS.anthropic.create(() => ({ text: "ok" })).reply);
      const request = { model: "native/anthropic", max_tokens: 9, messages: [ASKED], tools };
      expect((await user.post(MESSAGES, request)).status).toBe(200);
      return upstream.requests.at(-1)?.body.tools;
    };
    const own = { name: "f", input_schema: { type: "object" }, input_examples: [{ a: 1 }] };
    const tool = { ...own, defer_loading: true, allowed_callers: ["code_execution_20260120"] };
    const search = { type: "tool_search_tool_bm25_20251119", name: "tool_search_tool_bm25" };
    expect(await offered([tool, search])).toEqual([own]);
    // A caller that searches by a tool of its own names what it found.
    expect(await offered([tool])).toEqual([{ ...own, defer_loading: true }]);
  });

  it.each(["user", "assistant"])("a message of the role %s with empty content is left out", async (role) => {
    const messages = [ASKED, { role, content: [] }, AGAIN];
    for (const text of await conversationsOf(MESSAGES, { max_tokens: 500, messages })) {
      expect(text).toMatch(/first question.*second question/);
      expect(text).not.toMatch(/\[\]|null/);
    }
  });

  it("blocks of tools that Anthropic executed in an earlier turn are left out", async () => {
    const content = [
      { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "HIDDEN" } },
      {
        type: "web_search_tool_result",
        tool_use_id: "srvtoolu_1",
        content: [{ type: "web_search_result", url: "HIDDEN" }],
      },
      { type: "mcp_tool_use", id: "mcptoolu_1", name: "HIDDEN", server_name: "x", input: {} },
      { type: "mcp_tool_result", tool_use_id: "mcptoolu_1", content: [] },
      { type: "text", text: "the answer" },
    ];
    const messages = [ASKED, { role: "assistant", content }, AGAIN];
    for (const text of await conversationsOf(MESSAGES, { max_tokens: 500, messages })) {
      expect(text).toMatch(/first question.*the answer.*second question/);
      expect(text).not.toMatch(/HIDDEN|srvtoolu|mcptoolu/);
    }
  });

  it("calls that a program of Anthropic made stay with their results, without the program that is left out", async () => {
    const caller = { type: "code_execution_20250825", tool_id: "HIDDEN" };
    const content = [
      { type: "server_tool_use", id: "HIDDEN", name: "code_execution", input: {} },
      { type: "tool_use", id: "toolu_1", name: "add", input: {}, caller },
    ];
    const result = { type: "tool_result", tool_use_id: "toolu_1", content: "the result" };
    const messages = [ASKED, { role: "assistant", content }, { role: "user", content: [result] }];
    for (const text of await conversationsOf(MESSAGES, { max_tokens: 500, messages })) {
      expect(text).toMatch(/first question.*add.*the result/);
      expect(text).not.toContain("HIDDEN");
    }
  });

  it("an answer that has only Anthropic's thinking and such blocks is left out for other providers", async () => {
    const content = [
      { type: "thinking", thinking: "HIDDEN", signature: "x" },
      { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: {} },
    ];
    const messages = [ASKED, { role: "assistant", content }, AGAIN];
    for (const text of await conversationsOf(MESSAGES, { max_tokens: 500, messages }, ["openai", "google"])) {
      expect(text).toMatch(/first question.*second question/);
      expect(text).not.toMatch(/HIDDEN|\[\]|""/);
    }
  });

  it("empty lists count as absent; a list with an entry that no provider gets is 400", async () => {
    const asked = { max_tokens: 500, messages: [ASKED] };
    const empty = { tools: [], system: [], stop_sequences: [], mcp_servers: [], betas: [], fallbacks: [] };
    await conversationsOf(MESSAGES, { ...asked, ...empty });
    const mcp_servers = [{ type: "url", url: "https://mcp.example", name: "x" }];
    const { status, body } = await user.post(MESSAGES, { model: "native/anthropic", ...asked, mcp_servers });
    expect([status, body.error.param]).toEqual([400, "mcp_servers"]);
    expect(body.error.message).toContain("an agent can use MCP servers");
    // Fields of this provider's API are fixed, so the operator could allow none.
    const other = await user.post(MESSAGES, { model: "native/anthropic", ...asked, inference_geo: "us" });
    expect(other.body.error.message).toBe("inference_geo is not sent to this model's provider. Remove it.");
  });

  it("tools that a caller's own search found are named to each model, and Anthropic's get the references", async () => {
    const call = { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "find", input: {} }] };
    const reference = { type: "tool_reference", tool_name: "berths" };
    const found = { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: [reference] }] };
    const input_schema = { type: "object" };
    const tools = [
      { name: "find", input_schema },
      { name: "berths", input_schema, defer_loading: true },
    ];
    const asked = { max_tokens: 500, messages: [ASKED, call, found], tools };
    const [openai, anthropic, google] = await conversationsOf(MESSAGES, asked);
    expect(anthropic).toContain(JSON.stringify(reference));
    for (const sent of [openai, google]) expect(sent).toContain("The tool berths can be called now.");
  });

  it("a document of texts reaches each model", async () => {
    const texts = ["berth 7", "berth 8"].map((text) => ({ type: "text", text }));
    const document = { type: "document", title: "Berths", source: { type: "content", content: texts } };
    const sent = await conversationsOf(MESSAGES, {
      max_tokens: 500,
      messages: [{ role: "user", content: [document] }],
    });
    for (const each of sent) expect(each).toMatch(/berth 7.*berth 8/);
  });

  it("messages that all are empty are 400, and cost nothing", async () => {
    const messages = [{ role: "user", content: [] }];
    for (const kind of KINDS) {
      const { status, body } = await user.post(MESSAGES, { model: `native/${kind}`, max_tokens: 500, messages });
      expect([status, body.error.param]).toEqual([400, "messages"]);
    }
  });
});

it.each([
  [RESPONSES, { type: "function_call_output", call_id: "x", output: "r" }, "input[1].call_id"],
  [
    RESPONSES,
    { role: "user", content: [{ type: "input_image", image_url: "https://a.example/a.png" }] },
    "input[1].content[0].image_url",
  ],
  [
    MESSAGES,
    { role: "user", content: [{ type: "tool_result", tool_use_id: "x", content: "r" }] },
    "messages[1].content[0].tool_use_id",
  ],
  [
    MESSAGES,
    { role: "user", content: [{ type: "image", source: { type: "url", url: "https://a.example/a.png" } }] },
    "messages[1].content[0].source",
  ],
  [
    MESSAGES,
    {
      role: "user",
      content: [
        { type: "web_search_tool_result", tool_use_id: "x", content: [] },
        { type: "text", text: "look" },
        { type: "image", source: { type: "url", url: "https://a.example/a.png" } },
      ],
    },
    "messages[1].content[2].source",
  ],
  [
    MESSAGES,
    { role: "user", content: [{ type: "tool_result", tool_use_id: "x", content: [{ type: "tool_reference" }] }] },
    "messages[1].content[0].content[0].tool_name",
  ],
])("%s: an error about a part names the caller's own field: %j", async (path, message, param) => {
  const list = [ASKED, message];
  const fields = path === RESPONSES ? { input: list } : { max_tokens: 500, messages: list };
  const { status, body } = await user.post(path, { model: "native/google", ...fields });
  expect([status, body.error.param]).toEqual([400, param]);
  expect(body.error.message).toContain(`${param} `);
});
