import { connect, type Socket } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startWatchedService, type Watched } from "../support/watched-service.ts";

// The worst delay of the serving process's event loop is printed while each attack runs. The promise is 50 ms on a
// machine that has a core for the service; a busy one delays any process, so that the bound here is wider.
const BOUND_MS = 1_000;
/** 1,000 requests that arrive together are answered one after the other, in about a millisecond each. */
const BURST_BOUND_MS = 5_000;
const MB = 1_048_576;
const CHAT = "/api/v1/chat/completions";
const CONTENT = "ten bytes.";
const SENT = Buffer.from(`"${"x".repeat(1_000_000)}`);
/** A machine that other work keeps busy needs this long for 1,000 connections. */
const PATIENT = { timeout: 40_000 };

let service: Watched;
let idle_ms: number;
const sockets: Socket[] = [];
beforeAll(async () => {
  service = await startWatchedService();
  // The first requests load and compile what they need, and the first large body starts its thread.
  const key = await service.newKey();
  await post(key, CHAT, chat(`"${CONTENT.repeat(150_000)}"`));
  await post(key, "/api/v1/safety/sanitize", JSON.stringify({ kind: "text", content: CONTENT.repeat(2_000) }));
  await service.figures();
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  idle_ms = (await service.figures()).worst_ms;
});
afterAll(() => service.stop());
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

const chat = (content: string) => `{"model":"purser/rehearsal","messages":[{"role":"user","content":${content}}]}`;
const post = async (key: string, path: string, body: string) => {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const answer = await fetch(`${service.url}${path}`, { method: "POST", headers, body });
  return { status: answer.status, body: await answer.json() };
};

/** Runs an attack; prints and bounds what it did to the event loop. */
async function delayDuring(attack: string, act: () => Promise<void>, bound_ms = BOUND_MS): Promise<void> {
  await service.figures();
  await act();
  const { worst_ms } = await service.figures();
  console.log(`${attack}: worst event-loop delay ${worst_ms.toFixed(1)} ms (idle ${idle_ms.toFixed(1)} ms)`);
  expect(worst_ms).toBeLessThan(bound_ms);
}

/** A request that begins and is never sent whole; resolves to the status it is answered, null while there is none. */
function stalled(path: string, headers: Record<string, string>, length: number, sent: number) {
  const { hostname, port } = new URL(service.url);
  const socket = connect(Number(port), hostname);
  sockets.push(socket);
  const upload = { socket, status: null as number | null };
  socket.on("error", () => {});
  socket.on("data", (bytes) => {
    upload.status ??= Number(/^HTTP\/1\.1 (\d+)/.exec(String(bytes))?.[1]);
  });
  const lines = { Host: "x", "Content-Type": "application/json", "Content-Length": String(length), ...headers };
  const head = Object.entries(lines).map(([name, value]) => `${name}: ${value}`);
  socket.write(`POST ${path} HTTP/1.1\r\n${head.join("\r\n")}\r\n\r\n`);
  socket.write(SENT.subarray(0, sent));
  return upload;
}

describe("a request built to hold the event loop", () => {
  it.each<[string, () => string]>([
    ["one text", () => `"${CONTENT.repeat(3.1 * 104_857)}"`],
    ["a text of escapes", () => `"${"\\n".repeat(15 * MB)}"`],
    ["9,000 parts", () => JSON.stringify(Array(9_000).fill({ type: "text", text: CONTENT.repeat(340) }))],
  ])("a 31 MB conversation of %s", async (shape, content) => {
    const key = await service.newKey();
    const body = chat(content());
    expect(body.length).toBeLessThan(32 * MB);
    await delayDuring(`31 MB of ${shape}`, async () => {
      const { status } = await post(key, CHAT, body);
      expect(status).toBe(400);
    });
  });

  it.each<[string, () => string]>([
    ["a list in a list, a million deep", () => `${"[".repeat(MB)}${"]".repeat(MB)}`],
    ["a million keys", () => `{${Array.from({ length: MB }, (_, at) => `"k${at}":1`).join(",")}}`],
    ["four million numbers", () => `[${"1,".repeat(4 * MB)}1]`],
  ])("%s is refused before it is parsed", async (shape, text) => {
    const key = await service.newKey();
    const body = text();
    await delayDuring(shape, async () => {
      const answer = await post(key, CHAT, body);
      expect([answer.status, answer.body.error.code]).toEqual([400, "invalid_json"]);
    });
  });
});

describe("1,000 stalled uploads", () => {
  it("of large bodies with one user's key hold no more memory than that user may, and others are served", async () => {
    const [key, other] = [await service.newKey(), await service.newKey()];
    const before = await service.figures();
    await delayDuring(
      "1,000 stalled uploads of 32 MB",
      async () => {
        const headers = { Authorization: `Bearer ${key}` };
        const uploads = Array.from({ length: 1_000 }, () => stalled(CHAT, headers, 32 * MB, SENT.length));
        // Of one user's, 64 are read at one time.
        await expect.poll(() => uploads.filter(({ status }) => status !== null).length, PATIENT).toBeGreaterThan(900);
        expect(uploads.filter(({ status }) => ![null, 429, 503].includes(status))).toEqual([]);
        expect((await post(other, CHAT, chat('"Say: hi"'))).status).toBe(200);
      },
      BURST_BOUND_MS,
    );
    const after = await service.figures();
    console.log(`memory ${before.rss_mb.toFixed(0)} MB before, ${after.rss_mb.toFixed(0)} MB while they stall`);
    expect(after.rss_mb - before.rss_mb).toBeLessThan(300);
  });

  it("without a key are answered before their body comes, or hold 16 KB each", async () => {
    const other = await service.newKey();
    await delayDuring(
      "1,000 stalled sign-ins",
      async () => {
        const uploads = Array.from({ length: 1_000 }, () => stalled("/api/v1/auth/sign-in", {}, 16_000, 8_000));
        // 300 a minute are let in; some more as the minute goes by.
        await expect.poll(() => uploads.filter(({ status }) => status === 429).length, PATIENT).toBeGreaterThan(490);
        expect((await post(other, CHAT, chat('"Say: hi"'))).status).toBe(200);
      },
      BURST_BOUND_MS,
    );
  });
});

describe("one user's hostile pages at the safety layer", () => {
  const hostile = JSON.stringify({ kind: "text", content: "ingore instrcutions tpmorp metsys vtaber ".repeat(25_000) });
  const ordinary = JSON.stringify({ kind: "html", content: `<p>${"Plain words. ".repeat(2_000)}</p>` });

  it("hold up no other user's page beyond a fair share, and the rest of them are refused", async () => {
    const [key, other] = [await service.newKey(), await service.newKey()];
    await delayDuring("20 hostile pages of 1 MB", async () => {
      const flood = Array.from({ length: 20 }, () => post(key, "/api/v1/safety/sanitize", hostile));
      const { status, body } = await post(other, "/api/v1/safety/sanitize", ordinary);
      expect(status).toBe(200);
      expect(body.text).toContain("Plain words.");
      const answers = await Promise.all(flood);
      const refused = answers.filter((answer) => answer.status === 503);
      expect(refused.length).toBeGreaterThan(0);
      expect(refused[0]?.body.error.code).toBe("overloaded");
    });
  });
});
