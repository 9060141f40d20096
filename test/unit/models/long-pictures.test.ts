import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { ChatMessage } from "../../../src/api/contract/completions.ts";
import { createAnthropicProvider } from "../../../src/gateway/models/anthropic.adapter.ts";
import { createGoogleProvider } from "../../../src/gateway/models/google.adapter.ts";
import { createOpenAiProvider } from "../../../src/gateway/models/openai.adapter.ts";
import { callerOf, modelOf, requestOf } from "./model-fixture.ts";

/** The bodies that the provider received. It rejects them, because only the request counts. */
const received: Buffer[] = [];
let server: Server;
let settings: { base_url: string; api_key: string };
beforeAll(async () => {
  server = createServer(async (request, response) => {
    const parts: Buffer[] = await request.toArray();
    const length = Number(request.headers["content-length"]);
    expect(parts.reduce((sum, part) => sum + part.length, 0)).toBe(length);
    received.splice(0, 1, ...(length < 1_000_000 ? [Buffer.concat(parts)] : parts.slice(0, 1)));
    response.writeHead(400, { "content-type": "application/json" }).end('{"error":{"message":"no"}}');
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  settings = { base_url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, api_key: "key" };
});
afterAll(() => server.close());

const KINDS = { anthropic: createAnthropicProvider, google: createGoogleProvider, openai: createOpenAiProvider };
const MODELS = { anthropic: "claude-opus-4-1", google: "gemini-3-pro", openai: "gpt-6" };
const ask = async (kind: keyof typeof KINDS, messages: ChatMessage[], fields: object = {}) => {
  const model = modelOf({ kind, provider_model: MODELS[kind] });
  const refused = callerOf(KINDS[kind](settings), model).complete(requestOf({ messages, ...fields }));
  await expect(refused).rejects.toMatchObject({ code: "invalid_value" });
};
const showing = (data: string): ChatMessage[] => [
  {
    role: "user",
    content: [
      { type: "text", text: "look:" },
      { type: "image_url", image_url: { url: `data:image/png;base64,${data}` } },
    ],
  },
];

it.each(["anthropic", "google", "openai"] as const)(
  "%s: a long picture arrives complete, like a short one",
  async (kind) => {
    for (const data of ["AAAA", "ABCD".repeat(50_000), `${"ABCD".repeat(50_000)}"\\`]) {
      await ask(kind, showing(data));
      const body = JSON.parse(String(received[0]));
      const found = JSON.stringify(body);
      expect(found).toContain(JSON.stringify(data).slice(1, -1));
    }
  },
);
