import { randomBytes } from "node:crypto";
import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createIdempotencyStore } from "../../src/api/http/idempotency.store.ts";
import { createCipher } from "../../src/platform/lib/cipher.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase } from "../support/database.ts";
import { openStream } from "../support/event-stream.ts";
import { ask, charges, expectCleanAudit, type Lab, settledBalance, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { storedBytes } from "../support/snapshot.ts";
import { completion, delta, event, events, hanging, json } from "../support/upstream.ts";

const CHAT = "/api/v1/chat/completions";
const GRANT = 1_000_000;
const ended_chunk = event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
const withKey = (key: string) => ({ "Idempotency-Key": key });

let lab: Lab;
let user: Client;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab.stop());
beforeEach(async () => {
  lab.upstream.answer(completion());
  user = await lab.service.newUser({ trial: false, tokens: GRANT });
});

describe("Idempotency-Key (contract 2)", () => {
  it("replays the first answer to the same key and body, and charges once", async () => {
    const asked = lab.upstream.requests.length;
    const first = await user.post(CHAT, ask("lab/plain"), withKey("order 1"));
    const second = await user.post(CHAT, ask("lab/plain"), withKey("order 1"));
    expect(first.headers.get("idempotent-replayed")).toBeNull();
    expect(second.headers.get("idempotent-replayed")).toBe("true");
    expect([second.status, second.body]).toEqual([first.status, first.body]);
    expect(lab.upstream.requests).toHaveLength(asked + 1);
    expect(await charges(user)).toHaveLength(1);
  });

  it("replays a streamed answer with the same bytes", async () => {
    const first = await user.post(CHAT, ask("lab/plain", { stream: true }), withKey("s"));
    const second = await user.post(CHAT, ask("lab/plain", { stream: true }), withKey("s"));
    expect(first.body).toContain("data: [DONE]");
    expect(second.body).toBe(first.body);
    expect(second.headers.get("content-type")).toBe(first.headers.get("content-type"));
    expect(second.headers.get("idempotent-replayed")).toBe("true");
    expect(await settledBalance(user)).toBe(GRANT - 18);
  });

  it("replays 201 with its body, which shows the same new key", async () => {
    const first = await user.post("/api/v1/api-keys", { name: "once" }, withKey("k"));
    const second = await user.post("/api/v1/api-keys", { name: "once" }, withKey("k"));
    expect([first.status, second.status]).toEqual([201, 201]);
    expect(second.body).toEqual(first.body);
    expect((await user.get("/api/v1/api-keys")).body.api_keys).toHaveLength(2);
  });

  it("keeps no error of a request that did nothing: with what was missing, the same request succeeds", async () => {
    const auth = [{ secret: "later", hosts: ["api.example.com"], inject: { type: "bearer" } }];
    const agent = { name: "a", auto_route: true, tools_config: { web_fetch: { enabled: true, auth } } };
    expect((await user.post("/api/v1/agents", agent, withKey("r"))).status).toBe(400);
    await user.post("/api/v1/secrets", { name: "later", value: "a-long-enough-value" });
    expect((await user.post("/api/v1/agents", agent, withKey("r"))).status).toBe(201);
  });

  it("is 422 with another body or another path", async () => {
    await user.post(CHAT, ask("lab/plain"), withKey("x"));
    const other = await user.post(CHAT, ask("lab/plain", { seed: 1 }), withKey("x"));
    expect([other.status, other.body.error.code]).toEqual([422, "idempotency_mismatch"]);
    const elsewhere = await user.post("/api/v1/api-keys", ask("lab/plain"), withKey("x"));
    expect([elsewhere.status, elsewhere.body.error.code]).toEqual([422, "idempotency_mismatch"]);
    expect(await charges(user)).toHaveLength(1);
  });

  it("is 409 while the first is still running, also while it streams, and replays after", async () => {
    let finish = () => {};
    const asked = lab.upstream.requests.length;
    lab.upstream.answer(async (response, request) => {
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      await completion()(response, request);
    });
    const first = user.post(CHAT, ask("lab/plain"), withKey("slow"));
    await lab.upstream.until(() => lab.upstream.requests.length === asked + 1);
    const second = await user.post(CHAT, ask("lab/plain"), withKey("slow"));
    expect([second.status, second.body.error.code]).toEqual([409, "idempotency_in_flight"]);
    finish();
    expect((await first).status).toBe(200);
    const third = await user.post(CHAT, ask("lab/plain"), withKey("slow"));
    expect(third.headers.get("idempotent-replayed")).toBe("true");

    lab.upstream.answer(hanging(delta("one ")));
    const stream = await openStream(lab.service, user, ask("lab/plain"), withKey("streaming"));
    await stream.next();
    const meanwhile = await user.post(CHAT, ask("lab/plain", { stream: true }), withKey("streaming"));
    expect([meanwhile.status, meanwhile.body.error?.code]).toEqual([409, "idempotency_in_flight"]);
    stream.hangUp();
    await settledBalance(user);
  });

  it("in twenty concurrent requests makes one charge: the others get 409 or the same answer", async () => {
    const body = ask("lab/plain");
    const answers = await Promise.all(Array.from({ length: 20 }, () => user.post(CHAT, body, withKey("race"))));
    const firsts = answers.filter(({ status, headers }) => status === 200 && !headers.has("idempotent-replayed"));
    expect(firsts).toHaveLength(1);
    for (const { status, body } of answers) {
      if (status === 200) expect(body).toEqual(firsts[0]?.body);
      else expect([status, body.error.code]).toEqual([409, "idempotency_in_flight"]);
    }
    expect(await settledBalance(user)).toBe(GRANT - 18);
    await expectCleanAudit(lab.service);
  });

  it("accepts the same request with other spaces and another order of fields", async () => {
    const first = await user.post(
      CHAT,
      '{"model":"lab/plain","messages":[{"role":"user","content":"a"}]}',
      withKey("o"),
    );
    const body = '{ "messages": [{ "content": "a", "role": "user" }],\n "model": "lab/plain" }';
    const second = await user.post(CHAT, body, withKey("o"));
    expect([second.status, second.headers.get("idempotent-replayed")]).toEqual([200, "true"]);
    expect(second.body).toEqual(first.body);
    const other = await user.post(CHAT, body.replace('"a"', '"b"'), withKey("o"));
    expect(other.status).toBe(422);
  });

  it("with a body that nests too deeply is rejected like a request without a key", async () => {
    const deep = `{"name":${"[".repeat(100_000)}${"]".repeat(100_000)}}`;
    const { status, body } = await user.post("/api/v1/api-keys", deep, withKey("deep"));
    expect([status, body.error.code]).toEqual([400, "invalid_json"]);
  });

  it("belongs to its user: the same key of another user is another request", async () => {
    const other = await lab.service.newUser({ trial: false, tokens: GRANT });
    await user.post(CHAT, ask("lab/plain"), withKey("shared"));
    const theirs = await other.post(CHAT, ask("lab/plain", { seed: 5 }), withKey("shared"));
    expect([theirs.status, theirs.headers.get("idempotent-replayed")]).toEqual([200, null]);
    expect(await charges(other)).toHaveLength(1);
  });

  it("can be used again after a failure without an effect: 402, or an upstream's", async () => {
    const poor = await lab.service.newUser({ trial: false });
    expect((await poor.post(CHAT, ask("lab/plain"), withKey("k"))).status).toBe(402);
    const grant = { amount_tokens: 100_000, source: "top_up" };
    await lab.service.admin.post(`/api/v1/admin/users/${poor.user_id}/grants`, grant);
    expect((await poor.post(CHAT, ask("lab/plain"), withKey("k"))).status).toBe(200);
    lab.upstream.answer(json({}, 500), completion());
    expect((await user.post(CHAT, ask("lab/plain"), withKey("u"))).status).toBe(502);
    expect((await user.post(CHAT, ask("lab/plain"), withKey("u"))).status).toBe(200);
  });

  it("gets the answer for a caller whose connection broke before the answer", async () => {
    let finish = () => {};
    const asked = lab.upstream.requests.length;
    lab.upstream.answer(async (response, request) => {
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      await completion()(response, request);
    });
    const connection = new AbortController();
    const call = fetch(`${lab.service.url}${CHAT}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${user.key}`, "Content-Type": "application/json", ...withKey("lost") },
      body: JSON.stringify(ask("lab/plain")),
      signal: connection.signal,
    }).catch((error: Error) => error.name);
    await lab.upstream.until(() => lab.upstream.requests.length === asked + 1);
    connection.abort();
    expect(await call).toBe("AbortError");
    finish();
    const retry = () => user.post(CHAT, ask("lab/plain"), withKey("lost"));
    await expect.poll(async () => (await retry()).status).toBe(200);
    expect((await retry()).headers.get("idempotent-replayed")).toBe("true");
    expect(await settledBalance(user)).toBe(GRANT - 18);
  });

  it("of a cancelled stream replays the output so far, ends with an error, and charges nothing more", async () => {
    lab.upstream.answer(hanging(delta("twelve bytes")));
    const stream = await openStream(lab.service, user, ask("lab/plain"), withKey("left"));
    const came = await stream.next();
    stream.hangUp();
    expect(await settledBalance(user)).toBe(GRANT - 8);
    const retry = () => user.post(CHAT, ask("lab/plain", { stream: true }), withKey("left"));
    await expect.poll(async () => (await retry()).status).toBe(200);
    const { body } = await retry();
    expect(body).toMatch(`data: ${came}\n\ndata: {"error":`);
    const client = new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
    const again = await client.chat.completions.create({ ...ask("lab/plain"), stream: true } as never, {
      headers: withKey("left"),
    });
    await expect(Array.fromAsync(again as never)).rejects.toThrow("hung up");
    expect(await settledBalance(user)).toBe(GRANT - 8);
  });

  it.each([
    ["/api/v1/responses", { model: "lab/plain", input: "hello" }, "event: response.failed"],
    ["/api/v1/messages", { ...ask("lab/plain"), max_tokens: 100 }, "event: error"],
  ])("of a cancelled stream of %s ends in this API's shape", async (path, asked, last) => {
    lab.upstream.answer(hanging(delta("twelve bytes")));
    const connection = new AbortController();
    const left = await fetch(lab.service.url + path, {
      method: "POST",
      headers: { Authorization: `Bearer ${user.key}`, "Content-Type": "application/json", ...withKey("shape") },
      body: JSON.stringify({ ...asked, stream: true }),
      signal: connection.signal,
    });
    await left.body?.getReader().read();
    connection.abort();
    const retry = () => user.post(path, { ...asked, stream: true }, withKey("shape"));
    await expect.poll(async () => (await retry()).status).toBe(200);
    const { body } = await retry();
    expect(body).toContain("twelve bytes");
    expect(body.trimEnd().split("\n\n").at(-1)).toContain(last);
  });

  it("of a stream that was cancelled after its end replays the whole stream", async () => {
    const end = ["data: [DONE]\n\n", delta("unread")];
    lab.upstream.answer(hanging(delta("twelve bytes"), ended_chunk, ...end));
    const stream = await openStream(lab.service, user, ask("lab/plain"), withKey("read"));
    for (let came = await stream.next(); came !== "[DONE]"; came = await stream.next());
    stream.hangUp();
    const retry = () => user.post(CHAT, ask("lab/plain", { stream: true }), withKey("read"));
    await expect.poll(async () => (await retry()).status).toBe(200);
    expect((await retry()).body.trimEnd().endsWith("data: [DONE]")).toBe(true);
  });

  it("can be used again if the caller disconnected before the stream began: the retry gets an answer", async () => {
    const asked = lab.upstream.requests.length;
    lab.upstream.answer(() => {});
    const connection = new AbortController();
    const opened = fetch(`${lab.service.url}${CHAT}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${user.key}`, "Content-Type": "application/json", ...withKey("gone") },
      body: JSON.stringify(ask("lab/plain", { stream: true })),
      signal: connection.signal,
    }).catch((error: Error) => error.name);
    await lab.upstream.until(() => lab.upstream.requests.length === asked + 1);
    connection.abort();
    expect(await opened).toBe("AbortError");
    await settledBalance(user);
    lab.upstream.answer(completion());
    const retry = () => user.post(CHAT, ask("lab/plain", { stream: true }), withKey("gone"));
    await expect.poll(async () => (await retry()).body).toContain("[DONE]");
  });

  it("works for a stream with an event that is no chunk: it is answered, charged and replayed", async () => {
    lab.upstream.answer(events(delta("twelve bytes"), "data: [null]\n\n", ended_chunk, "data: [DONE]\n\n"));
    const ask_it = () => user.post(CHAT, ask("lab/plain", { stream: true }), withKey("list"));
    const first = await ask_it();
    expect([first.status, first.body.includes("data: [DONE]")]).toEqual([200, true]);
    expect((await ask_it()).body).toBe(first.body);
    expect(await settledBalance(user)).toBe(GRANT - 8);
  });

  it("can be used again after a 403, because the error asks for a top-up", async () => {
    const trying = await lab.service.newUser({ trial: true });
    expect((await trying.post(CHAT, ask("lab/vendor/deep:v1"), withKey("t"))).status).toBe(403);
    const grant = { amount_tokens: 100_000, source: "top_up" };
    await lab.service.admin.post(`/api/v1/admin/users/${trying.user_id}/grants`, grant);
    expect((await trying.post(CHAT, ask("lab/vendor/deep:v1"), withKey("t"))).status).toBe(200);
  });

  it("replays nothing to a key with other scopes, which could not send this request", async () => {
    const { body: lesser } = await user.post("/api/v1/api-keys", { name: "lesser", scopes: ["chat:write"] });
    await user.post("/api/v1/api-keys", { name: "new" }, withKey("mint"));
    const stolen = await lab.service.as(lesser.key).post("/api/v1/api-keys", { name: "new" }, withKey("mint"));
    expect([stolen.status, stolen.body.key]).toEqual([422, undefined]);
  });

  it("replays nothing to another key with the same scopes, which would avoid its budget", async () => {
    const { body: budgeted } = await user.post("/api/v1/api-keys", { name: "budgeted", budget_tokens: 1 });
    await user.post("/api/v1/api-keys", { name: "new" }, withKey("mint"));
    const stolen = await lab.service.as(budgeted.key).post("/api/v1/api-keys", { name: "new" }, withKey("mint"));
    expect([stolen.status, stolen.body.key]).toEqual([422, undefined]);
  });

  it("works for the operator's grants: a retry grants once", async () => {
    const path = `/api/v1/admin/users/${user.user_id}/grants`;
    const grant = { amount_tokens: 5, source: "bonus" };
    const first = await lab.service.admin.post(path, grant, withKey("g"));
    const second = await lab.service.admin.post(path, grant, withKey("g"));
    expect(second.body).toEqual(first.body);
    expect((await user.get("/api/v1/users/me")).body.token_balance).toBe(GRANT + 5);
  });

  it.each([
    ["empty", " "],
    ["256 characters", "x".repeat(256)],
    ["not ASCII", "ké"],
  ])("that is %s is rejected and nothing is done", async (_, key) => {
    const { status, body } = await user.post(CHAT, ask("lab/plain"), withKey(key));
    expect([status, body.error?.code, body.error?.param]).toEqual([400, "invalid_value", "Idempotency-Key"]);
    expect(await charges(user)).toEqual([]);
  });

  it("of 255 characters is accepted", async () => {
    expect((await user.post(CHAT, ask("lab/plain"), withKey("x".repeat(255)))).status).toBe(200);
  });
});

describe("the day for which an answer is kept", () => {
  it("is the domain's: the answer expires after 24 hours on the test clock, but the lease of a running request does not", async () => {
    const database = await createTestDatabase();
    const db = await database.open();
    let now = "2026-03-01T12:00:00.000Z";
    const cipher = createCipher(randomBytes(32), "idempotency");
    const store = createIdempotencyStore({ db, clock: { now: () => now }, cipher });
    const keyed = { user_id: newId(), key: "daily" };
    const claim = async (request = "a") => (await store.claim({ ...keyed, request: Buffer.from(request) })).state;
    expect(await claim()).toBe("first");
    now = "2026-03-02T11:59:59.999Z";
    expect(await claim()).toBe("in_flight");
    const answer = { status: 200, headers: {}, body: Buffer.from("{}") };
    await store.answer(keyed, answer, { about_user_id: null, cost_nothing: false });
    await store.sweep();
    expect([await claim(), await claim("b")]).toEqual(["answered", "mismatch"]);
    now = "2026-03-02T12:00:00.001Z";
    expect(await claim("b")).toBe("first");
    await db.close();
    await database.drop();
  });
});

describe("an operator's answer about a user", () => {
  it("is erased with the user: a retry gets neither address nor key, and creates no user", async () => {
    const named = (await lab.service.admin.post("/api/v1/admin/keys", { name: "support desk", role: "admin" })).body
      .key;
    const desk = lab.service.as(named);
    const create = (email: string) => desk.post("/api/v1/admin/users", { email }, withKey(email));
    const erased = await create("to-be-erased@example.com");
    const kept = await create("kept@example.com");
    const { id } = erased.body.user;
    const suspend = () =>
      lab.service.admin.post(`/api/v1/admin/users/${id.toUpperCase()}/suspend`, {}, withKey("suspend"));
    expect((await suspend()).body.email).toBe("to-be-erased@example.com");
    expect((await create("to-be-erased@example.com")).body, "until the user is erased").toEqual(erased.body);
    await lab.service.admin.request("DELETE", `/api/v1/admin/users/${id.toUpperCase()}`);
    for (const retry of [() => create("to-be-erased@example.com"), suspend]) {
      const { status, body } = await retry();
      expect([status, body.error.code]).toEqual([404, "not_found"]);
    }
    expect((await lab.service.admin.get("/api/v1/admin/users?search=to-be-erased")).body.users).toEqual([]);
    const again = await create("kept@example.com");
    expect([again.headers.get("idempotent-replayed"), again.body]).toEqual(["true", kept.body]);
    expect(again.headers.has("about-user")).toBe(false);
  });

  it("is stored without its body if the user was erased before it was stored", async () => {
    const db = await lab.service.database.open();
    const clock = { now: () => new Date().toISOString() };
    const store = createIdempotencyStore({ db, clock, cipher: createCipher(randomBytes(32), "idempotency") });
    const other = await lab.service.newUser();
    await lab.service.admin.request("DELETE", `/api/v1/admin/users/${other.user_id}`);
    const keyed = { user_id: newId(), key: "late", request: Buffer.from("a") };
    await store.claim(keyed);
    const answer = { status: 201, headers: {}, body: Buffer.from("{}") };
    await store.answer(keyed, answer, { about_user_id: other.user_id, cost_nothing: false });
    expect(await store.claim(keyed)).toEqual({ state: "erased" });
    await db.close();
  });
});

describe("a new API key (contract 3)", () => {
  it("is stored nowhere in plain text, although its first answer is stored for replays", async () => {
    const { body } = await user.post("/api/v1/api-keys", { name: "to be found" }, withKey("kept"));
    expect((await lab.service.as(body.key).get("/api/v1/users/me")).status).toBe(200);
    const stored = await storedBytes(lab.service);
    expect(stored.includes("to be found")).toBe(true); // the search below can find text
    const secret = body.key.slice("purser_live_".length, -6);
    for (const encoded of [secret, Buffer.from(secret).toString("hex"), Buffer.from(body.key).toString("base64")]) {
      expect(stored.includes(encoded)).toBe(false);
    }
  });
});
