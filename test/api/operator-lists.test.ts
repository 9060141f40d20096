import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { listTables, readRows } from "../../src/operator/backup/tables.store.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { type Client, type Service, startService } from "../support/service.ts";

// Lists of all users: windows of time, CSV, and the calls of a request id. What is left of an erased user.

let service: Service;
let db: Db;
let first: Client;
let second: Client;

const clock = (now: string) => service.admin.request("PUT", "/api/v1/admin/clock", { now });
const ask = (user: Client, request_id: string) =>
  user.post(
    "/api/v1/chat/completions",
    { model: "purser/rehearsal", messages: [{ role: "user", content: "hello" }] },
    { "X-Request-Id": request_id },
  );
const buy = async (user: Client, amount_cents: number): Promise<string> =>
  (await user.post("/api/v1/billing/purchase", { amount_cents })).body.id;
const csvOf = async (path: string) => {
  const { status, body, headers } = await service.admin.get(path);
  expect([status, headers.get("content-type")]).toEqual([200, expect.stringContaining("text/csv")]);
  const [head = "", ...lines] = (body as string).trimEnd().split("\r\n");
  return lines.map((line) => Object.fromEntries(head.split(",").map((column, nth) => [column, line.split(",")[nth]])));
};

beforeAll(async () => {
  service = await startService({ env: { PURSER_TEST_CLOCK: "2026-01-31T09:00:00Z", PURSER_PAYMENTS: "sandbox" } });
  db = await service.database.open();
  first = await service.newUser({ trial: false });
  second = await service.newUser({ trial: false });
});
afterAll(async () => {
  await db.close();
  await service.stop();
});

describe("purchases, invoices and usage of all users", () => {
  const bought: string[] = [];
  beforeAll(async () => {
    bought.push(await buy(first, 100));
    await ask(first, "january");
    await clock("2026-02-01T00:00:00Z");
    bought.push(await buy(second, 200));
    await ask(second, "february");
    await clock("2026-03-01T12:00:00Z");
    bought.push(await buy(first, 300));
    await db.query({
      text: `insert into payment (user_id, id, purpose, status, provider, amount_cents, currency, tokens, subscription_id, created_at)
        select $1, ('01930000-0000-7000-8000-00000000000' || n)::uuid, 'overage', 'pending', 'operator', n * 100, 'usd', n * 1000, gen_random_uuid(),
          '2026-01-15T00:00:00Z'::timestamptz + n * interval '1 month' from generate_series(1, 3) n`,
      values: [second.user_id],
    });
  });

  // The audit finds no use of overage for them.
  afterAll(() => db.query({ text: "delete from payment where purpose = 'overage'" }));

  it.each([
    ["", [2, 1, 0]],
    ["?from=2026-02-01", [2, 1]],
    ["?to=2026-02-01", [0]],
    ["?from=2026-02-01&to=2026-03-01", [1]],
    ["?from=2026-02-01T00:00:00.001Z&to=2026-03-01T12:00:00Z", []],
    ["?from=2026-03-01T13:00:00%2B01:00", [2]],
    ["?from=2026-02-01&status=succeeded&limit=1", [2]],
    ["?from=2026-02-01&status=failed", []],
  ])("purchases%s are those of its window, newest first, and as CSV oldest first", async (query, expected) => {
    const { body } = await service.admin.get(`/api/v1/admin/purchases${query}`);
    expect(body.purchases.map(({ id }: { id: string }) => id)).toEqual(expected.map((nth) => bought[nth]));
    const lines = await csvOf(`/api/v1/admin/purchases${query === "" ? "?" : `${query}&`}format=csv`);
    const all = query.includes("limit=1") ? [2, 1] : expected;
    expect(lines.map(({ id }) => id)).toEqual(all.toReversed().map((nth) => bought[nth]));
  });

  it("a line of the purchases' CSV has the fields of the list", async () => {
    const [line] = await csvOf("/api/v1/admin/purchases?format=csv&to=2026-02-01");
    expect(line).toEqual({
      id: bought[0],
      user_id: first.user_id,
      purpose: "top_up",
      status: "succeeded",
      provider: "sandbox",
      reference: expect.any(String),
      amount_cents: "100",
      refunded_cents: "0",
      currency: "usd",
      tokens: "625000",
      bucket_id: expect.any(String),
      automatic: "false",
      billed_amount_cents: "",
      billed_currency: "",
      created_at: "2026-01-31T09:00:00.000Z",
    });
  });

  it("invoices have windows and CSV, too", async () => {
    const amounts = (rows: { amount_cents: number | string }[]) => rows.map(({ amount_cents }) => Number(amount_cents));
    const listed = await service.admin.get("/api/v1/admin/invoices?from=2026-03-01&to=2026-05-01");
    expect(amounts(listed.body.invoices)).toEqual([300, 200]);
    const lines = await csvOf("/api/v1/admin/invoices?format=csv&status=open&to=2026-03-16");
    expect(amounts(lines as { amount_cents: string }[])).toEqual([100, 200]);
    expect(lines[0]).toMatchObject({
      user_id: second.user_id,
      status: "open",
      tokens: "1000",
      collected_by: "operator",
    });
  });

  it.each([
    ["from=2026-01-01&to=2026-02-01", { days: 31, requests: 1 }],
    ["from=2026-02-01", { days: 29, requests: 1 }],
    ["to=2026-02-01", { days: 30, requests: 1 }],
    ["days=2&to=2026-02-02T10:00:00Z", { days: 2, requests: 2 }],
    ["days=60", { days: 60, requests: 2 }],
    ["from=2025-03-02&to=2026-03-02", { days: 365, requests: 2 }],
  ])("usage?%s is that of whole days (UTC)", async (query, { days, requests }) => {
    const { body } = await service.admin.get(`/api/v1/admin/usage?${query}`);
    expect([body.days, body.total.requests]).toEqual([days, requests]);
    const lines = await csvOf(`/api/v1/admin/usage?${query}&group_by=day&format=csv`);
    expect(lines.reduce((sum, line) => sum + Number(line.requests), 0)).toBe(requests);
  });

  it.each([
    ["usage", "from=2026-02-01&to=2026-02-01", "from"],
    ["usage", "from=2024-01-01&to=2026-02-01", "from"],
    ["usage", "from=2026-02-01&days=3", "days"],
    ["usage", "from=yesterday", "from"],
    ["purchases", "to=31.01.2026", "to"],
    ["invoices", "format=xml", "format"],
  ])("%s?%s is 400 and names the parameter", async (list, query, param) => {
    const { status, body } = await service.admin.get(`/api/v1/admin/${list}?${query}`);
    expect([status, body.error.param]).toEqual([400, param]);
  });
});

it("the calls of a request id are found over all users", async () => {
  for (const user of [first, second, second]) await ask(user, "shared-id");
  const found = async (query: string) => (await service.admin.get(`/api/v1/admin/requests?${query}`)).body;
  const { requests, next_cursor } = await found("request_id=shared-id");
  expect(requests.map(({ user_id }: { user_id: string }) => user_id)).toEqual([
    second.user_id,
    second.user_id,
    first.user_id,
  ]);
  expect(requests[0]).toMatchObject({ request_id: "shared-id", model: "purser/rehearsal", agent_name: null });
  expect(next_cursor).toBeNull();
  const page = await found("request_id=shared-id&limit=2");
  const rest = await found(`request_id=shared-id&limit=2&cursor=${page.next_cursor}`);
  expect([page.requests.length, rest.requests.length, rest.next_cursor]).toEqual([2, 1, null]);
  expect((await found("request_id=unknown")).requests).toEqual([]);
  expect((await service.admin.get("/api/v1/admin/requests")).body.error).toMatchObject({ param: "request_id" });
});

it("an erased user's ledger stays readable by the operator, without what operators wrote about the user", async () => {
  const user = await service.newUser({ trial: false, tokens: 1_000 });
  const of = (rest: string) => `/api/v1/admin/users/${user.user_id}/${rest}`;
  const post = (rest: string, body: object) => service.admin.post(of(rest), body);
  const secret = "Mrs-Smith-called";
  await post("grants", { amount_tokens: 10_000, source: "top_up", note: `${secret}-note` });
  await post("adjustments", { amount_tokens: 500, reason: `${secret}-up` });
  await post("adjustments", { amount_tokens: -600, reason: `${secret}-down` });
  await post("suspend", { reason: `${secret}-suspend` });
  await post("resume", { reason: `${secret}-resume` });
  const [bucket] = (await user.get("/api/v1/users/me/buckets")).body.buckets;
  await post(`buckets/${bucket.id}/close`, { reason: `${secret}-close` });
  await ask(user, "of-erased");
  const descriptions = async () =>
    (await service.admin.get(of("transactions?limit=100"))).body.transactions.map(
      ({ description }: { description: string }) => description,
    );
  expect(await descriptions()).toEqual(
    expect.arrayContaining(["note", "up", "down", "close"].map((end) => `${secret}-${end}`)),
  );
  const own = await csvOf(of("transactions?format=csv"));
  expect(own.map(({ reason }) => reason)).toContain(`${secret}-up`);
  const acts = async () => (await service.admin.get(`/api/v1/admin/acts?user_id=${user.user_id}`)).body.acts;
  expect((await acts()).map(({ reason }: { reason: string }) => reason)).toContain(`${secret}-suspend`);
  const explained = (await service.admin.get(of("requests/of-erased"))).body;

  await service.admin.request("DELETE", of("").slice(0, -1));

  const left = await descriptions();
  expect(left).toEqual(expect.arrayContaining(["Granted", "Adjustment"]));
  expect((await service.admin.get(of("requests"))).body.requests).toHaveLength(1);
  expect((await service.admin.get(of("requests/of-erased"))).body).toEqual(explained);
  expect((await service.admin.get(of("usage"))).body.total_cost_tokens).toBe(explained.cost_tokens);
  expect((await service.admin.get(of("buckets?include=closed"))).status).toBe(200);
  expect((await csvOf(of("transactions?format=csv"))).length).toBe(left.length);
  for (const rest of ["", "runs", "api-keys"]) {
    expect((await service.admin.get(of(rest).replace(/\/$/, ""))).status, rest).toBe(404);
  }
  expect((await post("adjustments", { amount_tokens: 1, reason: "late" })).status).toBe(404);
  expect((await acts()).length).toBeGreaterThan(6);
  expect((await service.admin.get("/api/v1/admin/audit")).body).toMatchObject({ ok: true, violations: [] });
  const tables: string[] = [];
  await db.transaction(async (tx) => {
    for (const table of await listTables(tx)) {
      for await (const lines of readRows(tx, table)) {
        if (lines.some((line) => line.includes(secret))) tables.push(table.name);
      }
    }
  });
  expect(tables).toEqual([]);
});

it.each([
  ["GET", "users/none", "This user does not exist. Check the id."],
  ["GET", "runs/none", "This run does not exist. Check the id."],
  ["POST", "providers/none/test", "This provider does not exist. Check the id."],
  ["DELETE", "keys/none", "This operator key does not exist. Check the id."],
  ["POST", "purchases/none/refund", "This purchase does not exist. Check the id."],
  ["PUT", "invoices/none", "This invoice does not exist. Check the id."],
  ["DELETE", "users/{user}/api-keys/none", "This API key does not exist in this account. Check the id."],
  ["GET", "users/{user}/requests/none", "A charge for this request does not exist in this account. Check the id."],
])("an operator's 404 names no owner: %s %s", async (method, path, message) => {
  const body = { POST: path.includes("refund") ? { reason: "test" } : {}, PUT: { status: "void" } }[method];
  const answer = await service.admin.request(method, `/api/v1/admin/${path.replace("{user}", first.user_id)}`, body);
  expect([answer.status, answer.body.error.message]).toEqual([404, message]);
});
