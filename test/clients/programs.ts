import { snippetsOf } from "../../console/src/client-snippets.ts";

/** Real programs in the way their users run them. Only the address and the key are the test's. */

export interface Place {
  /** Purser's address. */
  url: string;
  key: string;
  model: string;
}

export interface Program {
  name: string;
  /** npm packages, with exact versions. */
  packages: readonly string[];
  /** It only creates embeddings, so it has no stream and calls no tool. */
  only_vectors?: true;
  /** Uses Purser as an MCP server: it runs the agent Reporter by its tool. */
  only_mcp?: true;
  /** Prints a broken answer as if it were whole: it ignores `response.failed`. */
  ignores_failures?: true;
  /** The command in the folder of the packages: its arguments, variables and home files. */
  command(
    place: Place,
    prompt: string,
  ): {
    args: readonly string[];
    env: Record<string, string>;
    files?: Record<string, string>;
  };
}

/** A snippet of the page Connect: a program's, by the name of its file, or the shell's. */
function snippet(program: string, name: string, { url, key, model }: Place): string {
  const found = snippetsOf({ url, key, model }).find(({ id }) => id === program);
  const block = found?.blocks.find((each) => each.name === name);
  if (block === undefined) throw new Error(`no snippet ${program}: ${name}`);
  return block.text;
}

/** Runs the shell's text of a snippet, then `command`, which finds the prompt in $PROMPT. */
const inShell = (program: string, place: Place, command: string) =>
  ["bash", "-c", `${snippet(program, "Shell", place)} ${command}`] as const;

/** A script with a tool `weather`. It prints the answer. */
const script = (name: string, packages: readonly string[], source: (place: Place) => string): Program => ({
  name,
  packages,
  command: (place, prompt) => ({
    args: ["node", "--input-type=module", "-e", source(place)],
    env: { PROMPT: prompt, KEY: place.key, BASE: `${place.url}/api/v1`, MODEL: place.model },
  }),
});

const OPENAI = "openai@7.57.0";
const ANTHROPIC = "@anthropic-ai/sdk@1.12.0";
const AGENTS = "@openai/agents@0.20.0";
const CODEX = "@openai/codex@0.169.0";
const CODEX_COMMAND = '\ncodex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox "$PROMPT"';
const AI = ["ai@7.0.173", "@ai-sdk/openai@4.0.118", "zod@4.6.7"];
const LANGCHAIN = ["@langchain/core@1", "@langchain/openai@1.6.0", "@langchain/anthropic@1.5.11", "zod@4.6.7"];

export const PROGRAMS: readonly Program[] = [
  script(
    "openai (Responses)",
    [OPENAI],
    () => `
import OpenAI from "openai";
const { PROMPT, KEY, BASE, MODEL } = process.env;
const client = new OpenAI({ baseURL: BASE, apiKey: KEY, maxRetries: 0 });
const tools = [{ type: "function", name: "weather", strict: false, parameters: { type: "object", properties: { city: { type: "string" } } } }];
let input = [{ role: "user", content: PROMPT }];
for (;;) {
  const answer = await client.responses.stream({ model: MODEL, input, tools }).finalResponse();
  if (answer.status === "failed") throw new Error(answer.error.message);
  const calls = answer.output.filter((item) => item.type === "function_call");
  if (calls.length === 0) { console.log(answer.output_text); break; }
  input = [...input, ...answer.output, ...calls.map(({ call_id }) => ({ type: "function_call_output", call_id, output: "tool-ran" }))];
}`,
  ),
  script(
    "@anthropic-ai/sdk",
    [ANTHROPIC],
    ({ url }) => `
import Anthropic from "@anthropic-ai/sdk";
const { PROMPT, KEY, MODEL } = process.env;
const client = new Anthropic({ baseURL: ${JSON.stringify(url)} + "/api", apiKey: KEY, maxRetries: 0 });
const tools = [{ name: "weather", input_schema: { type: "object", properties: { city: { type: "string" } } } }];
let messages = [{ role: "user", content: PROMPT }];
for (;;) {
  const answer = await client.messages.stream({ model: MODEL, max_tokens: 500, messages, tools }).finalMessage();
  const calls = answer.content.filter((block) => block.type === "tool_use");
  if (calls.length === 0) { console.log(answer.content.map((block) => block.text ?? "").join("")); break; }
  const results = calls.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: "tool-ran" }));
  messages = [...messages, { role: "assistant", content: answer.content }, { role: "user", content: results }];
}`,
  ),
  script(
    "ai + @ai-sdk/openai",
    AI,
    () => `
import { createOpenAI } from "@ai-sdk/openai";
import { isStepCount, streamText, tool } from "ai";
import { z } from "zod";
const { PROMPT, KEY, BASE, MODEL } = process.env;
const weather = tool({ inputSchema: z.object({ city: z.string() }), execute: async () => "tool-ran" });
let failure;
const result = streamText({ model: createOpenAI({ baseURL: BASE, apiKey: KEY })(MODEL), prompt: PROMPT, tools: { weather }, stopWhen: isStepCount(4), maxRetries: 0, onError: ({ error }) => { failure = error; } });
const text = await result.text.catch((error) => { throw failure ?? error; });
if (failure) throw failure;
console.log(text);`,
  ),
  script(
    "@openai/agents",
    [AGENTS, "zod@4.6.7"],
    () => `
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool } from "@openai/agents";
import { z } from "zod";
const { PROMPT, KEY, BASE, MODEL } = process.env;
setTracingDisabled(true);
const weather = tool({ name: "weather", description: "d", parameters: z.object({ city: z.string() }), execute: async () => "tool-ran" });
const runner = new Runner({ modelProvider: new OpenAIProvider({ apiKey: KEY, baseURL: BASE }) });
const result = await runner.run(new Agent({ name: "a", instructions: "be brief", model: MODEL, tools: [weather] }), PROMPT, { stream: true });
await result.completed;
if (result.error) throw result.error;
console.log(result.finalOutput);`,
  ),
  {
    ...script(
      "@langchain/openai (Responses)",
      LANGCHAIN,
      () => `
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
const { PROMPT, KEY, BASE, MODEL } = process.env;
const schema = { type: "object", properties: { city: { type: "string" } } };
const model = new ChatOpenAI({ model: MODEL, apiKey: KEY, useResponsesApi: true, streaming: true, maxRetries: 0, configuration: { baseURL: BASE } })
  .bindTools([{ type: "function", function: { name: "weather", description: "d", parameters: schema } }]);
const messages = [new HumanMessage(PROMPT)];
for (;;) {
  const answer = await model.invoke(messages);
  if (!answer.tool_calls?.length) { console.log(answer.text); break; }
  messages.push(answer, ...answer.tool_calls.map(({ id }) => new ToolMessage({ tool_call_id: id, content: "tool-ran" })));
}`,
    ),
    ignores_failures: true,
  },
  script(
    "@langchain/anthropic",
    LANGCHAIN,
    ({ url }) => `
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatAnthropic } from "@langchain/anthropic";
const { PROMPT, KEY, MODEL } = process.env;
const schema = { type: "object", properties: { city: { type: "string" } } };
const model = new ChatAnthropic({ model: MODEL, apiKey: KEY, streaming: true, maxRetries: 0, maxTokens: 500, anthropicApiUrl: ${JSON.stringify(url)} + "/api" })
  .bindTools([{ name: "weather", description: "d", input_schema: schema }]);
const messages = [new HumanMessage(PROMPT)];
for (;;) {
  const answer = await model.invoke(messages);
  if (!answer.tool_calls?.length) { console.log(answer.text); break; }
  messages.push(answer, ...answer.tool_calls.map(({ id }) => new ToolMessage({ tool_call_id: id, content: "tool-ran" })));
}`,
  ),
  {
    ...script(
      "@langchain/openai (embeddings)",
      LANGCHAIN,
      () => `
import { OpenAIEmbeddings } from "@langchain/openai";
const { PROMPT, KEY, BASE } = process.env;
const model = new OpenAIEmbeddings({ model: "lab/vectors", apiKey: KEY, maxRetries: 0, configuration: { baseURL: BASE } });
const [first, second] = await model.embedDocuments([PROMPT, PROMPT + "!"]);
console.log("vectors", first.join(" "), "and", second.join(" "));`,
    ),
    only_vectors: true,
  },
  {
    name: "Codex",
    packages: [CODEX],
    command: (place, prompt) => ({
      args: inShell("codex", place, CODEX_COMMAND),
      env: { PROMPT: prompt },
      files: {
        ".codex/config.toml": `${snippet("codex", "~/.codex/config.toml", place)}\nstream_max_retries = 1`,
      },
    }),
  },
  {
    name: "Claude Code",
    packages: ["@anthropic-ai/claude-code@2.1.330"],
    command: (place, prompt) => ({
      // The last line of the snippet starts the program.
      args: inShell("claude-code", place, '-p "$PROMPT" --allowedTools Bash'),
      env: {
        PROMPT: prompt,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
        DISABLE_AUTOUPDATER: "1",
        CLAUDE_CODE_MAX_RETRIES: "1",
      },
    }),
  },
  {
    name: "opencode",
    packages: ["opencode-ai@1.18.33"],
    command: (place, prompt) => ({
      args: inShell("opencode", place, '\nopencode run "$PROMPT"'),
      env: {
        PROMPT: prompt,
        OPENCODE_DISABLE_AUTOUPDATE: "1",
        OPENCODE_DISABLE_MODELS_FETCH: "1",
        OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
      },
      files: {
        ".config/opencode/opencode.json": snippet("opencode", "~/.config/opencode/opencode.json", place),
      },
    }),
  },
  {
    name: "MCP inspector (CLI)",
    packages: ["@modelcontextprotocol/inspector@2.12.0"],
    only_mcp: true,
    command: ({ url, key }) => {
      const asks = `mcp-inspector --cli ${url}/api/v1/mcp --transport http --connect-timeout 60000 --header "Authorization: Bearer $KEY"`;
      const call = "--method tools/call --tool-name run_reporter";
      return { args: ["bash", "-c", `${asks} --method tools/list && ${asks} ${call}`], env: { KEY: key } };
    },
  },
  {
    name: "Codex with Purser's agents as MCP tools",
    packages: [CODEX],
    only_mcp: true,
    command: (place, prompt) => ({
      args: inShell("codex", place, CODEX_COMMAND),
      env: { PROMPT: prompt },
      files: {
        ".codex/config.toml": `${snippet("codex", "~/.codex/config.toml", place)}

[mcp_servers.purser]
url = "${place.url}/api/v1/mcp"
bearer_token_env_var = "PURSER_KEY"
required = true
startup_timeout_sec = 60
tool_timeout_sec = 900
`,
      },
    }),
  },
];
