import { createHash } from "node:crypto";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout } from "node:timers/promises";
import { costTokens } from "../../src/gateway/models/pricing.ts";
import { BENCH_RATES } from "../support/service.ts";

const MAX_WORDS = 24;
/**
 * A token by the service's estimate, which has four bytes. With the least input, which is more than its estimate of a
 * request's id, a stream that was cut off is charged no more than the whole answer.
 */
const WORD = "one ";
const LEAST_INPUT = 20;
const MAX_DELAY_MS = 20;
/** One call in ten takes this long, so that a kill finds it held for a while. */
const SLOW_MS = 200;

/** The usage that the upstream reports. It depends only on the prompt, so the cost is known without the answer. */
export function countsOf(prompt: string): { input_tokens: number; output_tokens: number; delay_ms: number } {
  const hash = createHash("sha256").update(prompt).digest();
  const below = (at: number, limit: number) => hash.readUInt32BE(at) % limit;
  const delay_ms = below(12, 10) === 0 ? SLOW_MS : below(8, MAX_DELAY_MS);
  return { input_tokens: LEAST_INPUT + below(0, 500), output_tokens: 1 + below(4, MAX_WORDS), delay_ms };
}

const UNCACHED = { cached_input_tokens: 0, cache_write_tokens: 0, cache_write_1h_tokens: 0 };

/** Billed tokens of a whole answer to `prompt`. */
export function costOf(prompt: string): number {
  return costTokens(BENCH_RATES, { ...countsOf(prompt), ...UNCACHED });
}

/** A slow provider on loopback. It streams one word at a time. */
export async function startSlowUpstream(): Promise<{ url: string; close(): Promise<void> }> {
  const server = createServer(async (request, response) => {
    const { messages, stream } = JSON.parse(await text(request));
    await answer(response, messages.at(-1).content, stream === true);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, close: () => close(server) };
}

async function answer(response: ServerResponse, prompt: string, stream: boolean): Promise<void> {
  const { input_tokens, output_tokens, delay_ms } = countsOf(prompt);
  const usage = {
    prompt_tokens: input_tokens,
    completion_tokens: output_tokens,
    total_tokens: input_tokens + output_tokens,
  };
  const about = { id: "chatcmpl-crash", created: 1_750_000_000, model: "instant" };
  await setTimeout(delay_ms);
  if (!stream) {
    const choices = [
      { index: 0, message: { role: "assistant", content: WORD.repeat(output_tokens) }, finish_reason: "stop" },
    ];
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ ...about, object: "chat.completion", choices, usage }));
    return;
  }
  response.setHeader("content-type", "text/event-stream");
  const event = (fields: object) =>
    response.write(`data: ${JSON.stringify({ ...about, object: "chat.completion.chunk", ...fields })}\n\n`);
  for (let word = 0; word < output_tokens; word += 1) {
    event({ choices: [{ index: 0, delta: { content: WORD }, finish_reason: null }] });
    await setTimeout(1);
  }
  event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
  event({ choices: [], usage });
  response.end("data: [DONE]\n\n");
}

async function close(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}
