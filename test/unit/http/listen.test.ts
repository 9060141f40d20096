import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createRouter } from "../../../src/contract/router.ts";
import { type Listening, listen } from "../../../src/http/listen.ts";

let server: Listening;
beforeAll(async () => {
  const router = createRouter();
  router.post("/", async (c) => c.text(await c.req.text()));
  const limits = { headers_ms: 200, request_ms: 400, check_ms: 50, connections: 3 };
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
  ])("%s is answered 408 and closed", async (_where, sent) => {
    const { socket, received } = opened();
    socket.write(sent);
    await once(socket, "close");
    expect(received()).toMatch(/^HTTP\/1\.1 408 /);
    expect(received()).toContain("Content-Security-Policy: default-src 'none'");
  });

  it("beyond the most that may be open is closed at once", async () => {
    const open = [opened(), opened(), opened()];
    await Promise.all(open.map(({ socket }) => once(socket, "connect")));
    const late = opened();
    await once(late.socket, "close");
    expect(late.received()).toBe("");
    for (const { socket } of open) socket.destroy();
  });
});

describe("a server that stops", () => {
  it("answers the requests on connections that it has not accepted yet", async () => {
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
