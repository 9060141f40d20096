import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { newApiKey } from "../../src/account/users/tokens.ts";
import { ADMIN_KEY, type Client, type Service, startService } from "../support/service.ts";

let service: Service;
let user: Client;
beforeAll(async () => {
  service = await startService({ env: { PURSER_PUBLIC_URL: "https://purser.example" } });
  user = await service.newUser();
});
afterAll(() => service.stop());

const sockets: ReturnType<typeof connect>[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

const sent = (path: string, body: string) =>
  fetch(`${service.url}${path}`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
const codeOf = async (answer: Response) => [answer.status, (await answer.json()).error.code];

/** The first line of the answer to a request whose body is never sent. */
function answerWithoutBody(path: string): Promise<string> {
  const { hostname, port } = new URL(service.url);
  const socket = connect(Number(port), hostname);
  sockets.push(socket);
  socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n`);
  return new Promise((resolve, reject) => {
    socket.on("error", reject);
    socket.once("data", (bytes) => resolve(String(bytes).split("\r\n")[0] ?? ""));
  });
}

describe("bodies on paths that need no key", () => {
  it.each([
    ["/api/v1/auth/sign-in/email", 16_384],
    ["/api/v1/auth/sign-up/email", 16_384],
    ["/api/v1/api-keys/revoke-leaked", 16_384],
  ])("%s: more than %i bytes are rejected, declared or not", async (path, limit) => {
    const body = JSON.stringify({ email: "x".repeat(limit) });
    expect(await codeOf(await sent(path, body))).toEqual([413, "body_too_large"]);
    const stream = new Blob([body]).stream();
    const headers = { "Content-Type": "application/json" };
    const chunked = await fetch(`${service.url}${path}`, {
      method: "POST",
      headers,
      body: stream,
      duplex: "half",
    } as never);
    expect(await codeOf(chunked)).toEqual([413, "body_too_large"]);
  });

  it("the safety layer's endpoint accepts 1 MB", async () => {
    const content = "x".repeat(1_048_576);
    const { status, body } = await user.post("/api/v1/safety/sanitize", { content, kind: "text" });
    expect([status, body.error.code]).toEqual([413, "body_too_large"]);
  });
});

describe("a costly body", () => {
  const nested = (depth: number) => `{"name":${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}}`;
  const wide = (keys: number) => `{${Array.from({ length: keys }, (_, at) => `"k${at}":1`).join(",")}}`;
  const names = (body: { error: { message: string } }) => body.error.message;

  it("of 65 levels is rejected for its depth; one of 64 is checked by the schema", async () => {
    const deep = await user.post("/api/v1/agents", nested(65));
    expect([deep.status, names(deep.body)]).toEqual([400, expect.stringContaining("64 levels")]);
    expect((await user.post("/api/v1/agents", nested(64))).body.error.code).toBe("invalid_value");
  });

  it("of 10,001 keys is rejected, and of 100,001 keys on model calls", async () => {
    const ordinary = await user.post("/api/v1/agents", wide(10_001));
    expect([ordinary.status, names(ordinary.body)]).toEqual([400, expect.stringContaining("10000 keys")]);
    expect((await user.post("/api/v1/agents", wide(10_000))).body.error.code).not.toBe("invalid_json");
    const model = await user.post("/api/v1/chat/completions", wide(100_001));
    expect([model.status, names(model.body)]).toEqual([400, expect.stringContaining("100000 keys")]);
  });

  it("that is large and no JSON or UTF-8 gets the same error as a small one, without a quote from it", async () => {
    const broken = `{"model": "${"secret ".repeat(100_000)}`;
    const { status, body } = await user.post("/api/v1/chat/completions", broken);
    expect([status, body.error.code]).toEqual([400, "invalid_json"]);
    expect(names(body)).not.toContain("secret");
  });

  it("that is large keeps its Idempotency-Key if only its spaces differ", async () => {
    const large = { name: "Large", auto_route: true, system_prompt: "word ".repeat(19_000) };
    const key = { "Idempotency-Key": "large" };
    const first = await user.post("/api/v1/agents", JSON.stringify(large), key);
    const again = await user.post("/api/v1/agents", JSON.stringify(large, null, 1), key);
    expect([first.status, again.status]).toEqual([201, 201]);
    expect(again.headers.get("Idempotent-Replayed")).toBe("true");
    const other = await user.post("/api/v1/agents", JSON.stringify({ ...large, name: "Other" }), key);
    expect(other.body.error.code).toBe("idempotency_mismatch");
  });
});

describe("the headers of every answer (no other site can frame it, no browser guesses its type)", () => {
  it.each([
    ["GET", "/"],
    ["GET", "/agents"],
    ["GET", "/docs"],
    ["GET", "/openapi.json"],
    ["GET", "/livez"],
    ["GET", "/metrics"],
    ["GET", "/nowhere"],
    ["GET", "/api/v1/nowhere"],
    ["GET", "/api/v1/agents"],
    ["POST", "/api/v1/auth/sign-in"],
    ["GET", "/api/v1/auth/session"],
    ["OPTIONS", "/api/v1/agents"],
  ])("%s %s", async (method, path) => {
    const answer = await fetch(`${service.url}${path}`, { method, headers: { Accept: "text/html" } });
    await answer.arrayBuffer();
    const policy = answer.headers.get("Content-Security-Policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toContain("unsafe");
    expect(answer.headers.get("X-Content-Type-Options")).toBe("nosniff");
    expect(answer.headers.get("Referrer-Policy")).toMatch(/^(no-referrer|same-origin)$/);
  });
});

describe("a flood from one address", () => {
  it("of guessed operator keys gets 429, and the operator is not locked out", async () => {
    const statuses: number[] = [];
    for (let guess = 0; guess < 40; guess += 1) {
      const headers = { Authorization: `Bearer guess-${guess}` };
      statuses.push((await fetch(`${service.url}/api/v1/admin/users`, { headers })).status);
    }
    expect(statuses.slice(0, 20)).toEqual(Array(20).fill(401));
    expect(statuses.slice(20)).toContain(429);
    expect(service.warned("wrong operator keys")).toEqual([{ client_address: "127.0.0.1" }]);
    const headers = { Authorization: `Bearer ${ADMIN_KEY}` };
    expect((await fetch(`${service.url}/api/v1/admin/users`, { headers })).status).toBe(200);
  });

  it.each([
    ["API keys", "invalid_api_key", () => ({ Authorization: `Bearer ${newApiKey("00")}` })],
    [
      "sessions",
      "session_expired",
      () => ({
        Cookie: `__Host-purser_session=${randomBytes(32).toString("base64url")}`,
        Origin: "https://purser.example",
      }),
    ],
  ])("of invented %s gets 429, and valid keys that were never used still work", async (_what, code, invented) => {
    // A new service, because the limit of an address counts both.
    const attacked = await startService({ env: { PURSER_PUBLIC_URL: "https://purser.example" } });
    const real = await attacked.newUser();
    const statuses = new Set<number>();
    let refused: Response | null = null;
    for (let batch = 0; batch < 40 && refused === null; batch += 1) {
      const answers = await Promise.all(
        Array.from({ length: 50 }, () => fetch(`${attacked.url}/api/v1/users/me`, { headers: invented() })),
      );
      for (const answer of answers) statuses.add(answer.status);
      if (batch === 0) expect(await answers[0]?.json()).toMatchObject({ error: { code } });
      refused = answers.find(({ status }) => status === 429) ?? null;
    }
    expect([...statuses]).toEqual([401, 429]);
    expect(refused?.headers.get("Retry-After")).toMatch(/^[1-9]\d*$/);
    expect((await real.get("/api/v1/users/me")).status).toBe(200);
    await attacked.stop();
  });

  it("of sign-in requests gets 429 before a body is read", async () => {
    const path = "/api/v1/auth/sign-out";
    const statuses = new Set<number>();
    for (let batch = 0; batch < 40 && !statuses.has(429); batch += 1) {
      const answers = await Promise.all(Array.from({ length: 20 }, () => sent(path, "{")));
      for (const answer of answers) statuses.add(answer.status);
    }
    expect([...statuses].sort()).toEqual([400, 429]);
    // The bucket refills with five tokens a second, so one of a few requests is always rejected.
    const first = await Promise.any(Array.from({ length: 60 }, () => answerWithoutBody(path)));
    expect(first).toBe("HTTP/1.1 429 Too Many Requests");
  });
});
