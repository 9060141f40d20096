import { request as httpRequest } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openBrowser } from "../support/browser.ts";
import { ask } from "../support/lab.ts";
import { ADMIN_KEY, type Answer, type Client, type Service, startService } from "../support/service.ts";
import { signUp } from "../support/sign-up.ts";

let service: Service;
let user: Client;
beforeAll(async () => {
  service = await startService({ config: { limits: { requests_per_minute: 1_000_000 } } });
  user = await service.newUser();
});
afterAll(() => service.stop());

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const idOf = (answer: { headers: Headers }) => answer.headers.get("x-request-id");

describe("X-Request-Id (contract 2)", () => {
  it("is generated for a request without one, a new one each time", async () => {
    const [first, second] = [await user.get("/api/v1/users/me"), await user.get("/api/v1/users/me")];
    expect(idOf(first)).toMatch(UUID);
    expect(idOf(second)).not.toBe(idOf(first));
  });

  it.each(["a", "order-4711_x.Y", "x".repeat(128)])("that is valid is kept: %s", async (id) => {
    expect(idOf(await user.get("/api/v1/users/me", { "X-Request-Id": id }))).toBe(id);
  });

  it.each(["two words", "x".repeat(129), "<script>", "a,b", "é"])("that is invalid is replaced: %s", async (id) => {
    expect(idOf(await user.get("/api/v1/users/me", { "X-Request-Id": id }))).toMatch(UUID);
  });

  it("is on every answer: pages, health, 404, 401, streams", async () => {
    for (const path of ["/", "/docs", "/openapi.json", "/livez", "/readyz", "/metrics", "/nowhere", "/api/v1/agents"]) {
      expect(idOf(await fetch(`${service.url}${path}`)), path).toMatch(UUID);
    }
    const stream = await user.post("/api/v1/chat/completions", ask("purser/rehearsal", { stream: true }));
    expect(idOf(stream)).toMatch(UUID);
  });
});

describe("a record that was read and sent back with one edit (contract 2.7.1)", () => {
  const created = async (path: string, body: object) => (await user.post(path, body)).body;
  const records: [string, string, () => Promise<[path: string, record: object]>, edit: object, fixed: object][] = [
    [
      "a budget of an end user",
      "PUT",
      async () => {
        const path = "/api/v1/end-user-budgets/ann";
        return [path, (await user.request("PUT", path, { budget_tokens: 5, budget_interval: "day" })).body];
      },
      { budget_tokens: 7 },
      { user: "bob" },
    ],
    [
      "automatic top-ups that were never set",
      "PUT",
      async () => ["/api/v1/billing/auto-topup", (await user.get("/api/v1/billing/auto-topup")).body],
      {},
      { status: "cap_reached" },
    ],
    [
      "a secret with a value",
      "PATCH",
      async () => {
        const record = await created("/api/v1/secrets", { name: "BERTHS", value: "secret of the berths" });
        return [`/api/v1/secrets/${record.id}`, record];
      },
      { description: "of the harbour" },
      { name: "QUAYS" },
    ],
    [
      "a secret of type oauth",
      "PATCH",
      async () => {
        const oauth = { server: "https://mcp.example/mcp", client_id: "robot", scope: "berths" };
        const record = await created("/api/v1/secrets", { name: "SIGN_IN", type: "oauth", oauth });
        return [`/api/v1/secrets/${record.id}`, record];
      },
      { description: "of the harbour" },
      { type: "value" },
    ],
    [
      "an API key",
      "PATCH",
      async () => {
        const { key: _, ...record } = await created("/api/v1/api-keys", { name: "k", budget_tokens: 9 });
        return [`/api/v1/api-keys/${record.id}`, record];
      },
      { name: "renamed" },
      { scopes: ["keys:read"] },
    ],
    [
      "a webhook endpoint",
      "PATCH",
      async () => {
        const asked = { url: "https://hooks.example.com/", events: ["run.failed"] };
        const { secret: _, ...record } = await created("/api/v1/webhook-endpoints", asked);
        return [`/api/v1/webhook-endpoints/${record.id}`, record];
      },
      { events: ["run.has_errors"] },
      { created_at: "2026-01-01T00:00:00.000Z" },
    ],
    [
      "a user, by the operator",
      "PATCH",
      async () => {
        const path = `/api/v1/admin/users/${(await service.newUser()).user_id}`;
        return [path, (await service.admin.get(path)).body];
      },
      { operator_role: "read" },
      { plan: "pro" },
    ],
  ];

  it.each(records)(
    "is that edit, and a changed read-only field is rejected: %s",
    async (_, method, read, edit, fixed) => {
      const [path, record] = await read();
      const caller = path.startsWith("/api/v1/admin/") ? service.admin : user;
      const sent = await caller.request(method, path, { ...record, ...edit });
      const updated_at = "updated_at" in record ? { updated_at: expect.any(String) } : {};
      expect([sent.status, sent.body]).toEqual([200, { ...record, ...updated_at, ...edit }]);
      const refused = await caller.request(method, path, { ...sent.body, ...fixed });
      expect([refused.status, refused.body.error?.param]).toEqual([400, Object.keys(fixed)[0]]);
    },
  );
});

describe("the error body (contract 2)", () => {
  const shaped = ({ status, headers, body }: Answer, type: string, code: string) => {
    expect(headers.get("content-type")).toMatch(/^application\/json/);
    expect(Object.keys(body)).toEqual(["error"]);
    const { error } = body;
    expect(
      Object.keys(error)
        .filter((key) => key !== "metadata")
        .sort(),
    ).toEqual(["code", "message", "param", "request_id", "type"].sort());
    expect([error.type, error.code]).toEqual([type, code]);
    expect(error.request_id).toBe(headers.get("x-request-id"));
    expect(error.message).toMatch(/[.!]$/);
    return status;
  };

  it("has one shape at every status", async () => {
    const anonymous = service.as("nonsense");
    const empty = await service.newUser({ trial: false });
    const { body: narrow } = await user.post("/api/v1/api-keys", { name: "n", scopes: ["keys:read"] });
    const chat = "/api/v1/chat/completions";
    const text = { "Content-Type": "text/plain" };
    const invalid = "invalid_request_error";
    expect(shaped(await user.get("/api/v1/users/me/usage?days=0"), invalid, "invalid_value")).toBe(400);
    expect(shaped(await anonymous.get("/api/v1/users/me"), "authentication_error", "invalid_api_key")).toBe(401);
    expect(shaped(await empty.post(chat, ask("purser/rehearsal")), "payment_required", "out_of_tokens")).toBe(402);
    const refused = await service.as(narrow.key).get("/api/v1/users/me/usage");
    expect(shaped(refused, "permission_error", "insufficient_scope")).toBe(403);
    expect(shaped(await user.get("/api/v1/nowhere"), "not_found_error", "not_found")).toBe(404);
    expect(shaped(await user.request("PATCH", "/api/v1/users/me"), invalid, "method_not_allowed")).toBe(405);
    expect(shaped(await user.post("/nowhere"), "not_found_error", "not_found")).toBe(404);
    const taken = { email: "taken@example.com" };
    await service.admin.post("/api/v1/admin/users", taken);
    expect(shaped(await service.admin.post("/api/v1/admin/users", taken), "conflict_error", "name_taken")).toBe(409);
    expect(shaped(await user.post(chat, "x".repeat(33_600_000)), invalid, "body_too_large")).toBe(413);
    expect(shaped(await user.post(chat, "{}", text), invalid, "unsupported_media_type")).toBe(415);
  });

  it("of 401 comes before any error about a body, a path or its parameters", async () => {
    const anonymous = service.as("nonsense");
    expect((await anonymous.post("/api/v1/chat/completions", "{not json")).status).toBe(401);
    expect((await anonymous.post("/api/v1/chat/completions", "x".repeat(5_000_000))).status).toBe(401);
    expect((await anonymous.get("/api/v1/nowhere")).status).toBe(401);
    expect((await anonymous.get("/api/v1/agents?limit=0")).status).toBe(401);
    expect((await service.as("wrong").get("/api/v1/admin/users?limit=0")).status).toBe(401);
  });
});

describe("requests without a key (contract 2)", () => {
  /** Sends the path unchanged, because fetch would normalise it. */
  const raw = (method: string, path: string, key?: string) =>
    new Promise<number>((resolve, reject) => {
      const { hostname, port } = new URL(service.url);
      const headers = key === undefined ? {} : { Authorization: `Bearer ${key}` };
      const call = httpRequest({ hostname, port, method, path, headers }, (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
      call.on("error", reject).end();
    });

  it("cannot use a public path to reach others: not by its prefix, another method, dots or escapes", async () => {
    const close_paths: [string, string][] = [
      ["DELETE", "/api/v1/api-keys/revoke-leaked"],
      ["POST", "/api/v1/api-keys/revoke-leaked/rotate"],
      ["GET", "/api/v1/api-keys/revoke-leaked/../"],
      ["GET", "/api/v1/auth/../users/me"],
      ["GET", "/api/v1/auth/%2e%2e/users/me"],
      ["GET", "/api/v1/auth/..%2fusers/me"],
      ["GET", "/api/v1//users/me"],
      ["GET", "/api/v1/%75sers/me"],
      ["GET", "/api/v1/users/me/"],
      ["GET", "//api/v1/users/me"],
      ["GET", "/API/V1/users/me"],
    ];
    for (const [method, path] of close_paths)
      expect([401, 404], `${method} ${path}`).toContain(await raw(method, path));
  });

  it("cannot reach the operator's paths in any spelling, and neither can a user's key", async () => {
    for (const path of [
      "/api/v1/admin/users",
      "/api/v1/%61dmin/users",
      "/api/v1/admin/%75sers",
      "/api/v1/x/../admin/users",
    ]) {
      expect([401, 404], path).toContain(await raw("GET", path, user.key));
    }
    expect(await raw("GET", "/api/v1/admin/users", ADMIN_KEY)).toBe(200);
    expect([401, 404]).toContain(await raw("GET", "/api/v1/users/me", ADMIN_KEY));
  });

  it("get 401 from every documented endpoint except the public ones", async () => {
    const { paths } = await (await fetch(`${service.url}/openapi.json`)).json();
    for (const [path, methods] of Object.entries<Record<string, { security?: unknown }>>(paths)) {
      for (const [method, { security }] of Object.entries(methods)) {
        if (!Array.isArray(security) || security.length === 0) continue;
        // These check the body before the session.
        if (path.startsWith("/api/v1/auth/")) continue;
        const concrete = path.replaceAll(/\{\w+\}/g, "01900000-0000-7000-8000-000000000000");
        expect(await raw(method.toUpperCase(), concrete), `${method} ${path}`).toBe(401);
      }
    }
  });
});

describe("bodies (contract 2)", () => {
  it("a POST without one needs no Content-Type and counts as {}", async () => {
    const { body: key } = await user.post("/api/v1/api-keys", { name: "turned" });
    const headers = { Authorization: `Bearer ${user.key}` };
    const rotate = (init: object) =>
      fetch(`${service.url}/api/v1/api-keys/${key.id}/rotate`, { method: "POST", headers, ...init });
    expect((await rotate({})).status).toBe(200);
    expect((await rotate({ body: "" })).status).toBe(200);
    expect((await rotate({ body: "", headers: { ...headers, "Content-Type": "text/plain" } })).status).toBe(200);
    const missing = await user.post("/api/v1/api-keys");
    expect([missing.status, missing.body.error.code, missing.body.error.param]).toEqual([400, "missing_field", "name"]);
  });

  it("may have a charset or a +json type", async () => {
    for (const type of ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.api+json"]) {
      const made = await user.request("POST", "/api/v1/api-keys", { name: "typed" }, { "Content-Type": type });
      expect(made.status, type).toBe(201);
    }
  });

  it.each(["with its length", "in chunks"])("that are not UTF-8, sent %s, are rejected", async (how) => {
    const bytes = Buffer.from('{"name":"caf\xe9"}', "latin1");
    const chunks = new ReadableStream({
      start(controller) {
        controller.enqueue(bytes);
        controller.close();
      },
    });
    const response = await fetch(`${service.url}/api/v1/api-keys`, {
      method: "POST",
      headers: { Authorization: `Bearer ${user.key}`, "Content-Type": "application/json" },
      ...(how === "in chunks" ? { body: chunks, duplex: "half" } : { body: bytes }),
    });
    const { error } = await response.json();
    expect([response.status, error.code, error.message]).toEqual([
      400,
      "invalid_json",
      expect.stringContaining("UTF-8"),
    ]);
  });

  it("carry UTF-8 in both directions", async () => {
    const name = "Grüße 世界 🌍";
    expect((await user.post("/api/v1/api-keys", { name })).body.name).toBe(name);
  });
});

describe("lists (contract 2)", () => {
  it.each([
    ["api_keys", "/api/v1/api-keys", "newest"],
    ["transactions", "/api/v1/users/me/transactions", "newest"],
    ["buckets", "/api/v1/users/me/buckets", "oldest"],
    ["agents", "/api/v1/agents", "newest"],
    ["secrets", "/api/v1/secrets", "newest"],
    ["users", "/api/v1/admin/users", "newest"],
  ])("%s: pages of every size list all items exactly once, in order", async (name, path, first) => {
    const owner = await service.newUser();
    for (let index = 0; index < 6; index += 1) {
      await owner.post("/api/v1/api-keys", { name: `k${index}` });
      await owner.post("/api/v1/secrets", { name: `S${index}`, value: "value" });
      await owner.post("/api/v1/agents", { name: `a${index}`, model_id: "purser/rehearsal" });
      const grant = { amount_tokens: 1 + index, source: "bonus" };
      await service.admin.post(`/api/v1/admin/users/${owner.user_id}/grants`, grant);
      await service.newUser();
    }
    const client = name === "users" ? service.as(ADMIN_KEY) : owner;
    const all = (await client.get(`${path}?limit=100`)).body;
    expect(all.next_cursor).toBeNull();
    const ids = all[name].map((item: { id: string }) => item.id);
    expect(ids.length).toBeGreaterThanOrEqual(6);
    const dates = all[name].map(
      (item: { created_at?: string; granted_at?: string }) => item.created_at ?? item.granted_at,
    );
    expect(dates).toEqual(first === "oldest" ? dates.toSorted() : dates.toSorted().reverse());
    for (const limit of [1, 3, ids.length - 1, ids.length]) {
      const listed: string[] = [];
      let cursor: string | null = null;
      do {
        const { body }: Answer = await client.get(
          `${path}?limit=${limit}${cursor === null ? "" : `&cursor=${cursor}`}`,
        );
        expect(body[name].length).toBeLessThanOrEqual(limit);
        expect(body[name].length).toBeGreaterThan(0);
        listed.push(...body[name].map((item: { id: string }) => item.id));
        cursor = body.next_cursor;
      } while (cursor !== null);
      expect(listed, `limit ${limit}`).toEqual(ids);
    }
  });

  it("buckets have the total_remaining of all pages, not of one", async () => {
    const owner = await service.newUser({ trial: false, tokens: 700 });
    const grant = { amount_tokens: 300, source: "bonus" };
    await service.admin.post(`/api/v1/admin/users/${owner.user_id}/grants`, grant);
    const page = (await owner.get("/api/v1/users/me/buckets?limit=1")).body;
    expect([page.buckets.length, page.total_remaining]).toEqual([1, 1000]);
  });

  it("of agents, runs, secrets and buckets have up to 100 items unless the request says otherwise", async () => {
    const owner = await service.newUser();
    const agent = { name: "a", model_id: "purser/rehearsal", run_prompt: "Say hello", is_active: true };
    const { id } = (await owner.post("/api/v1/agents", agent)).body;
    for (let index = 0; index < 24; index += 1) {
      await owner.post("/api/v1/secrets", { name: `S${index}`, value: "value" });
      await owner.post("/api/v1/agents", agent);
      await owner.post(`/api/v1/agents/${id}/runs`);
      const grant = { amount_tokens: 1 + index, source: "bonus" };
      await service.admin.post(`/api/v1/admin/users/${owner.user_id}/grants`, grant);
    }
    const lengths = [];
    for (const path of ["agents", "secrets", `agents/${id}/runs`, "users/me/buckets"]) {
      const { body } = await owner.get(`/api/v1/${path}`);
      expect(body.next_cursor).toBeNull();
      lengths.push(body[path.split("/").at(-1) as string].length);
    }
    expect(lengths).toEqual([25, 24, 24, 25]);
  });

  it("of other things have 20 items unless the request says otherwise", async () => {
    const owner = await service.newUser();
    for (let index = 0; index < 21; index += 1) await owner.post("/api/v1/api-keys", { name: `k${index}` });
    const { api_keys, next_cursor } = (await owner.get("/api/v1/api-keys")).body;
    expect([api_keys.length, typeof next_cursor]).toEqual([20, "string"]);
  });
});

describe("limits (contract 2)", () => {
  it("beyond requests_per_minute: 429 with Retry-After and RateLimit-*, only for that user", async () => {
    const limited = await startService({ config: { limits: { requests_per_minute: 3 } } });
    const [greedy, modest] = [await limited.newUser(), await limited.newUser()];
    const answers: Answer[] = [];
    for (let index = 0; index < 4; index += 1) answers.push(await greedy.get("/api/v1/users/me"));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
    const [first, last] = [answers[0], answers[3]];
    expect(first?.headers.get("ratelimit-limit")).toBe("3");
    expect(first?.headers.get("ratelimit-remaining")).toBe("2");
    expect(last?.body.error).toMatchObject({ type: "rate_limit_error", code: "rate_limited" });
    expect(last?.headers.get("ratelimit-remaining")).toBe("0");
    for (const header of ["retry-after", "ratelimit-reset"]) {
      const seconds = Number(last?.headers.get(header));
      expect(seconds, header).toBeGreaterThan(0);
      expect(seconds, header).toBeLessThanOrEqual(60);
    }
    expect((await modest.get("/api/v1/users/me")).status).toBe(200);
    expect((await limited.admin.get("/api/v1/admin/users")).status).toBe(200);
    await limited.stop();
  });

  it("a user's API keys and console sessions have separate limits: neither can use up the other's", async () => {
    const limits = { requests_per_minute: 3, session_requests_per_minute: 2 };
    const limited = await startService({ config: { limits } });
    const person = openBrowser(limited.url);
    await signUp(limited, { email: "ada@example.com", password: "a long enough password" }, person);
    const { key } = (await person.post("/api-keys", { name: "program" })).body;
    const program = limited.as(key);
    const statuses = async (ask: () => Promise<Answer>, times: number) => {
      const found: number[] = [];
      for (let index = 0; index < times; index += 1) found.push((await ask()).status);
      return found;
    };
    expect(await statuses(() => program.get("/api/v1/users/me"), 4)).toEqual([200, 200, 200, 429]);
    expect(await statuses(() => person.get("/users/me"), 2)).toEqual([200, 429]);
    expect((await person.get("/users/me")).headers.get("ratelimit-limit")).toBe("2");
    await limited.stop();
  });
});
