import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { ChatMessage } from "../../../src/api/contract/completions.ts";
import { createAnthropicProvider } from "../../../src/gateway/models/anthropic.adapter.ts";
import { createGoogleProvider } from "../../../src/gateway/models/google.adapter.ts";
import { createOpenAiProvider } from "../../../src/gateway/models/openai.adapter.ts";
import { monotonicMs } from "../../../src/platform/lib/clock.ts";
import { expectShortTurn, heldDuring } from "../../support/held.ts";
import { callerOf, modelOf, requestOf } from "./model-fixture.ts";

// The AI SDK writes a request as one text. A picture of 23 MB must not block the event loop meanwhile.

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
      { type: "text", text: 'look: "purser-data-0"' },
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
      expect(found).toContain(JSON.stringify('look: "purser-data-0"'));
      expect(found.match(/purser-data/g)).toHaveLength(1);
    }
  },
);

it.each([
  ["anthropic", "of a thinking model", { reasoning_effort: "high" }],
  ["google", "", {}],
] as const)("%s: a picture of 31 MB %s does not block the event loop", { retry: 2 }, async (kind, _of, fields) => {
  await ask(kind, showing("AAAA"), fields); // loads the SDK
  const data = "ABCD".repeat(7_750_000);
  const messages = showing(data);
  const held_ms = await heldDuring(() => ask(kind, messages, fields));
  // 20 to 35 ms on a quiet machine.
  await expectShortTurn(`${kind}: 31 MB`, held_ms);
});

it("anthropic: a picture of 31 MB in the caller's own block does not block the event loop", { retry: 2 }, async () => {
  const data = "ABCD".repeat(7_750_000);
  const source = { type: "base64", media_type: "image/png", data };
  const fields = { messages: [{ role: "user", content: [{ type: "image", source }] }] };
  const native = { kind: "anthropic" as const, fields: () => fields };
  await ask("anthropic", showing("AAAA")); // loads the SDK
  const provider = createAnthropicProvider(settings);
  const model = modelOf({ kind: "anthropic", provider_model: MODELS.anthropic });
  const call = { model, request: requestOf({ messages: showing(data) }), max_output_tokens: 50, stream: false, native };
  const held_ms = await heldDuring(async () => {
    const options = { signal: new AbortController().signal, deadline_ms: monotonicMs() + 20_000 };
    await expect(provider.complete(await provider.prepare(call), options)).rejects.toMatchObject({
      code: "invalid_value",
    });
  });
  expect(received[0]?.toString()).toContain('"source":{"type":"base64"');
  await expectShortTurn("anthropic, own block: 31 MB", held_ms);
});
