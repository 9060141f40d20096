import type { ServerResponse } from "node:http";
import { NATIVE_APIS, NATIVE_KINDS } from "./native-apis/lab.ts";
import { delta, event, events, type Reply, type UpstreamRequest } from "./upstream.ts";

/**
 * Models that think for 20,000 tokens without a word, answer, and report their usage at the end, in each dialect. A new
 * dialect is a new row.
 */

export const THOUGHT_TOKENS = 20_000;
const THOUGHTS = "x".repeat(4 * THOUGHT_TOKENS);
export const ANSWER = "The answer is 42.";

const THOUGHTFUL = { reasoning: THOUGHTS, hidden: true, text: ANSWER };
/** Gemini reports its usage with the last part, so its answer has two. */
const CALLING = { calls: [{ name: "note", arguments: {} }] };

interface ThinkingModel {
  name: string;
  /** The id of the model in `nativeConfig` or in the lab. */
  model: string;
  /** The fields of a request that ask for reasoning. */
  fields: object;
  /** A new fake of the model. */
  create(): Reply;
}

const chatCompletions: Reply = (response, request) => {
  const usage = {
    prompt_tokens: 10,
    completion_tokens: THOUGHT_TOKENS + 5,
    completion_tokens_details: { reasoning_tokens: THOUGHT_TOKENS },
  };
  return events(
    event({ choices: [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }] }),
    delta(ANSWER),
    event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }),
    event({ choices: [], usage }),
    "data: [DONE]\n\n",
  )(response, request);
};

export const THINKING_MODELS: readonly ThinkingModel[] = [
  { name: "chat completions", model: "lab/thinking", fields: {}, create: () => chatCompletions },
  {
    name: "chat completions that are asked to reason",
    model: "lab/thinking",
    fields: { reasoning_effort: "high" },
    create: () => chatCompletions,
  },
  ...NATIVE_KINDS.map((kind) => ({
    name: kind,
    model: `native/${kind}`,
    fields: { reasoning_effort: "high" },
    create: () => NATIVE_APIS[kind].create(() => ({ ...THOUGHTFUL, ...(kind === "google" ? CALLING : {}) })).reply,
  })),
];

/** Plays a fake's answer, and calls `before` before each of its events. */
export function paced(reply: Reply, before: (sent: { text: string; nth: number }) => unknown): Reply {
  return async (response, request) => {
    const { status, headers, texts } = await recorded(reply, request);
    for (const [nth, text] of texts.entries()) {
      await before({ text, nth });
      if (nth === 0) response.writeHead(status, headers);
      response.write(text);
    }
    response.end();
  };
}

/** What a fake writes. */
async function recorded(reply: Reply, request: UpstreamRequest) {
  const answer = { status: 200, headers: {} as Record<string, string>, texts: [] as string[] };
  const response = {
    writeHead(status: number, headers: Record<string, string>) {
      Object.assign(answer, { status, headers });
      return response;
    },
    flushHeaders() {},
    write(text: string, written?: () => void) {
      answer.texts.push(text);
      written?.();
      return true;
    },
    end(text?: string) {
      if (text !== undefined) answer.texts.push(text);
    },
  };
  await reply(response as unknown as ServerResponse, request);
  return answer;
}
