import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ADMIN_KEY, type Client, type Service, startService } from "../support/service.ts";

let service: Service;
let user: Client;
beforeAll(async () => {
  service = await startService();
  user = await service.newUser();
});
afterAll(() => service.stop());

const COMPLETION = { model: "purser/rehearsal", messages: [{ role: "user", content: "hi" }] };

describe("a body", () => {
  it.each(["application/json ; charset=utf-8", "application/x2+json", "APPLICATION/JSON;x=y"])(
    "of type %s is read as JSON",
    async (type) => {
      const answer = await user.post("/api/v1/chat/completions", COMPLETION, { "Content-Type": type });
      expect(answer.status).toBe(200);
    },
  );
});

it("the operator's key is accepted only as a bearer key", async () => {
  const status = async (Authorization: string) =>
    (await fetch(`${service.url}/api/v1/admin/users`, { headers: { Authorization } })).status;
  expect(await status(`bearer ${ADMIN_KEY}`)).toBe(200);
  for (const other of [ADMIN_KEY, `Basic ${ADMIN_KEY}`, `Bearer ${ADMIN_KEY} x`, "Bearer "]) {
    expect(await status(other)).toBe(401);
  }
});

describe("a body with very many faults", { retry: 2 }, () => {
  const many = (value: unknown, count = 150_000) => Array.from({ length: count }, () => value);
  it.each<[string, object, string]>([
    ["messages", { messages: many(0) }, "messages"],
    ["parts of a message", { messages: [{ role: "user", content: many(0) }] }, "messages"],
    ["parts of many messages", { messages: many({ role: "user", content: many(0, 150) }, 900) }, "messages"],
    ["tools", { messages: COMPLETION.messages, tools: many(0) }, "tools"],
  ])("is rejected at once: %s", async (_, fields, param) => {
    const started = performance.now();
    const answer = await user.post("/api/v1/chat/completions", { ...COMPLETION, ...fields });
    expect([answer.status, answer.body.error.code, answer.body.error.param]).toEqual([400, "invalid_value", param]);
    expect(performance.now() - started).toBeLessThan(2_000);
  });

  it("is rejected if its lists have too many elements", async () => {
    const { status, body } = await user.post("/api/v1/chat/completions", { ...COMPLETION, messages: many(0, 400_000) });
    expect([status, body.error.code]).toEqual([400, "invalid_json"]);
  });

  it("may have as many list elements as the limit says, and not one more", async () => {
    const codes = [];
    for (const count of [100_000, 100_001]) {
      codes.push((await user.post("/api/v1/agents", { name: "a", other: many(0, count), more: {} })).body.error.code);
    }
    expect(codes).toEqual(["unknown_field", "invalid_json"]);
  });

  it("is rejected at once: scopes of a key", async () => {
    const { status, body } = await user.post("/api/v1/api-keys", { name: "k", scopes: many("chat", 90_000) });
    expect([status, body.error.code, body.error.param]).toEqual([400, "invalid_value", "scopes"]);
  });

  it("names only the first fault, in a short message", async () => {
    const messages = [...many({ role: "user", content: "x" }, 4_999), ...many(0, 5_000)];
    const { status, body } = await user.post("/api/v1/chat/completions", { ...COMPLETION, messages });
    expect([status, body.error.param]).toEqual([400, "messages[4999]"]);
  });
});

describe("a message that is no valid request", () => {
  const send = (text: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const { port } = new URL(service.url);
      const socket = connect(Number(port), "127.0.0.1", () => socket.write(text));
      let answer = "";
      socket.on("data", (bytes) => {
        answer += bytes;
      });
      socket.on("close", () => resolve(answer));
      socket.on("error", reject);
    });

  it.each([
    ["nonsense", "HELLO\r\n\r\n", 400, "malformed_request"],
    [
      "two lengths",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
      400,
      "malformed_request",
    ],
    ["no host", "GET /api/v1/models HTTP/1.1\r\nConnection: close\r\n\r\n", 400, "malformed_request"],
    [
      "headers without end",
      `GET / HTTP/1.1\r\nHost: a\r\nX-Long: ${"x".repeat(40_000)}\r\n\r\n`,
      431,
      "headers_too_large",
    ],
  ])("%s gets an error in the usual shape, and the connection is closed", async (_, text, status, code) => {
    const answer = await send(text);
    const [head = "", body = ""] = answer.split("\r\n\r\n");
    expect(head).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(head).toMatch(/^content-type: application\/json/im);
    const { error } = JSON.parse(body);
    expect(error).toMatchObject({ type: "invalid_request_error", code, param: null });
    expect(head).toContain(`X-Request-Id: ${error.request_id}`);
  });

  it("an HTTP/1.0 request, which has no Host, is answered", async () => {
    expect(await send("GET /readyz HTTP/1.0\r\n\r\n")).toMatch(/^HTTP\/1\.1 200 /);
  });
});
