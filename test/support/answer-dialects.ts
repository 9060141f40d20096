import { event, events, json, type Reply } from "./upstream.ts";

/**
 * Answers of OpenAI-compatible servers in their own dialects. A row is what one server sends, streamed and in one piece,
 * and what callers must get for it: a new dialect is a new row.
 */

const STOP = event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
const DONE = "data: [DONE]\n\n";

type Fields = Record<string, unknown>;

const said = (delta: unknown, finish_reason: unknown = null, fields: Fields = {}) =>
  event({ choices: [{ index: 0, delta, finish_reason, ...fields }] });
const ending = (finish_reason: unknown, fields: Fields = {}) => said({}, finish_reason, fields);

/** Streams `chunks` to callers that ask for a stream, and answers `whole` to others. */
function answering(chunks: readonly string[], whole: Fields): Reply {
  const identity = { id: "x", object: "chat.completion", created: 1, model: "m" };
  return (response, request) =>
    request.body?.stream === true
      ? events(...chunks)(response, request)
      : json({ ...identity, ...whole })(response, request);
}

function hello(chunks: readonly string[], whole: Fields, choice: Fields = {}): Reply {
  const message = { role: "assistant", content: "hello" };
  return answering([said({ role: "assistant", content: "hello" }), ...chunks, DONE], {
    choices: [{ index: 0, message, finish_reason: "stop", ...choice }],
    ...whole,
  });
}

/** The usage that callers see and pay. */
export interface ExpectedUsage {
  input: number;
  output: number;
  cached?: number;
  reasoning?: number;
  /** How the total was split. */
  estimated?: true;
}

/** Servers that put their usage into other places or under other names. */
export const USAGE_DIALECTS: readonly (readonly [string, Reply, ExpectedUsage])[] = [
  ...(
    [
      [
        "cached tokens beside the others (Moonshot)",
        { prompt_tokens: 1336, completion_tokens: 31, total_tokens: 1367, cached_tokens: 1280 },
        { input: 1336, output: 31, cached: 1280 },
      ],
      [
        "prompt_cache_hit_tokens (DeepSeek)",
        {
          prompt_tokens: 320,
          completion_tokens: 180,
          total_tokens: 500,
          prompt_cache_hit_tokens: 256,
          prompt_cache_miss_tokens: 64,
        },
        { input: 320, output: 180, cached: 256 },
      ],
      [
        "details of 0 beside another name with a figure",
        {
          prompt_tokens: 320,
          completion_tokens: 18,
          prompt_tokens_details: { cached_tokens: 0 },
          prompt_cache_hit_tokens: 256,
        },
        { input: 320, output: 18, cached: 256 },
      ],
      [
        "thoughts in the total only (Gemini)",
        { prompt_tokens: 10, completion_tokens: 5, total_tokens: 623 },
        { input: 10, output: 613, reasoning: 608 },
      ],
      [
        "thoughts in the total only, and no other output",
        { prompt_tokens: 10, total_tokens: 623 },
        { input: 10, output: 613 },
      ],
      [
        "thoughts beside the output (xAI)",
        {
          prompt_tokens: 10,
          completion_tokens: 5,
          total_tokens: 115,
          completion_tokens_details: { reasoning_tokens: 100 },
        },
        { input: 10, output: 105, reasoning: 100 },
      ],
      [
        "thoughts within the output (OpenAI)",
        {
          prompt_tokens: 10,
          completion_tokens: 105,
          total_tokens: 115,
          completion_tokens_details: { reasoning_tokens: 100 },
        },
        { input: 10, output: 105, reasoning: 100 },
      ],
      [
        "a total that is too small",
        { prompt_tokens: 10, completion_tokens: 5, total_tokens: 3 },
        { input: 10, output: 5 },
      ],
      ["the names of Responses", { input_tokens: 10, output_tokens: 5 }, { input: 10, output: 5 }],
      [
        "the names of Messages: what the cache gave is beside the input",
        { input_tokens: 10, output_tokens: 5, cache_read_input_tokens: 900, cache_creation_input_tokens: 0 },
        { input: 910, output: 5, cached: 900 },
      ],
      [
        "cache_read_input_tokens within prompt_tokens (LiteLLM)",
        { prompt_tokens: 1000, completion_tokens: 5, total_tokens: 1005, cache_read_input_tokens: 900 },
        { input: 1000, output: 5, cached: 900 },
      ],
      [
        "figures as texts",
        { prompt_tokens: "10", completion_tokens: "5", prompt_tokens_details: { cached_tokens: "4" } },
        { input: 10, output: 5, cached: 4 },
      ],
      ["a total alone", { total_tokens: 15 }, { input: 13, output: 2, estimated: true }],
    ] as const
  ).map(
    ([name, usage, expected]) => [name, hello([STOP, event({ choices: [], usage })], { usage }), expected] as const,
  ),
  (() => {
    const usage = { prompt_tokens: 1336, completion_tokens: 31, total_tokens: 1367, cached_tokens: 1280 };
    const reply = hello([ending("stop", { usage })], {}, { usage });
    return ["usage in the choice (Moonshot)", reply, { input: 1336, output: 31, cached: 1280 }] as const;
  })(),
  (() => {
    const usage = { prompt_tokens: 20, completion_tokens: 7, total_tokens: 27, queue_time: 0.1 };
    const last = event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }], x_groq: { id: "r", usage } });
    return ["usage in x_groq (Groq)", hello([last], { x_groq: { usage } }), { input: 20, output: 7 }] as const;
  })(),
  [
    "usage of zeros in the choice, and the real one beside it",
    hello(
      [ending("stop", { usage: { prompt_tokens: 0, completion_tokens: 0 } }), usageOnly(10, 5)],
      { usage: { prompt_tokens: 10, completion_tokens: 5 } },
      { usage: { prompt_tokens: 0, completion_tokens: 0 } },
    ),
    { input: 10, output: 5 },
  ],
];

function usageOnly(prompt_tokens: number, completion_tokens: number): string {
  return event({ choices: [], usage: { prompt_tokens, completion_tokens } });
}

/** Streams whose usage comes in several chunks: each says "hello". */
export const USAGE_STREAMS: readonly (readonly [string, string[], ExpectedUsage])[] = [
  ["cumulative, in each chunk", [usageOnly(10, 1), usageOnly(10, 3), STOP, usageOnly(10, 5)], { input: 10, output: 5 }],
  [
    "the input first and the output last",
    [
      event({ choices: [], usage: { prompt_tokens: 10 } }),
      STOP,
      event({ choices: [], usage: { completion_tokens: 5 } }),
    ],
    { input: 10, output: 5 },
  ],
  ["the output last, with an input of 0", [usageOnly(10, 0), STOP, usageOnly(0, 5)], { input: 10, output: 5 }],
  ["zeros at the end", [STOP, usageOnly(10, 5), usageOnly(0, 0)], { input: 10, output: 5 }],
  [
    "in choices of chunks, cumulative",
    [2, 3, 5].map((completion_tokens) =>
      ending(completion_tokens === 5 ? "stop" : null, { usage: { prompt_tokens: 10, completion_tokens } }),
    ),
    { input: 10, output: 5 },
  ],
];
export const helloStream = (chunks: readonly string[]): Reply => hello(chunks, {});

/** Events without anything for the caller, between the words of "hello there". */
export const EMPTY_EVENTS: readonly (readonly [string, string])[] = [
  ["a delta of null", said(null)],
  ["no delta", event({ choices: [{ index: 0, finish_reason: null }] })],
  ["data of null", "data: null\n\n"],
  ["data of null with an event's name", "event: ping\ndata: null\n\n"],
  ["data of an empty list", "data: []\n\n"],
  ["data of a text", 'data: "ping"\n\n'],
  ["a choice of null", event({ choices: [null] })],
  ["two choices of null", event({ choices: [null, null] })],
  ["a choice of null beside one without a delta", event({ choices: [null, { index: 0 }] })],
  ["an empty choice", event({ choices: [{}] })],
];

/** Ends of a stream in odd shapes; the answer ends with `stop`. */
export const ODD_ENDS: readonly (readonly [string, string])[] = [
  ["a delta of null", said(null, "stop")],
  ["no delta", event({ choices: [{ index: 0, finish_reason: "stop" }] })],
  ["a choice of null beside it", event({ choices: [null, { index: 0, delta: {}, finish_reason: "stop" }] })],
  [
    "the whole message again instead of a delta (MiniMax)",
    event({
      choices: [{ index: 0, message: { role: "assistant", content: "hello there" }, finish_reason: "stop" }],
      object: "chat.completion",
    }),
  ],
];

const WHOLE = { role: "assistant", content: "hello there" };
const HELLO_WHOLE = {
  choices: [{ index: 0, message: WHOLE, finish_reason: "stop" }],
  usage: { prompt_tokens: 10, completion_tokens: 4 },
};
/** Answers in odd shapes that say "hello there" and end with `stop`, whole or streamed as they come. */
export const ODD_ANSWERS: readonly (readonly [string, boolean, Reply])[] = [
  [
    "calls of null",
    true,
    events(said({ content: "hello there", tool_calls: [null] }), ending("stop"), usageOnly(10, 4)),
  ],
  [
    "stop in two chunks",
    true,
    events(said({ content: "hello there" }), ending("stop"), ending("stop"), usageOnly(10, 4)),
  ],
  ["an empty finish reason", true, events(said({ content: "hello there" }, ""), ending("stop"), usageOnly(10, 4))],
  ["a finish reason of false", true, events(said({ content: "hello there" }, false), ending("stop"), usageOnly(10, 4))],
  [
    "content of other types",
    true,
    events(said({ content: {} }), said({ content: "hello there" }), ending("stop"), usageOnly(10, 4)),
  ],
  [
    "the whole message in the first chunk",
    true,
    events(event({ choices: [{ index: 0, message: WHOLE, finish_reason: null }] }), ending("stop"), usageOnly(10, 4)),
  ],
  [
    "the whole message after a role",
    true,
    events(
      said({ role: "assistant" }),
      event({ choices: [{ index: 0, message: WHOLE, finish_reason: "stop" }] }),
      usageOnly(10, 4),
    ),
  ],
  ["JSON in place of a stream", true, json(HELLO_WHOLE)],
  ["a stream in place of JSON", false, events(said(WHOLE), ending("stop"), usageOnly(10, 4), DONE)],
  ["a choice of null beside the answer", false, json({ ...HELLO_WHOLE, choices: [null, ...HELLO_WHOLE.choices] })],
];

/** A call of `add` in OpenAI's first shape, whole and streamed. */
export const FUNCTION_CALL: Reply = answering(
  [
    said({ role: "assistant", content: null, function_call: { name: "add", arguments: "" } }),
    said({ function_call: { arguments: '{"a"' } }),
    said({ function_call: { arguments: ":1}" } }),
    ending("function_call"),
    usageOnly(10, 5),
    DONE,
  ],
  {
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: null, function_call: { name: "add", arguments: '{"a":1}' } },
        finish_reason: "function_call",
      },
    ],
    usage: { prompt_tokens: 10, completion_tokens: 5 },
  },
);

/** Calls `add` twice at the same time, as streamed pieces; callers must get a = 1 and then a = 2. */
export const PARALLEL_CALLS: readonly (readonly [string, Fields[]])[] = [
  [
    "whole calls",
    [
      { name: "add", arguments: '{"a":1}' },
      { name: "add", arguments: '{"a":2}' },
    ].map(at0),
  ],
  [
    "arguments in pieces",
    [
      { name: "add", arguments: "" },
      { arguments: '{"a":' },
      { arguments: "1}" },
      { name: "add", arguments: '{"a"' },
      { arguments: ":2}" },
    ].map(at0),
  ],
  [
    "the name in each piece",
    [
      { name: "add", arguments: '{"a":' },
      { name: "add", arguments: "1}" },
      { name: "add", arguments: "" },
      { name: "add", arguments: '{"a":2' },
      { name: "add", arguments: "}" },
    ].map(at0),
  ],
  [
    "arguments that are objects",
    [
      { name: "add", arguments: { a: 1 } },
      { name: "add", arguments: { a: 2 } },
    ].map(at0),
  ],
  [
    "empty ids",
    [
      { name: "add", arguments: '{"a":1}' },
      { name: "add", arguments: '{"a":2}' },
    ].map((called) => ({
      ...at0(called),
      id: "",
    })),
  ],
];
function at0(called: Fields): Fields {
  return { index: 0, type: "function", function: called };
}
export function callStream(pieces: readonly Fields[]): Reply {
  return events(...pieces.map((piece) => said({ tool_calls: [piece] })), ending("tool_calls"), usageOnly(10, 5), DONE);
}

/** Answers that think "hm" and say "hi", whole and streamed. */
export const REASONING_DIALECTS: readonly (readonly [string, Reply])[] = (
  [
    ["reasoning_content", { reasoning_content: "hm" }],
    ["reasoning", { reasoning: "hm" }],
    ["reasoning beside an empty reasoning_content", { reasoning_content: "", reasoning: "hm" }],
    ["reasoning beside a reasoning_content of null", { reasoning_content: null, reasoning: "hm" }],
    ["both", { reasoning_content: "hm", reasoning: "hm" }],
  ] as const
).map(([name, thought]) => [
  name,
  answering(
    [said({ role: "assistant", ...thought }), said({ content: "hi" }), ending("stop"), usageOnly(10, 5), DONE],
    {
      choices: [{ index: 0, message: { role: "assistant", content: "hi", ...thought }, finish_reason: "stop" }],
      usage: { prompt_tokens: 10, completion_tokens: 5 },
    },
  ),
]);

/** "hello" that ends with this finish reason, whole and streamed. */
export function endingWith(finish_reason: string): Reply {
  const usage = { prompt_tokens: 10, completion_tokens: 5 };
  return hello([ending(finish_reason), event({ choices: [], usage })], { usage }, { finish_reason });
}
