import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { openAiEmbeddings } from "../../../src/gateway/models/embeddings.adapter.ts";
import type { Embed } from "../../../src/gateway/models/models.types.ts";
import { monotonicMs } from "../../../src/platform/lib/clock.ts";
import { base64Of } from "../../support/embeddings.ts";
import { expectShortTurn, heldDuring } from "../../support/held.ts";
import { modelOf } from "./model-fixture.ts";

// The largest answer has 2,048 vectors of 3,072 numbers. Reading it must not block the event loop.

const COUNT = 2_048;
const vector = Array.from({ length: 3_072 }, (_, at) => Math.fround(Math.sin(at) / 7));
const inputs = Array<string>(COUNT).fill("a");
const answers: Record<string, Buffer> = {};
let server: Server;
let embed: Embed;
beforeAll(async () => {
  for (const [format, text] of Object.entries({ float: JSON.stringify(vector), base64: `"${base64Of(vector)}"` })) {
    const data = inputs.map((_, index) => `{"object":"embedding","index":${index},"embedding":${text}}`);
    answers[format] = Buffer.from(`{"data":[${data.join(",")}],"usage":{"prompt_tokens":${COUNT}}}`);
  }
  server = createServer(async (request, response) => {
    const path = request.url ?? "";
    for await (const _ of request);
    response.writeHead(200, { "content-type": "application/json" }).end(answers[path.split("/")[1] ?? ""]);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(() => server.close());

it.each([
  ["float", "float"],
  ["base64", "base64"],
  ["float", "base64"],
  ["base64", "float"],
] as const)(
  "vectors that the upstream answers as %s and the caller requests as %s do not block the event loop",
  { retry: 2 },
  async (given, wanted) => {
    const base_url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/${given}`;
    embed = openAiEmbeddings({ base_url, api_key: null });
    const call = { model: modelOf(), encoding_format: wanted, fields: {} };
    const options = { signal: new AbortController().signal, deadline_ms: monotonicMs() + 60_000 };
    let texts: string[] = [];
    const held_ms = await heldDuring(async () => {
      texts = (await embed({ ...call, inputs }, options)).vectors;
    });
    const bytes = (answers[given]?.length ?? 0) / 1e6;
    expect(texts.length).toBe(COUNT);
    expect(texts[COUNT - 1]).toBe(wanted === "float" ? JSON.stringify(vector) : `"${base64Of(vector)}"`);
    await expectShortTurn(`${given} as ${wanted}: ${bytes.toFixed(0)} MB`, held_ms);
  },
);
