import { beforeAll, describe, expect, it } from "vitest";
import { ask, useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion, cut, delta, hanging, json, stream } from "../support/upstream.ts";

// contract 5.15: the request log.

const CHAT = "/api/v1/chat/completions";
const LOG = "/api/v1/users/me/requests";
/** Stands in each place of a request that must not be in the log. */
const CANARY = "canary words of a caller";

const lab = useLab();
let user: Client;
let key_id: string;
beforeAll(async () => {
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  key_id = (await user.get("/api/v1/api-keys")).body.api_keys[0].id;
});

type Row = Record<string, unknown> & { request_id: string };
async function listed(query = "", of: Pick<Client, "get"> = user): Promise<Row[]> {
  const { status, body } = await of.get(`${LOG}?${query}`);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.requests;
}
/** The one request with this id, once it is in the log. */
async function logged(request_id: string, of?: Client): Promise<Row> {
  const rows = () => listed(`request_id=${request_id}`, of);
  await expect.poll(async () => (await rows()).length, { interval: 50, timeout: 5_000 }).toBe(1);
  return (await rows())[0] as Row;
}
const idOf = (request_id: string) => ({ "X-Request-Id": request_id });

describe("a successful request has its API, key, end user, tokens, cost and times:", () => {
  it.each([
    ["chat_completions", CHAT, { user: "ada" }],
    ["messages", "/api/v1/messages", { max_tokens: 9, metadata: { user_id: "ada" } }],
    ["responses", "/api/v1/responses", { messages: undefined, input: "hello", user: "ada" }],
  ])("%s", async (api, path, fields) => {
    lab.upstream.answer(completion());
    expect((await user.post(path, ask("lab/plain", fields), idOf(`good-${api}`))).status).toBe(200);
    expect(await logged(`good-${api}`)).toEqual({
      id: expect.any(String),
      request_id: `good-${api}`,
      api,
      status: "succeeded",
      http_status: 200,
      error: null,
      model: "lab/plain",
      agent_id: null,
      agent_name: null,
      agent_deleted: false,
      run_id: null,
      api_key_id: key_id,
      api_key_name: expect.any(String),
      user: "ada",
      input_tokens: 10,
      output_tokens: 4,
      total_tokens: 14,
      cost_tokens: 18,
      duration_ms: expect.any(Number),
      first_token_ms: null,
      created_at: expect.any(String),
    });
  });

  it("a stream, with the time until its text began", async () => {
    lab.upstream.answer(stream(["one", "two"]));
    await user.post(CHAT, ask("lab/plain", { stream: true }), idOf("streamed"));
    const { duration_ms, first_token_ms } = (await logged("streamed")) as Record<string, number>;
    expect(first_token_ms).toBeGreaterThanOrEqual(0);
    expect(duration_ms).toBeGreaterThanOrEqual(first_token_ms ?? 0);
  });
});

interface Failing {
  name: string;
  fields?: object;
  reply?: ReturnType<typeof json>;
  tokens?: number;
  http_status: number;
  row: Record<string, unknown>;
}
const FAILING: Failing[] = [
  {
    name: "invalid",
    fields: { temperature: "warm" },
    http_status: 400,
    row: {
      status: "rejected",
      error: {
        code: "invalid_value",
        param: "temperature",
        message: expect.stringContaining("temperature must be"),
      },
    },
  },
  {
    name: "with a field that has a text in place of its name",
    fields: { [CANARY]: 1 },
    http_status: 400,
    row: { error: { code: "unsupported_parameter", param: null, message: null } },
  },
  {
    name: "of an unknown model",
    fields: { model: "lab/none" },
    http_status: 404,
    row: {
      status: "rejected",
      model: "lab/none",
      error: {
        code: "model_not_found",
        param: "model",
        message: expect.stringContaining('"lab/none" does not exist'),
      },
    },
  },
  {
    name: "with a text in place of a model",
    fields: { model: CANARY },
    http_status: 404,
    row: { model: null, error: { code: "model_not_found", param: "model", message: null } },
  },
  {
    name: "that the balance does not cover",
    tokens: 10,
    http_status: 402,
    row: {
      status: "rejected",
      error: { code: "insufficient_balance", param: null, message: expect.any(String) },
    },
  },
  {
    name: "whose provider fails",
    reply: json({ error: { message: CANARY } }, 500),
    http_status: 502,
    row: {
      status: "failed",
      error: { code: "upstream_error", param: null, message: expect.stringContaining("provider failed") },
    },
  },
];

describe("a request that fails is in the log, in our words and without a text of the caller:", () => {
  const users = new Map<string, Client>();
  beforeAll(async () => {
    for (const { name, fields, reply = completion(), tokens, http_status } of FAILING) {
      lab.upstream.answer(reply);
      const caller = tokens === undefined ? user : await lab.service.newUser({ trial: false, tokens });
      users.set(name, caller);
      const body = ask("lab/plain", { user: "bob", messages: [{ role: "user", content: CANARY }], ...fields });
      expect((await caller.post(CHAT, body, idOf(name.replaceAll(" ", "-")))).status).toBe(http_status);
    }
  });
  it.each(FAILING)("one $name", async ({ name, http_status, row: expected }) => {
    const row = await logged(name.replaceAll(" ", "-"), users.get(name));
    expect(row).toMatchObject({ api: "chat_completions", http_status, user: "bob", cost_tokens: 0, ...expected });
    expect(JSON.stringify(row)).not.toContain(CANARY);
  });

  it("one of a key without the scope", async () => {
    const { body } = await user.post("/api/v1/api-keys", { name: "reader", scopes: ["billing:read"] });
    await lab.service.as(body.key).post(CHAT, ask("lab/plain"), idOf("no-scope"));
    expect(await logged("no-scope")).toMatchObject({
      http_status: 403,
      api_key_name: "reader",
      error: { code: "insufficient_scope" },
    });
  });

  it("a stream that breaks off is one row, with its error and what it cost", async () => {
    lab.upstream.answer(cut(delta("half of")));
    await user.post(CHAT, ask("lab/plain", { stream: true }), idOf("broken"));
    await expect.poll(async () => (await logged("broken")).status, { timeout: 5_000 }).toBe("failed");
    const row = await logged("broken");
    expect(row).toMatchObject({ status: "failed", http_status: 200, error: { code: "upstream_error" } });
    expect(row.cost_tokens).toBeGreaterThan(0);
  });

  it("a request whose caller left is one row of status 499", async () => {
    lab.upstream.answer(hanging(delta("a few words")));
    const connection = new AbortController();
    const answer = await fetch(lab.service.url + CHAT, {
      method: "POST",
      headers: { Authorization: `Bearer ${user.key}`, "Content-Type": "application/json", ...idOf("left") },
      body: JSON.stringify(ask("lab/plain", { stream: true })),
      signal: connection.signal,
    });
    await answer.body?.getReader().read();
    connection.abort();
    expect(await logged("left")).toMatchObject({
      status: "failed",
      http_status: 499,
      error: { code: "client_closed_request" },
    });
  });
});

describe("the list", () => {
  it("is found by key, end user, model, status, duration and time, in pages and as CSV", async () => {
    const mine = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
    lab.upstream.answer(completion());
    const other = (await mine.post("/api/v1/api-keys", { name: "=other" })).body;
    const asOther = { ...mine, ...lab.service.as(other.key) };
    await mine.post(CHAT, ask("lab/plain", { user: "ada" }), idOf("r1"));
    await asOther.post(CHAT, ask("lab/odd", { user: "bob" }), idOf("r2"));
    await asOther.post(CHAT, ask("lab/odd", { user: "ada", top_p: 7 }), idOf("r3"));
    await mine.post(CHAT, ask("lab/none", {}), idOf("r4"));
    await logged("r4", mine);
    const cases: [string, string[]][] = [
      ["", ["r4", "r3", "r2", "r1"]],
      ["user=ada", ["r3", "r1"]],
      [`api_key_id=${other.id}`, ["r3", "r2"]],
      ["model=lab/odd", ["r3", "r2"]],
      ["status=succeeded", ["r2", "r1"]],
      ["status=200", ["r2", "r1"]],
      ["status=rejected", ["r4", "r3"]],
      ["status=failed", []],
      ["status=404", ["r4"]],
      ["min_ms=3600000", []],
      ["min_ms=0&user=bob", ["r2"]],
      ["to=2020-01-01", []],
      ["from=2020-01-01&status=400", ["r3"]],
      ["request_id=r2", ["r2"]],
    ];
    for (const [query, ids] of cases) {
      expect(
        (await listed(query, mine)).map(({ request_id }) => request_id),
        query,
      ).toEqual(ids);
    }
    const pages: string[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const { body } = await mine.get(`${LOG}?limit=3${cursor === "" ? "" : `&cursor=${cursor}`}`);
      pages.push(...body.requests.map((row: Row) => row.request_id));
      cursor = body.next_cursor;
    }
    expect(pages).toEqual(["r4", "r3", "r2", "r1"]);
    const of_user = (await lab.service.admin.get(`/api/v1/admin/users/${mine.user_id}/requests?status=404`)).body
      .requests;
    expect(of_user).toMatchObject([{ request_id: "r4" }]);
    const of_all = (await lab.service.admin.get("/api/v1/admin/requests?request_id=r3")).body.requests;
    expect(of_all).toMatchObject([{ request_id: "r3", user_id: mine.user_id, http_status: 400 }]);
    const csv = await fetch(`${lab.service.url}${LOG}?format=csv&user=ada`, {
      headers: { Authorization: `Bearer ${mine.key}` },
    });
    const [head = "", ...lines] = (await csv.text()).trimEnd().split("\r\n");
    expect(head).toMatch(/^id,request_id,created_at,api,status,http_status,error_code/);
    expect(lines.map((line) => line.split(",")[1])).toEqual(["r3", "r1"]);
    expect(lines[0]).toContain(",'=other,");
    expect((await mine.get(`${LOG}?status=strange`)).body.error).toMatchObject({ param: "status" });
  });

  it("has 60 failed requests a minute of a user, and a flood of 429 hides no other failure", async () => {
    const flooder = await lab.service.newUser();
    const { key } = (await flooder.post("/api/v1/api-keys", { name: "slow", limits: { requests_per_minute: 1 } })).body;
    const slow = lab.service.as(key);
    const statuses = await Promise.all(Array.from({ length: 80 }, () => slow.post(CHAT, ask("lab/none"))));
    expect(statuses.filter(({ status }) => status === 429)).toHaveLength(79);
    await flooder.post(CHAT, ask("lab/none"), idOf("other"));
    await logged("other", flooder);
    const limited = await listed("status=429&limit=100", flooder);
    expect(limited.length).toBeGreaterThanOrEqual(60);
    expect(limited.length).toBeLessThan(65);
    expect(limited[0]).toMatchObject({ api: "chat_completions", model: null, error: { code: "rate_limited" } });
    expect((await lab.service.admin.request("DELETE", `/api/v1/admin/users/${flooder.user_id}`)).status).toBeLessThan(
      300,
    );
    const left = (await lab.service.admin.get(`/api/v1/admin/users/${flooder.user_id}/requests`)).body.requests;
    expect(left).toEqual([]);
  });
});
