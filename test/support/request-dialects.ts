import type { Server } from "../../src/gateway/models/dialects.ts";

/**
 * What requests to a server or for a model must look like. A row is a server, a request of a caller, and what the server
 * must get of it: a new dialect is a new row.
 */

type Fields = Record<string, unknown>;
/** undefined: the field must not be sent. */
export type RequestRow = readonly [string, Partial<Server> & { model?: string }, Fields, Fields];

const user = { role: "user", content: "hello" };
const developer = { role: "developer", content: "be brief" };
const system = { ...developer, role: "system" };
const at = (base_url: string): Partial<Server> => ({ base_url });

const CALLED = [
  user,
  {
    role: "assistant",
    content: null,
    tool_calls: [{ id: "call_abc", type: "function", function: { name: "f", arguments: "{}" } }],
  },
  { role: "tool", tool_call_id: "call_abc", content: "r" },
];

/** The cap of these calls is 100. */
export const REQUEST_ROWS: readonly RequestRow[] = [
  [
    "DeepSeek has no role developer",
    at("https://api.deepseek.com/v1"),
    { messages: [developer, user] },
    { messages: [system, user] },
  ],
  ["an unknown server gets system", { name: "lab" }, { messages: [developer, user] }, { messages: [system, user] }],
  [
    "OpenAI has the role developer",
    at("https://api.openai.com/v1"),
    { messages: [developer, user] },
    { messages: [developer, user] },
  ],
  [
    "Azure has the role developer",
    at("https://lab.openai.azure.com/openai/v1"),
    { messages: [developer, user] },
    { messages: [developer, user] },
  ],
  ...(
    [
      ["Mistral", at("https://api.mistral.ai/v1")],
      ["a provider named mistral", { name: "mistral" }],
      ["a provider named mistral-eu", { name: "mistral-eu" }],
      ["a model of Mistral's elsewhere", { model: "mistralai/ministral-8b" }],
      ["DeepSeek", at("https://api.deepseek.com")],
      ["Together", at("https://api.together.xyz/v1")],
      ["Moonshot", at("https://api.moonshot.cn/v1")],
      ["DashScope", at("https://dashscope-intl.aliyuncs.com/compatible-mode/v1")],
      ["z.ai", at("https://api.z.ai/api/paas/v4")],
      ["a provider named z.ai", { name: "z.ai" }],
      ["LM Studio", at("http://127.0.0.1:1234/v1")],
      ["a provider named lm-studio", { name: "lm-studio" }],
      ["Ollama", at("http://localhost:11434/v1")],
    ] as const
  ).flatMap(([name, server]): RequestRow[] => [
    [
      `${name} knows max_tokens`,
      server,
      { max_completion_tokens: 100 },
      { max_tokens: 100, max_completion_tokens: undefined },
    ],
    [`${name} keeps max_tokens`, server, { max_tokens: 100 }, { max_tokens: 100, max_completion_tokens: undefined }],
  ]),
  ...(
    [
      ["OpenAI", at("https://api.openai.com/v1")],
      ["Azure", at("https://lab.openai.azure.com/openai/v1")],
      ["Cerebras", at("https://api.cerebras.ai/v1")],
      ["a reasoning model of OpenAI behind a gateway", { model: "openai/o4-mini" }],
      ["GPT-5 behind a gateway", { model: "gpt-5.1-mini" }],
    ] as const
  ).flatMap(([name, server]): RequestRow[] => [
    [
      `${name} knows max_completion_tokens`,
      server,
      { max_tokens: 100 },
      { max_completion_tokens: 100, max_tokens: undefined },
    ],
    [`${name} gets it without a cap of the caller`, server, {}, { max_completion_tokens: 100, max_tokens: undefined }],
  ]),
  ["an unknown server gets the caller's name", {}, { max_completion_tokens: 100 }, { max_completion_tokens: 100 }],
  [
    "GPT-OSS is no reasoning model of OpenAI's API",
    { model: "gpt-oss-120b" },
    { max_tokens: 100 },
    { max_tokens: 100 },
  ],
  [
    "Mistral knows seed as random_seed, and no user",
    at("https://api.mistral.ai/v1"),
    { seed: 7, user: "u" },
    { random_seed: 7, seed: undefined, user: undefined },
  ],
  [
    "Mistral takes no reasoning in an answer",
    at("https://api.mistral.ai/v1"),
    { messages: [user, { role: "assistant", content: "a", reasoning_content: "r", name: "n" }, user] },
    { messages: [user, { role: "assistant", content: "a" }, user] },
  ],
  [
    "Mistral takes ids of nine letters and digits",
    at("https://api.mistral.ai/v1"),
    { messages: CALLED },
    {
      messages: [
        user,
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "ed01972d3", type: "function", function: { name: "f", arguments: "{}" } }],
        },
        { role: "tool", tool_call_id: "ed01972d3", content: "r" },
      ],
    },
  ],
  ["other servers take any id", {}, { messages: CALLED }, { messages: CALLED }],
];
