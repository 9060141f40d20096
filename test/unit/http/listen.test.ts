import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type Answer, createRouter } from "../../../src/api/contract/endpoint.ts";
import { type Listening, listen } from "../../../src/api/http/listen.ts";
import { createProbesHttp } from "../../../src/api/http/server.ts";
import { UNREAD_LIMITS } from "../../../src/api/http/unread-answers.ts";
import { createLog } from "../../../src/platform/telemetry/log.ts";
import { createMetrics } from "../../../src/platform/telemetry/metrics.ts";

/** A server with one endpoint. */
function serverOf(method: "get" | "post", answer: () => Answer | Promise<Answer>, path = "/") {
  const router = createRouter();
  router.undocumented({ method, path, responses: {} }, answer as never);
  return createProbesHttp({ log: createLog("silent"), metrics: createMetrics() }, router.endpoints);
}
const text = (body: string): Answer => ({ kind: "bytes", status: 200, headers: {}, body });

let server: Listening;
beforeAll(async () => {
  const http = serverOf("post", () => new Promise(() => {}));
  const limits = { headers_ms: 200, request_ms: 400, check_ms: 50, connections: 3 };
  server = await listen(http, { host: "127.0.0.1", port: 0 }, limits);
});
afterAll(() => server.stop());

function opened() {
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  let received = "";
  socket.on("data", (bytes) => {
    received += bytes;
  });
  socket.on("error", () => {});
  return { socket, received: () => received };
}

/** A connection that stays open after its first answer, whose beginning is returned. */
async function asking({ url }: Listening, path = "/") {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  onTestFinished(() => void socket.destroy());
  const ask = async () => {
    socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
    const [bytes] = await Promise.race([once(socket, "data"), once(socket, "close").then(() => [""])]);
    return String(bytes);
  };
  return { socket, ask, answer: await ask() };
}

describe("a connection that stalls", () => {
  it.each([
    ["in its headers", "POST / HTTP/1.1\r\nHost: x\r\n"],
    ["in its body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc"],
  ])("%s gets 408 and is closed", async (_where, sent) => {
    const { socket, received } = opened();
    socket.write(sent);
    await once(socket, "close");
    expect(received()).toMatch(/^HTTP\/1\.1 408 /);
    expect(received()).toContain("Content-Security-Policy: default-src 'none'");
  });

  it("beyond the limit of open connections is closed at once", async () => {
    const open = [opened(), opened(), opened()];
    await Promise.all(open.map(({ socket }) => once(socket, "connect")));
    const late = opened();
    await once(late.socket, "close");
    expect(late.received()).toBe("");
    for (const { socket } of open) socket.destroy();
  });
});

describe("the connections of one address", () => {
  async function serving(trusted_proxies: string[] = []) {
    const address = { host: "127.0.0.1", port: 0, trusted_proxies };
    const limited = await listen(
      serverOf("get", () => text("hello")),
      address,
      { connections_per_address: 3 },
    );
    onTestFinished(() => limited.stop(0));
    return limited;
  }

  it("beyond their limit are answered 429 with Retry-After and closed; the others stay, and a closed one makes room", async () => {
    const limited = await serving();
    const open = [await asking(limited), await asking(limited), await asking(limited)];
    for (const { answer } of open) expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    const { socket, answer } = await asking(limited);
    expect(answer).toMatch(/^HTTP\/1\.1 429 /);
    expect(answer).toMatch(/\r\nRetry-After: \d+\r\n/);
    expect(answer).toContain("\r\nConnection: close\r\n");
    expect(answer).toContain('"code":"rate_limited"');
    if (!socket.closed) await once(socket, "close");
    expect(await open[0]?.ask()).toMatch(/^HTTP\/1\.1 200 /);
    open[1]?.socket.destroy();
    await expect.poll(async () => (await asking(limited)).answer).toMatch(/^HTTP\/1\.1 200 /);
  });

  it("far beyond their limit are closed at once, so that they take no memory", async () => {
    const limited = await serving();
    const { hostname, port } = new URL(limited.url);
    const sockets = Array.from({ length: 150 }, () => connect(Number(port), hostname).on("error", () => {}));
    onTestFinished(() => sockets.forEach((socket) => void socket.destroy()));
    await expect.poll(() => sockets.filter(({ closed }) => closed).length).toBeGreaterThanOrEqual(47);
    expect(sockets.filter(({ closed }) => !closed).length).toBeGreaterThan(0);
  });

  it("of a trusted proxy are those of many callers, and are not limited", async () => {
    const limited = await serving(["127.0.0.0/8"]);
    for (let nth = 0; nth < 10; nth += 1) expect((await asking(limited)).answer).toMatch(/^HTTP\/1\.1 200 /);
  });
});

describe("a server without an application yet", () => {
  it("lives, is not ready, and asks callers to repeat their requests, until it gets one", async () => {
    const starting = await listen(null, { host: "127.0.0.1", port: 0, public_url: "https://purser.example" });
    onTestFinished(() => starting.stop(0));
    const read = async (path: string, method = "GET") => {
      const answer = await fetch(starting.url + path, { method });
      return { status: answer.status, headers: answer.headers, text: await answer.text() };
    };
    expect(await read("/livez?full=1")).toMatchObject({ status: 200, text: '{"status":"ok"}' });
    expect(await read("/readyz")).toMatchObject({ status: 503, text: '{"status":"not ready","reason":"starting"}' });
    for (const [path, method] of [
      ["/", "GET"],
      ["/metrics", "GET"],
      ["/api/v1/chat/completions", "POST"],
    ] as const) {
      const { status, headers, text } = await read(path, method);
      expect([status, JSON.parse(text).error.code]).toEqual([503, "overloaded"]);
      expect(Number(headers.get("Retry-After"))).toBeGreaterThan(0);
      expect(headers.get("Strict-Transport-Security")).toMatch(/^max-age=/);
      expect(headers.get("X-Request-Id")).toBe(JSON.parse(text).error.request_id);
    }
    await starting.serve(serverOf("get", () => text("served"), "/livez"));
    expect((await read("/livez")).text).toBe("served");
  });
});

describe("a large answer that its caller does not read", () => {
  const MB = 1_048_576;
  /** A server with answers of 16 MB, more than the kernel buffers for a connection. */
  async function serving(unread: Partial<typeof UNREAD_LIMITS>) {
    const http = serverOf("get", () => text("x".repeat(16 * MB)));
    const limits = { unread: { ...UNREAD_LIMITS, check_ms: 50, ...unread } };
    const server = await listen(http, { host: "127.0.0.1", port: 0 }, limits);
    onTestFinished(() => server.stop(0));
    return server;
  }
  /** A caller that does not read before `read` is called, and then reads a piece after each pause. */
  async function reading({ url }: Listening) {
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname).pause();
    socket.on("error", () => {});
    socket.write("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    await once(socket, "connect");
    const read = async (pause_ms = 0) => {
      let bytes = 0;
      socket.on("data", (piece) => {
        bytes += piece.length;
        if (pause_ms > 0) socket.pause();
        if (pause_ms > 0) setTimeout(() => socket.resume(), pause_ms);
      });
      if (!socket.closed) await once(socket.resume(), "close");
      return bytes;
    };
    return { read };
  }

  it("is cut when the node's unread answers exceed their limit, the longest waiting ones first", async () => {
    const server = await serving({ bytes: 40 * MB });
    const before: Awaited<ReturnType<typeof reading>>[] = [];
    for (let n = 0; n < 5; n += 1) {
      before.push(await reading(server));
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
    const bytes = await Promise.all(before.map(({ read }) => read()));
    expect(bytes[0]).toBeLessThan(16 * MB);
    expect(bytes.at(-1)).toBeGreaterThan(16 * MB);
  });

  it("is cut when its caller reads nothing for a minute, but not when it reads slowly", async () => {
    const server = await serving({ stalled_ms: 500 });
    const [stalled, slow] = [await reading(server), await reading(server)];
    const whole = await slow.read(5);
    expect(await stalled.read()).toBeLessThan(16 * MB);
    expect(whole).toBeGreaterThan(16 * MB);
  });
});

describe("a server that stops", () => {
  it("answers requests on connections that it has not accepted yet", async () => {
    const http = serverOf("post", () => text("done"));
    const stopping = await listen(http, { host: "127.0.0.1", port: 0 });
    const { hostname, port } = new URL(stopping.url);
    const answers = Array.from({ length: 200 }, async () => {
      const socket = connect(Number(port), hostname);
      let received = "";
      socket.on("data", (bytes) => {
        received += bytes;
      });
      socket.on("error", () => {});
      socket.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
      await once(socket, "connect");
      return { closed: once(socket, "close").then(() => received.slice(0, 15)) };
    });
    const sent = await Promise.all(answers);
    await stopping.stop();
    const heads = await Promise.all(sent.map(({ closed }) => closed));
    expect(heads.filter((head) => head !== "HTTP/1.1 200 OK")).toEqual([]);
  });
});
