import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { charges, type Lab, settledBalance, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion, json, type Reply } from "../support/upstream.ts";

// What the three model APIs and a run-now answer to ordinary and to wrong requests, and what they do when callers leave.
const HELLO = [{ role: "user", content: "hello" }];
const ENDPOINTS: [string, Record<string, unknown>][] = [
  ["/api/v1/chat/completions", { messages: HELLO }],
  ["/api/v1/responses", { input: "hello", store: false }],
  ["/api/v1/messages", { messages: HELLO, max_tokens: 50 }],
];
const GRANT = 1_000_000;

let lab: Lab;
let user: Client;
let empty: Client;
let narrow: string;
beforeAll(async () => {
  lab = await startLab();
  user = await lab.service.newUser({ trial: false, tokens: GRANT });
  empty = await lab.service.newUser({ trial: false });
  narrow = (await user.post("/api/v1/api-keys", { name: "n", scopes: ["chat:read"] })).body.key;
});
afterAll(() => lab.stop());
beforeEach(() => lab.upstream.answer(completion()));

type Headers = Record<string, string | string[]>;
interface Sent {
  key?: string;
  body: string | Buffer;
  headers?: Headers;
}

/** Sends one request, and resolves with the status line and headers of its answer. */
async function begin(path: string, { key = user.key, body, headers = {} }: Sent): Promise<IncomingMessage> {
  const { hostname, port } = new URL(lab.service.url);
  const length = headers["transfer-encoding"] === undefined ? { "content-length": Buffer.byteLength(body) } : {};
  const own = { authorization: `Bearer ${key}`, "content-type": "application/json", ...length };
  const call = request({ hostname, port, path, method: "POST", headers: { ...own, ...headers } });
  call.end(body);
  const [answer] = (await once(call, "response")) as [IncomingMessage];
  return answer;
}

/** The answer, read to its end. Its length must be the one that it says. */
async function send(path: string, sent: Sent): Promise<IncomingMessage> {
  const answer = await begin(path, sent);
  let bytes = 0;
  for await (const piece of answer) bytes += piece.length;
  const length = answer.headers["content-length"];
  if (length !== undefined) expect(Number(length)).toBe(bytes);
  return answer;
}

const failing =
  (status: number, headers = {}): Reply =>
  (response) =>
    void response
      .writeHead(status, { "content-type": "application/json", ...headers })
      .end('{"error":{"code":"busy"}}');
const deep = (levels: number) => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;

/** Requests, with the expected status of their answers. */
const CASES: [string, number, (fields: object) => Sent & { reply?: Reply }][] = [
  ["a call", 200, (fields) => ({ body: JSON.stringify(fields) })],
  ["a stream", 200, (fields) => ({ body: JSON.stringify({ ...fields, stream: true }) })],
  [
    "a key in x-api-key",
    200,
    (fields) => ({ body: JSON.stringify(fields), headers: { authorization: "", "x-api-key": user.key } }),
  ],
  [
    "a type with a charset",
    200,
    (fields) => ({ body: JSON.stringify(fields), headers: { "content-type": "application/json; charset=utf-8" } }),
  ],
  ["an id of the caller", 200, (fields) => ({ body: JSON.stringify(fields), headers: { "x-request-id": "mine" } })],
  ["no JSON", 400, () => ({ body: "{not json" })],
  ["no UTF-8", 400, () => ({ body: Buffer.from([0x22, 0xff, 0x22]) })],
  ["spaces only", 400, () => ({ body: "  \n" })],
  ["no object", 400, () => ({ body: "[1]" })],
  ["too many levels", 400, () => ({ body: deep(65) })],
  [
    "too many fields",
    400,
    () => ({ body: JSON.stringify(Object.fromEntries([...Array(201).keys()].map((at) => [`f${at}`, 1]))) }),
  ],
  [
    "a wrong value in a long list",
    400,
    (fields) => ({
      body: JSON.stringify({
        ...fields,
        messages: [...Array(40).fill(HELLO[0]), 7],
        input: [...Array(40).fill(HELLO[0]), 7],
      }),
    }),
  ],
  ["no model", 400, (fields) => ({ body: JSON.stringify({ ...fields, model: undefined }) })],
  ["an unknown model", 404, (fields) => ({ body: JSON.stringify({ ...fields, model: "lab/none" }) })],
  ["a key that does not exist", 401, (fields) => ({ key: "nonsense", body: JSON.stringify(fields) })],
  ["a key without the scope", 403, (fields) => ({ key: narrow, body: JSON.stringify(fields) })],
  ["an empty account", 402, (fields) => ({ key: empty.key, body: JSON.stringify(fields) })],
  ["another type", 415, (fields) => ({ body: JSON.stringify(fields), headers: { "content-type": "text/plain" } })],
  [
    "a body in chunks",
    200,
    (fields) => ({ body: JSON.stringify(fields), headers: { "transfer-encoding": "chunked" } }),
  ],
  ["a provider that fails", 502, (fields) => ({ body: JSON.stringify(fields), reply: failing(500) })],
  [
    "a provider at its limit",
    502,
    (fields) => ({ body: JSON.stringify(fields), reply: failing(429, { "retry-after": "7" }) }),
  ],
  ["a provider without an answer", 502, (fields) => ({ body: JSON.stringify(fields), reply: json({}) })],
  [
    "a stream that fails at once",
    502,
    (fields) => ({ body: JSON.stringify({ ...fields, stream: true }), reply: failing(500) }),
  ],
];

const nameOf = (path: string) => path.replaceAll(/\W/g, "-");

describe.each(ENDPOINTS)("%s", (path, fields) => {
  it.each(CASES)("%s gets %i", async (_name, status, caseOf) => {
    const { reply, ...sent } = caseOf({ model: "lab/plain", ...fields });
    if (reply !== undefined) lab.upstream.answer(reply);
    expect((await send(path, sent)).statusCode).toBe(status);
  });

  describe("a request", () => {
    const body = (more: object = {}) => JSON.stringify({ model: "lab/plain", ...fields, ...more });

    it("a call is charged once, and logged with its route, model and cost", async () => {
      const caller = await lab.service.newUser({ trial: false, tokens: GRANT });
      const headers = { "x-request-id": `logged-${nameOf(path)}` };
      const answer = await send(path, { key: caller.key, body: body(), headers });
      expect(answer.statusCode).toBe(200);
      expect(await settledBalance(caller)).toBe(GRANT - 18);
      expect(await charges(caller)).toMatchObject([
        { amount: -18, model: "lab/plain", request_id: headers["x-request-id"] },
      ]);
      const lines = lab.service.noted("request").filter(({ request_id }) => request_id === headers["x-request-id"]);
      expect(lines).toMatchObject([
        { method: "POST", route: path, status: 200, user_id: caller.user_id, model: "lab/plain", cost_tokens: 18 },
      ]);
    });

    it("a caller that disconnects from a stream ends the provider's answer", async () => {
      const before = lab.upstream.hangUps;
      lab.upstream.answer((response) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.write('data: {"id":"x","created":1,"choices":[{"index":0,"delta":{"content":"one"}}]}\n\n');
      });
      const answer = await begin(path, { body: body({ stream: true }) });
      await once(answer, "data");
      answer.destroy();
      await lab.upstream.until(() => lab.upstream.hangUps === before + 1);
    });

    it("a revoked key ends a running stream with an error event", async () => {
      const { body: made } = await user.post("/api/v1/api-keys", { name: "short", scopes: ["chat:write"] });
      lab.upstream.answer((response) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.write('data: {"id":"x","created":1,"choices":[{"index":0,"delta":{"content":"one"}}]}\n\n');
      });
      const answer = await begin(path, { key: made.key, body: body({ stream: true }) });
      let text = "";
      answer.on("data", (piece) => {
        text += piece;
      });
      await once(answer, "data");
      await user.request("DELETE", `/api/v1/api-keys/${made.id}`);
      await once(answer, "end");
      expect(text).toMatch(/revoked_api_key|authentication_error/);
    });

    it("a key that is revoked between a request's headers and its body gets no answer", async () => {
      const { body: made } = await user.post("/api/v1/api-keys", { name: "short", scopes: ["chat:write"] });
      const { hostname, port } = new URL(lab.service.url);
      const text = body();
      const headers = {
        authorization: `Bearer ${made.key}`,
        "content-type": "application/json",
        "content-length": Buffer.byteLength(text),
      };
      const call = request({ hostname, port, path: path, method: "POST", headers });
      const answered = once(call, "response") as Promise<[IncomingMessage]>;
      call.flushHeaders();
      await once(call, "socket");
      await send(path, { key: made.key, body: text });
      await user.request("DELETE", `/api/v1/api-keys/${made.id}`);
      await expect.poll(async () => (await send(path, { key: made.key, body: text })).statusCode).toBe(401);
      const sent = lab.upstream.requests.length;
      call.end(text);
      const [answer] = await answered;
      answer.resume();
      expect(answer.statusCode).toBe(401);
      expect(lab.upstream.requests.length).toBe(sent);
    });

    it("an incomplete body reaches no provider", async () => {
      const sent = lab.upstream.requests.length;
      const { hostname, port } = new URL(lab.service.url);
      const headers = {
        authorization: `Bearer ${user.key}`,
        "content-type": "application/json",
        "content-length": 100,
      };
      const headersOf = { ...headers, "x-request-id": `cut-${nameOf(path)}` };
      const call = request({ hostname, port, path: path, method: "POST", headers: headersOf });
      call.on("error", () => {});
      call.write("{");
      await once(call, "socket");
      await send(path, { body: body() });
      call.destroy();
      await expect
        .poll(() => lab.service.noted("request").find(({ request_id }) => request_id === headersOf["x-request-id"]))
        .toMatchObject({ status: 408 });
      expect(lab.upstream.requests.length).toBe(sent + 1);
    });
  });
});

describe("/api/v1/agents/{id}/runs", () => {
  let id: string;
  let disabled: string;
  const pathOf = (agent_id: string) => `/api/v1/agents/${agent_id}/runs`;
  beforeAll(async () => {
    const agent = { name: "a", model_id: "lab/plain", run_prompt: "hello" };
    id = (await user.post("/api/v1/agents", agent)).body.id;
    disabled = (await user.post("/api/v1/agents", { ...agent, name: "b", is_active: false })).body.id;
  });
  const WAIT = { prefer: "wait=30" };

  it.each<[string, number, () => Sent & { agent_id?: string }]>([
    ["a run", 202, () => ({ body: "{}" })],
    ["a run that the caller waits for", 200, () => ({ body: "{}", headers: WAIT })],
    ["an agent that does not exist", 404, () => ({ body: "{}", agent_id: "0190aaaa-0000-7000-8000-000000000000" })],
    ["an id in another form", 404, () => ({ body: "{}", agent_id: "nonsense" })],
    ["a disabled agent", 409, () => ({ body: "{}", agent_id: disabled })],
    ["another user's agent", 404, () => ({ body: "{}", key: empty.key })],
    ["a key without the scope", 403, () => ({ body: "{}", key: narrow })],
    ["an unknown field", 400, () => ({ body: '{"a":1}' })],
    ["no JSON", 400, () => ({ body: "{not json" })],
    ["a long body", 400, () => ({ body: JSON.stringify({ a: "a".repeat(100) }) })],
  ])("%s gets %i", async (_name, status, caseOf) => {
    const { agent_id = id, ...sent } = caseOf();
    const answer = await send(pathOf(agent_id), sent);
    if (answer.headers.location !== undefined) {
      expect(answer.headers.location).toMatch(new RegExp(`^${pathOf(agent_id)}/[0-9a-f-]{36}$`));
    }
    expect(answer.statusCode).toBe(status);
  });

  it("a run is logged with its route", async () => {
    const headers = { ...WAIT, "x-request-id": "logged-run" };
    await send(pathOf(id), { body: "{}", headers });
    const lines = lab.service.noted("request").filter(({ request_id }) => request_id === "logged-run");
    expect(lines).toMatchObject([
      { method: "POST", route: "/api/v1/agents/{id}/runs", status: 200, user_id: user.user_id },
    ]);
  });
});
