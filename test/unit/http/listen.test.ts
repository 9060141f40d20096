import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { createRouter } from "../../../src/contract/router.ts";
import { type Listening, listen } from "../../../src/http/listen.ts";
import { UNREAD_LIMITS } from "../../../src/http/unread-answers.ts";

let server: Listening;
beforeAll(async () => {
  const router = createRouter();
  router.post("/", async (c) => c.text(await c.req.text()));
  const unread = UNREAD_LIMITS;
  const limits = { headers_ms: 200, request_ms: 400, check_ms: 50, connections: 3, unread };
  server = await listen(router, { host: "127.0.0.1", port: 0 }, limits);
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

describe("a large answer that its caller does not read", () => {
  const MB = 1_048_576;
  const LIMITS = { headers_ms: 10_000, request_ms: 60_000, check_ms: 1_000, connections: 100 };
  /** A server with answers of 16 MB, more than the kernel buffers for a connection. */
  async function serving(unread: Partial<typeof UNREAD_LIMITS>) {
    const router = createRouter();
    router.get("/", (c) => c.text("x".repeat(16 * MB)));
    const limits = { ...LIMITS, unread: { ...UNREAD_LIMITS, check_ms: 50, ...unread } };
    const server = await listen(router, { host: "127.0.0.1", port: 0 }, limits);
    onTestFinished(() => server.stop(0));
    return server;
  }
  /** A caller that does not read before `read` is called, and then reads a piece after each pause. */
  async function asking({ url }: Listening) {
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
    const before: Awaited<ReturnType<typeof asking>>[] = [];
    for (let n = 0; n < 5; n += 1) {
      before.push(await asking(server));
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
    const bytes = await Promise.all(before.map(({ read }) => read()));
    expect(bytes[0]).toBeLessThan(16 * MB);
    expect(bytes.at(-1)).toBeGreaterThan(16 * MB);
  });

  it("is cut when its caller reads nothing for a minute, but not when it reads slowly", async () => {
    const server = await serving({ stalled_ms: 500 });
    const [stalled, slow] = [await asking(server), await asking(server)];
    const whole = await slow.read(5);
    expect(await stalled.read()).toBeLessThan(16 * MB);
    expect(whole).toBeGreaterThan(16 * MB);
  });
});

describe("a server that stops", () => {
  it("answers requests on connections that it has not accepted yet", async () => {
    const router = createRouter();
    router.post("/", (c) => c.text("done"));
    const stopping = await listen(router, { host: "127.0.0.1", port: 0 });
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
