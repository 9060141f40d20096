/**
 * Configurations of programs that call the API. The page Connect, the guide for clients, `npm test` and `npm run clients`
 * use the same texts, so each text is run.
 */

/** The reader's settings. */
export interface Connection {
  /** The address of the service, without a path. */
  url: string;
  key: string;
  model: string;
}

/** One text to copy: a file, a command or a value. */
interface Block {
  /** The name of the file, or of the place for the text. */
  name: string;
  language: "sh" | "ts" | "python" | "toml" | "json" | "text";
  text: string;
}

export interface Snippet {
  id: string;
  title: string;
  /** The API that the program uses, and its base URL. */
  note: string;
  blocks: readonly Block[];
}

/** The key in the guide, and on the page for readers without a new key. */
export const PLACEHOLDER_KEY = "YOUR_API_KEY";

export const DEFAULT_MODEL = "auto";
/** The names that models and agents can have. */
const MODEL_NAME = /^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$/;

/** `text` if a model can have this name. A page's address can have any text, and the snippets are commands to run. */
export function modelNamed(text: string): string {
  return MODEL_NAME.test(text) ? text : DEFAULT_MODEL;
}

/** The snippets, filled with `settings`. Pure. */
export function snippetsOf(settings: Connection): Snippet[] {
  const connection = { ...settings, model: modelNamed(settings.model) };
  return [
    curl(connection),
    typescript(connection),
    python(connection),
    codex(connection),
    claudeCode(connection),
    opencode(connection),
    langchain(connection),
    n8n(connection),
    anthropic(connection),
    aiSdk(connection),
  ];
}

const lines = (...texts: string[]): string => texts.join("\n");
const quoted = (text: string): string => JSON.stringify(text);
const KEY_VARIABLE = "PURSER_KEY";
/** For programs that read the key from the environment. */
const exported = (key: string): Block => ({ name: "Shell", language: "text", text: `export ${KEY_VARIABLE}=${key}` });

const curl = ({ url, key, model }: Connection): Snippet => ({
  id: "curl",
  title: "curl",
  note: 'Chat completions. For events as they arrive, add `"stream": true` to the body and `-N` to the command.',
  blocks: [
    {
      name: "Shell",
      language: "sh",
      text: lines(
        `curl -s ${url}/api/v1/chat/completions \\`,
        `  -H "Authorization: Bearer ${key}" \\`,
        '  -H "Content-Type: application/json" \\',
        `  -d '{"model": ${quoted(model)}, "messages": [{"role": "user", "content": "Say: hello"}]}'`,
      ),
    },
  ],
});

const typescript = ({ url, key, model }: Connection): Snippet => ({
  id: "typescript",
  title: "TypeScript",
  note: "The package `openai`. Its Responses, chat completions and models work.",
  blocks: [
    {
      name: "hello.ts",
      language: "ts",
      text: lines(
        'import OpenAI from "openai";',
        "",
        `const openai = new OpenAI({ baseURL: "${url}/api/v1", apiKey: ${quoted(key)} });`,
        `const response = await openai.responses.create({ model: ${quoted(model)}, input: "Say: hello" });`,
        "console.log(response.output_text);",
      ),
    },
  ],
});

const python = ({ url, key, model }: Connection): Snippet => ({
  id: "python",
  title: "Python",
  note: "The package `openai`. Its Responses, chat completions and models work.",
  blocks: [
    {
      name: "hello.py",
      language: "python",
      text: lines(
        "from openai import OpenAI",
        "",
        `client = OpenAI(base_url="${url}/api/v1", api_key=${quoted(key)})`,
        `response = client.responses.create(model=${quoted(model)}, input="Say: hello")`,
        "print(response.output_text)",
      ),
    },
  ],
});

const codex = ({ url, key, model }: Connection): Snippet => ({
  id: "codex",
  title: "Codex",
  note: "Codex uses Responses. Set the key in the shell that starts it.",
  blocks: [
    exported(key),
    {
      name: "~/.codex/config.toml",
      language: "toml",
      text: lines(
        `model = ${quoted(model)}`,
        'model_provider = "purser"',
        "",
        "[model_providers.purser]",
        'name = "Purser"',
        `base_url = "${url}/api/v1"`,
        `env_key = "${KEY_VARIABLE}"`,
        'wire_api = "responses"',
      ),
    },
  ],
});

const claudeCode = ({ url, key, model }: Connection): Snippet => ({
  id: "claude-code",
  title: "Claude Code",
  note: "Claude Code uses Messages. Its base URL ends with /api.",
  blocks: [
    {
      name: "Shell",
      language: "text",
      text: lines(
        `export ANTHROPIC_BASE_URL=${url}/api`,
        `export ANTHROPIC_AUTH_TOKEN=${key}`,
        `export ANTHROPIC_DEFAULT_HAIKU_MODEL=${model}`,
        `claude --model ${model}`,
      ),
    },
  ],
});

const opencode = ({ url, key, model }: Connection): Snippet => ({
  id: "opencode",
  title: "opencode",
  note: "opencode uses chat completions. Set the key in the shell that starts it.",
  blocks: [
    exported(key),
    {
      name: "~/.config/opencode/opencode.json",
      language: "json",
      text: lines(
        "{",
        `  "model": ${quoted(`purser/${model}`)},`,
        '  "provider": {',
        '    "purser": {',
        '      "npm": "@ai-sdk/openai-compatible",',
        '      "name": "Purser",',
        `      "options": { "baseURL": "${url}/api/v1", "apiKey": "{env:${KEY_VARIABLE}}" },`,
        `      "models": { ${quoted(model)}: { "name": ${quoted(model)} } }`,
        "    }",
        "  }",
        "}",
      ),
    },
  ],
});

const langchain = ({ url, key, model }: Connection): Snippet => ({
  id: "langchain",
  title: "LangChain",
  note: "The package `@langchain/openai`. It uses chat completions, or Responses with `useResponsesApi: true`.",
  blocks: [
    {
      name: "hello.ts",
      language: "ts",
      text: lines(
        'import { ChatOpenAI } from "@langchain/openai";',
        "",
        "const model = new ChatOpenAI({",
        `  model: ${quoted(model)},`,
        `  apiKey: ${quoted(key)},`,
        `  configuration: { baseURL: "${url}/api/v1" },`,
        "});",
        'const answer = await model.invoke("Say: hello");',
        "console.log(answer.text);",
      ),
    },
  ],
});

const n8n = ({ url, key, model }: Connection): Snippet => ({
  id: "n8n",
  title: "n8n",
  note: "Create a credential of the type OpenAI with these values. Both modes of the OpenAI node work.",
  blocks: [
    { name: "API Key", language: "text", text: key },
    { name: "Base URL", language: "text", text: `${url}/api/v1` },
    { name: "Model, by ID", language: "text", text: model },
  ],
});

const anthropic = ({ url, key, model }: Connection): Snippet => ({
  id: "anthropic",
  title: "Anthropic SDK",
  note: "The package `@anthropic-ai/sdk`. It uses Messages, and its base URL ends with /api.",
  blocks: [
    {
      name: "hello.ts",
      language: "ts",
      text: lines(
        'import Anthropic from "@anthropic-ai/sdk";',
        "",
        `const anthropic = new Anthropic({ baseURL: "${url}/api", apiKey: ${quoted(key)} });`,
        "const message = await anthropic.messages.create({",
        `  model: ${quoted(model)},`,
        "  max_tokens: 1000,",
        '  messages: [{ role: "user", content: "Say: hello" }],',
        "});",
        "console.log(message.content);",
      ),
    },
  ],
});

const aiSdk = ({ url, key, model }: Connection): Snippet => ({
  id: "ai-sdk",
  title: "AI SDK",
  note: "The packages `ai` and `@ai-sdk/openai`. They use Responses.",
  blocks: [
    {
      name: "hello.ts",
      language: "ts",
      text: lines(
        'import { createOpenAI } from "@ai-sdk/openai";',
        'import { generateText } from "ai";',
        "",
        `const purser = createOpenAI({ baseURL: "${url}/api/v1", apiKey: ${quoted(key)} });`,
        `const { text } = await generateText({ model: purser(${quoted(model)}), prompt: "Say: hello" });`,
        "console.log(text);",
      ),
    },
  ],
});
