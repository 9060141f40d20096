import { get } from "node:http";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { acceptedEncoding } from "../../src/api/http/write-answer.ts";
import { type Client, type Service, startService } from "../support/service.ts";

let service: Service;
let user: Client;
beforeAll(async () => {
  service = await startService();
  user = await service.newUser();
});
afterAll(() => service.stop());

/** The answer as it was sent, without decompression. */
function raw(path: string, encoding: string) {
  const headers = { Authorization: `Bearer ${user.key}`, "Accept-Encoding": encoding };
  return new Promise<{ encoding: string | undefined; vary: string | undefined; body: Buffer }>((resolve, reject) => {
    get(`${service.url}${path}`, { headers }, async (response) => {
      const body = Buffer.concat(await response.toArray());
      resolve({ encoding: response.headers["content-encoding"], vary: response.headers.vary, body });
    }).on("error", reject);
  });
}

describe("compression", () => {
  it("a long JSON answer is compressed as the client accepts it, and has the same content", async () => {
    const plain = await raw("/api/v1/users/me/usage?days=90", "identity");
    const brotli = await raw("/api/v1/users/me/usage?days=90", "gzip, br");
    const gzip = await raw("/api/v1/users/me/usage?days=90", "gzip;q=0.5, br;q=0");
    expect([plain.encoding, brotli.encoding, gzip.encoding]).toEqual([undefined, "br", "gzip"]);
    expect([plain.vary, brotli.vary]).toEqual(["Accept-Encoding", "Accept-Encoding"]);
    expect(brotliDecompressSync(brotli.body)).toEqual(plain.body);
    expect(gunzipSync(gzip.body)).toEqual(plain.body);
    expect(brotli.body.length).toBeLessThan(plain.body.length / 5);
  });

  it("a short answer is not compressed", async () => {
    const { encoding, body } = await raw("/api/v1/users/me", "br");
    expect(encoding).toBeUndefined();
    expect(JSON.parse(body.toString()).id).toBe(user.user_id);
  });

  it("an event stream is never compressed: each event arrives when it is sent", async () => {
    const agent = await user.post("/api/v1/agents", { name: "A", model_id: "purser/rehearsal", run_prompt: "Say: hi" });
    const run = await user.post(`/api/v1/agents/${agent.body.id}/runs`, undefined, { Prefer: "wait=20" });
    const events = await raw(`/api/v1/agents/${agent.body.id}/runs/${run.body.id}/events`, "br, gzip");
    expect(events.encoding).toBeUndefined();
    expect(events.body.toString()).toContain("event: run.finished");
  });

  it.each([
    [undefined, null],
    ["", null],
    ["identity", null],
    ["gzip", "gzip"],
    ["GZIP, deflate, BR", "br"],
    ["br;q=0, gzip;q=0.0", null],
    ["br;q=nonsense", null],
    [`${"x,".repeat(10_000)}br`, null],
  ])("Accept-Encoding %s: %s", (header, wanted) => {
    expect(acceptedEncoding(header)).toBe(wanted);
  });
});
