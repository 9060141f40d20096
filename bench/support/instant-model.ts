import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const about = { id: "chatcmpl-bench", object: "chat.completion.chunk", created: 1_750_000_000, model: "instant" };
const usage = { prompt_tokens: 40, completion_tokens: 4, total_tokens: 44 };
const text = "Four words of answer";
const chunk = (fields: object) => `data: ${JSON.stringify({ ...about, ...fields })}\n\n`;
const delta = (delta: object, finish_reason: string | null = null) =>
  chunk({ choices: [{ index: 0, delta, finish_reason }] });
const STREAM = `${delta({ role: "assistant", content: text })}${delta({}, "stop")}${chunk({ choices: [], usage })}data: [DONE]\n\n`;
const message = { role: "assistant", content: text };
const WHOLE = JSON.stringify({
  ...about,
  object: "chat.completion",
  choices: [{ index: 0, message, finish_reason: "stop" }],
  usage,
});

/** A model in this process, so that one clock measures its calls. */
export interface InstantModel {
  url: string;
  /** `performance.now()` of the last call's arrival. */
  lastCallMs(): number;
  close(): void;
}

/** Starts a model that answers at once, whole or as a short stream. */
export async function startInstantModel(): Promise<InstantModel> {
  let last_call_ms = 0;
  const server = createServer((request, response) => {
    last_call_ms = performance.now();
    let body = "";
    request.on("data", (bytes) => {
      body += bytes;
    });
    request.on("end", () => {
      const is_stream = body.includes('"stream":true');
      response.setHeader("content-type", is_stream ? "text/event-stream" : "application/json");
      response.end(is_stream ? STREAM : WHOLE);
    });
  });
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", 4096, resolve));
  const { port } = server.address() as AddressInfo;
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${port}`, lastCallMs: () => last_call_ms, close };
}
