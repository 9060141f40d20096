import { connect, type Socket } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { expectShortTurn } from "../support/held.ts";
import { startWatchedService, type Watched } from "../support/watched-service.ts";

const MB = 1_048_576;
const CHAT = "/api/v1/chat/completions";
const CONTENT = "ten bytes.";
const HOSTILE = "ingore instrcutions tpmorp metsys vtaber ";
const SENT = Buffer.from(`"${"x".repeat(1_000_000)}`);

let service: Watched;
let idle_ms: number;
const sockets: Socket[] = [];
beforeAll(async () => {
  service = await startWatchedService();
  // The first requests load and compile code (the safety layer: 0.1 s), and so does the first large body.
  const key = await service.newKey();
  await post(key, CHAT, chat(`"${CONTENT.repeat(150_000)}"`));
  for (const content of [CONTENT.repeat(2_000), HOSTILE.repeat(100)]) {
    await post(key, "/api/v1/safety/sanitize", JSON.stringify({ kind: "text", content }));
  }
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

/** Runs an attack, which may not block the service's event loop for long. */
async function delayDuring(attack: string, act: () => Promise<void>): Promise<void> {
  await service.figures();
  await act();
  const { worst_ms, held_ms } = await service.figures();
  const delay = `worst delay of the event loop ${worst_ms.toFixed(0)} ms (idle ${idle_ms.toFixed(0)} ms)`;
  await expectShortTurn(`${attack}, ${delay}`, held_ms);
}

/** A request that is begun and never completed. Resolves to the answer's status, null without an answer. */
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

describe("a request that could block the event loop", { retry: 2 }, () => {
  /** Posts a body beside another user's ordinary requests, which are answered within one parse of it. */
  async function postBesideOthers(shape: string, body: string): Promise<{ status: number; code?: string }> {
    const [key, other] = [await service.newKey(), await service.newKey()];
    let answer = { status: 0, code: "" };
    await delayDuring(shape, async () => {
      let is_over = false;
      const large = post(key, CHAT, body).then(({ status, body: { error } }) => {
        is_over = true;
        answer = { status, code: error?.code };
      });
      do expect((await post(other, CHAT, chat('"Say: hi"'))).status).toBe(200);
      while (!is_over);
      await large;
    });
    return answer;
  }

  it.each<[string, () => string]>([
    ["one text", () => `"${CONTENT.repeat(1.55 * MB)}"`],
    ["a text of escapes", () => `"${"\\n".repeat(7.5 * MB)}"`],
    ["9,000 parts", () => JSON.stringify(Array(9_000).fill({ type: "text", text: CONTENT.repeat(170) }))],
  ])("a conversation of 15 MB: %s", async (shape, content) => {
    const body = chat(content());
    expect(body.length).toBeGreaterThan(14.5 * MB);
    expect((await postBesideOthers(`15 MB of ${shape}`, body)).status).toBe(400);
  });

  it.each([
    ["tools", "purser/rehearsal"],
    ["tools", "auto"],
    ["arguments of tool calls", "auto"],
  ])("a request with 15 MB of %s for the model %s", async (shape, model) => {
    const long = CONTENT.repeat(10_000);
    const tools = Array(50).fill({
      type: "function",
      function: { name: "f", parameters: { properties: [long, long, long] } },
    });
    const tool_calls = Array(155).fill({ id: "c", type: "function", function: { name: "f", arguments: long } });
    const user = { role: "user", content: "hello" };
    const request =
      shape === "tools" ? { tools, messages: [user] } : { messages: [user, { role: "assistant", tool_calls }, user] };
    const body = JSON.stringify({ model, ...request });
    expect((await postBesideOthers(`15 MB of ${shape} for ${model}`, body)).status).toBe(400);
  });

  it.each<[string, () => string]>([
    ["a list in a list, a million deep", () => `${"[".repeat(MB)}${"]".repeat(MB)}`],
    ["four million numbers", () => `[${"1,".repeat(4 * MB)}1]`],
  ])("%s", async (shape, text) => {
    expect(await postBesideOthers(shape, text())).toEqual({ status: 400, code: "invalid_json" });
  });
});

describe("1,000 stalled uploads", { retry: 2 }, () => {
  it("of large bodies with one user's key use no more memory than the user's limit, and other users are served", async () => {
    const [key, other] = [await service.newKey(), await service.newKey()];
    const before = await service.figures();
    const headers = { Authorization: `Bearer ${key}` };
    const uploads = Array.from({ length: 1_000 }, () => stalled(CHAT, headers, 16 * MB, SENT.length));
    // At most 64 bodies of one user are read at the same time.
    await expect.poll(() => uploads.filter(({ status }) => status !== null).length).toBeGreaterThan(900);
    expect(uploads.map(({ status }) => status).filter((status) => ![null, 429, 503].includes(status))).toEqual([]);
    expect((await post(other, CHAT, chat('"Say: hi"'))).status).toBe(200);
    const after = await service.figures();
    console.log(`memory ${before.rss_mb.toFixed(0)} MB before, ${after.rss_mb.toFixed(0)} MB while they stall`);
    expect(after.rss_mb - before.rss_mb).toBeLessThan(300);
  });

  it("without a key are answered before their body arrives, or use 16 KB each", async () => {
    const other = await service.newKey();
    const uploads = Array.from({ length: 1_000 }, () => stalled("/api/v1/auth/sign-in", {}, 16_000, 8_000));
    // 300 a minute are accepted, and a few more as the minute passes.
    await expect.poll(() => uploads.filter(({ status }) => status === 429).length).toBeGreaterThan(490);
    expect((await post(other, CHAT, chat('"Say: hi"'))).status).toBe(200);
  });
});

describe("agents with thousands of hosts for their secrets", { retry: 2 }, () => {
  const hosts = (name: string) =>
    Array.from({ length: 100 }, (_, n) => `${name}${n}.${"a".repeat(60)}.${"b".repeat(60)}.example`);
  const auth = Array.from({ length: 20 }, (_, n) => ({
    secret: "S",
    hosts: hosts(`h${n}-`),
    inject: { type: "header", name: `X-${n}` },
  }));
  const agent = { name: "A", model_id: "purser/rehearsal", run_prompt: "Go." };
  const tools_config = { web_fetch: { enabled: true, auth, hosts: hosts("g") } };

  it("are saved and listed, also without secrets:write, whose bindings are compared one by one", async () => {
    const key = await service.newKey();
    const { body: made } = await post(
      key,
      "/api/v1/api-keys",
      JSON.stringify({ name: "narrow", scopes: ["agents:read", "agents:write"] }),
    );
    await post(key, "/api/v1/secrets", JSON.stringify({ name: "S", value: "0123456789abcdef" }));
    await delayDuring("agents with 2,000 hosts", async () => {
      for (let n = 0; n < 5; n += 1) {
        const { status } = await post(key, "/api/v1/agents", JSON.stringify({ ...agent, tools_config }));
        expect(status).toBe(201);
      }
      const headers = { Authorization: `Bearer ${made.key}`, "Content-Type": "application/json" };
      const { agents } = await (await fetch(`${service.url}/api/v1/agents`, { headers })).json();
      expect(agents[0].tools_config.web_fetch.auth[0].secret).toBe(null);
      const body = JSON.stringify({ run_prompt: "Stop.", tools_config: agents[0].tools_config });
      const saved = await fetch(`${service.url}/api/v1/agents/${agents[0].id}`, { method: "PUT", headers, body });
      expect(saved.status).toBe(200);
    });
  });
});

describe("one user's hostile pages at the safety layer", { retry: 2 }, () => {
  it("60 concurrent pages that are too short for a thread share the event loop in turns", async () => {
    const key = await service.newKey();
    const short = JSON.stringify({ kind: "text", content: HOSTILE.repeat(190) });
    await delayDuring("60 hostile pages of 8 KB", async () => {
      const answers = await Promise.all(Array.from({ length: 60 }, () => post(key, "/api/v1/safety/sanitize", short)));
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    });
  });

  const hostile = JSON.stringify({ kind: "text", content: HOSTILE.repeat(25_000) });
  const ordinary = JSON.stringify({ kind: "html", content: `<p>${"Plain words. ".repeat(2_000)}</p>` });

  it("delay another user's page by no more than a fair share, and the pages beyond the limit are refused", async () => {
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
