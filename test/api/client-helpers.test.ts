import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import OpenAI from "openai";
import { beforeEach, describe, expect, it } from "vitest";
import { useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { calling, completion, delta, event, events } from "../support/upstream.ts";

// What the helpers of official clients send and need beside the documented fields (contract 4).

let user: Client;
const lab = useLab();
beforeEach(async () => {
  lab.upstream.requests = [];
  lab.upstream.answer(completion());
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
});
const sent = () => lab.upstream.requests.at(-1)?.body;

describe("message threads of Anthropic", () => {
  const anthropic = () => new Anthropic({ baseURL: `${lab.service.url}/api`, apiKey: user.key, maxRetries: 0 });
  const hello = { model: "lab/plain", max_tokens: 100, messages: [{ role: "user" as const, content: "hello" }] };

  it("the tool runner, which asks for one, goes on without it: each request has the whole conversation", async () => {
    lab.upstream.answer(calling("weather", { city: "Oslo" }), completion("it rains"));
    const inputSchema = { type: "object", properties: { city: { type: "string" } } } as const;
    const weather = betaTool({ name: "weather", description: "d", inputSchema, run: () => "rain" });
    const final = await anthropic().beta.messages.toolRunner({ ...hello, tools: [weather] });
    expect(final.content).toMatchObject([{ type: "text", text: "it rains" }]);
    expect(lab.upstream.requests.map(({ body }) => body.messages.length)).toEqual([1, 3]);
  });

  it("are 400 for a caller who asks for one, and the message says what to do", async () => {
    const { status, body } = await user.post("/api/v1/messages", { ...hello, thread: { type: "create" } });
    expect(status).toBe(400);
    expect(body.error).toMatchObject({
      code: "unsupported_parameter",
      param: "thread",
      message: expect.stringContaining("Send all messages"),
      details: { error_code: "thread_unsupported_request", unsupported: ["thread"] },
    });
    expect(lab.upstream.requests).toEqual([]);
  });
});

it("search results of the caller are text for models of other providers", async () => {
  const found = { type: "search_result", source: "https://example.com/a", title: "Berths" };
  const result = { ...found, content: [{ type: "text", text: "berth 7 is free" }] };
  const asked = { role: "user", content: [{ type: "text", text: "which?" }, result] };
  const { status } = await user.post("/api/v1/messages", { model: "lab/plain", max_tokens: 100, messages: [asked] });
  expect(status).toBe(200);
  expect(sent().messages[0].content[1].text).toBe("Berths\nhttps://example.com/a\nberth 7 is free");
});

it("parts of an answer that a client sends back lose the fields of the answer's message (Agents SDK)", async () => {
  const said = { type: "text", text: "I will call.", role: "assistant", annotations: [], reasoning_content: "thought" };
  const answer = { role: "assistant", content: [said] };
  const ask = (message: object) =>
    user.post("/api/v1/chat/completions", { model: "lab/plain", messages: [message, { role: "user", content: "go" }] });
  expect((await ask(answer)).status).toBe(200);
  expect(sent().messages[0].content).toEqual([{ type: "text", text: "I will call." }]);
  const { body } = await ask({ ...answer, role: "user" });
  expect(body.error).toMatchObject({ code: "unsupported_parameter", param: "messages[0].content[0].role" });
});

it("a chunk without choices or usage does not break OpenAI's helper for streams", async () => {
  const end = event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
  lab.upstream.answer(
    events(delta("one "), event({ obfuscation: "x" }), ": keep-alive\n\n", delta("two"), end, "data: [DONE]\n\n"),
  );
  const openai = new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
  const stream = openai.chat.completions.stream({ model: "lab/plain", messages: [{ role: "user", content: "hello" }] });
  expect((await stream.finalChatCompletion()).choices[0]?.message.content).toBe("one two");
});

describe("tools that OpenAI defines and the caller executes", () => {
  const openai = () => new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
  const fields = { model: "lab/plain", store: false };
  const tools = [{ type: "shell" as const, environment: { type: "local" as const } }, { type: "apply_patch" as const }];

  it.each([false, true])(
    "come back as their own calls, and the model gets their output (streamed: %s)",
    async (is_streamed) => {
      lab.upstream.answer(calling("shell", { commands: ["ls"] }), completion("two files"));
      const input: OpenAI.Responses.ResponseInputItem[] = [{ role: "user", content: "how many files?" }];
      const asked = { ...fields, input, tools };
      const first: { output: unknown[] } = is_streamed
        ? await openai().responses.stream(asked).finalResponse()
        : await openai().responses.create(asked);
      const items = first.output as OpenAI.Responses.ResponseFunctionShellToolCall[];
      const call = items.find(({ type }) => type === "shell_call");
      expect(call).toMatchObject({ status: "completed", action: { commands: ["ls"], timeout_ms: null } });
      expect(sent().tools.map((tool: { function: { name: string } }) => tool.function.name)).toEqual([
        "shell",
        "apply_patch",
      ]);
      const output = [{ stdout: "a b", stderr: "", outcome: { type: "exit" as const, exit_code: 0 } }];
      const result = { type: "shell_call_output" as const, call_id: call?.call_id ?? "", output };
      const second = await openai().responses.create({ ...asked, input: [...input, ...items, result] });
      expect(second.output_text).toBe("two files");
      expect(sent().messages.slice(-2)).toMatchObject([
        { role: "assistant", tool_calls: [{ function: { name: "shell" } }] },
        { role: "tool", tool_call_id: call?.call_id, content: expect.stringContaining("a b") },
      ]);
    },
  );

  it("of the other types come back in their form, also if the model's arguments are no JSON", async () => {
    const called = async (name: string, given: unknown) => {
      lab.upstream.answer(calling(name, given));
      const { output } = await openai().responses.create({
        ...fields,
        input: "go",
        tools: [{ type: "local_shell" }, { type: "apply_patch" }],
      });
      return output[0];
    };
    expect(await called("local_shell", { command: ["ls"] })).toMatchObject({
      type: "local_shell_call",
      action: { type: "exec", command: ["ls"], env: {} },
    });
    const operation = { type: "delete_file", path: "a.txt" };
    expect(await called("apply_patch", operation)).toMatchObject({ type: "apply_patch_call", operation });
    expect(await called("local_shell", "no object")).toMatchObject({ action: { type: "exec", command: [] } });
  });

  it("whose command the model wrote as a text have it as one command, which a client would execute letter by letter", async () => {
    lab.upstream.answer(calling("shell", { commands: "ls /srv" }));
    const { output } = await openai().responses.create({ ...fields, input: "go", tools });
    expect(output).toMatchObject([{ type: "shell_call", action: { commands: ["ls /srv"] } }]);
  });

  it.each([
    ["a function", { type: "function" as const, name: "shell", parameters: {}, strict: false }],
    ["a custom tool", { type: "custom" as const, name: "apply_patch" }],
    ["another such tool", { type: "shell" as const, environment: { type: "local" as const } }],
  ])("beside %s of the same name are 400, because the model could not tell them apart", async (_kind, other) => {
    for (const offered of [
      [...tools, other],
      [other, ...tools],
    ]) {
      const { status, body } = await user.post("/api/v1/responses", { ...fields, input: "go", tools: offered });
      expect([status, body.error?.param]).toEqual([400, "tools"]);
      expect(body.error.message).toContain("Rename");
    }
  });

  it("are chosen by their type only where they are offered, and a function of their name only by its name", async () => {
    const shell = { type: "function", name: "shell", parameters: {}, strict: false };
    const web_search = { ...shell, name: "web_search" };
    const asked = { ...fields, input: "go", tools: [shell, web_search] };
    const { body } = await user.post("/api/v1/responses", { ...asked, tool_choice: { type: "shell" } });
    expect(body.error?.param).toBe("tool_choice");
    const allowed = [{ type: "function", name: "shell" }, { type: "web_search" }];
    await user.post("/api/v1/responses", {
      ...asked,
      tool_choice: { type: "allowed_tools", mode: "auto", tools: allowed },
    });
    expect(sent().tools).toMatchObject([{ function: { name: "shell" } }]);
  });

  it("can be forced, but a shell in a container of OpenAI is dropped", async () => {
    const asked = { ...fields, input: "go" };
    await openai().responses.create({ ...asked, tools, tool_choice: { type: "apply_patch" } });
    expect(sent().tool_choice).toMatchObject({ type: "function", function: { name: "apply_patch" } });
    await openai().responses.create({ ...asked, tools: [{ type: "shell", environment: { type: "container_auto" } }] });
    expect(sent().tools).toBeUndefined();
  });
});
