import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NOTICE_EVENTS, type Notice } from "../../src/api/contract/notices.ts";
import { createDeclared, readDocument } from "../support/declared.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import { type Client, type Service, startService } from "../support/service.ts";

const ENDPOINTS = "/api/v1/webhook-endpoints";
const NOTICES = "/api/v1/notices";
const url = "https://example.com/hook";
const events = ["run.failed"];

let service: Service;
let receiver: Receiver;
beforeAll(async () => {
  receiver = await startReceiver();
  service = await startService({
    env: { PURSER_TEST_CLOCK: "2026-01-31T00:00:00Z", PURSER_EGRESS_ALLOW: receiver.host },
    config: { limits: { requests_per_minute: 1_000_000 } },
  });
});
afterAll(async () => {
  await service.stop();
  await receiver.close();
});

/** An agent whose runs fail before any model call, because its cap is too small. */
const failing = (fields: object = {}) => ({
  name: "fails",
  model_id: "purser/rehearsal",
  run_prompt: "Say: hi",
  limits: { max_cost_tokens_per_run: 1 },
  ...fields,
});
const noticesOf = async (user: Client, query = ""): Promise<Notice[]> =>
  (await user.get(`${NOTICES}?limit=100${query}`)).body.notices;
async function failedRun(user: Client, agent: object): Promise<{ agent_id: string; run_id: string }> {
  const agent_id = (await user.post("/api/v1/agents", agent)).body.id;
  const run = await user.post(`/api/v1/agents/${agent_id}/runs`, undefined, { Prefer: "wait=20" });
  expect(run.body).toMatchObject({ status: "failed", error: { code: "budget_exceeded" } });
  return { agent_id, run_id: run.body.id };
}

describe("webhook endpoints (contract 5)", () => {
  it("show their secret once, on creation", async () => {
    const user = await service.newUser();
    const made = await user.post(ENDPOINTS, { url, events: ["run.failed", "balance.low", "run.failed"] });
    expect(made.status).toBe(201);
    const { secret, ...record } = made.body;
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(record).toEqual({
      id: expect.any(String),
      url,
      events: ["run.failed", "balance.low"],
      status: "enabled",
      former_secret_until: null,
      created_at: "2026-01-31T00:00:00.000Z",
      disabled_at: null,
      last_delivery: null,
      failed_deliveries: 0,
    });
    expect((await user.get(ENDPOINTS)).body).toEqual({ webhook_endpoints: [record], next_cursor: null });
  });

  it.each<[string, unknown, string, string]>([
    ["no url", { events }, "missing_field", "url"],
    ["no events", { url }, "missing_field", "events"],
    ["an empty list of events", { url, events: [] }, "invalid_value", "events"],
    ["an unknown event", { url, events: ["run.won"] }, "invalid_value", "events[0]"],
    ["events as text", { url, events: "run.failed" }, "invalid_value", "events"],
    ["an invalid url", { url: "example", events }, "invalid_value", "url"],
    ["a url of another type", { url: 5, events }, "invalid_value", "url"],
    ["a url that is too long", { url: `https://example.com/${"x".repeat(2048)}`, events }, "invalid_value", "url"],
    ["a url over http", { url: "http://example.com/", events }, "invalid_value", "url"],
    ["a private address", { url: "https://192.168.0.1/", events }, "invalid_value", "url"],
    ["a url with a password", { url: "https://a:b@example.com/", events }, "invalid_value", "url"],
    ["a secret of the caller's", { url, events, secret: "whsec_x" }, "unknown_field", "secret"],
  ])("reject %s", async (_what, body, code, param) => {
    const user = await service.newUser();
    const { status, body: answer } = await user.post(ENDPOINTS, body);
    expect([status, answer.error.code, answer.error.param]).toEqual([400, code, param]);
    expect((await user.get(ENDPOINTS)).body.webhook_endpoints).toEqual([]);
  });

  it("are at most ten per user, also with concurrent requests", async () => {
    const user = await service.newUser();
    const made = await Promise.all(Array.from({ length: 14 }, () => user.post(ENDPOINTS, { url, events })));
    const statuses = made.map(({ status }) => status).sort();
    expect(statuses).toEqual([...Array(10).fill(201), ...Array(4).fill(409)]);
    expect(made.find(({ status }) => status === 409)?.body.error.code).toBe("endpoint_limit_reached");
    const first = (await user.get(`${ENDPOINTS}?limit=4`)).body;
    const rest = (await user.get(`${ENDPOINTS}?cursor=${first.next_cursor}`)).body;
    const ids = [...first.webhook_endpoints, ...rest.webhook_endpoints].map(({ id }: { id: string }) => id);
    expect(ids).toEqual([...new Set(ids)].sort().reverse());
    expect(ids).toHaveLength(10);
  });

  it("of other users are 404, like unknown ones", async () => {
    const [owner, stranger] = [await service.newUser(), await service.newUser()];
    const { id } = (await owner.post(ENDPOINTS, { url, events })).body;
    for (const wrong of [id, "01900000-0000-7000-8000-000000000000", "nonsense"]) {
      const { status, body } = await stranger.request("DELETE", `${ENDPOINTS}/${wrong}`);
      expect([status, body.error.code], wrong).toEqual([404, "not_found"]);
    }
    expect((await stranger.get(ENDPOINTS)).body.webhook_endpoints).toEqual([]);
    expect((await owner.request("DELETE", `${ENDPOINTS}/${id}`)).status).toBe(204);
    expect((await owner.request("DELETE", `${ENDPOINTS}/${id}`)).status).toBe(404);
  });

  it("and notices need billing scopes", async () => {
    const user = await service.newUser();
    const keyWith = async (...scopes: string[]) =>
      service.as((await user.post("/api/v1/api-keys", { name: "narrow", scopes })).body.key);
    const reader = await keyWith("billing:read");
    expect((await reader.get(ENDPOINTS)).status).toBe(200);
    expect((await reader.get(NOTICES)).status).toBe(200);
    expect((await reader.post(ENDPOINTS, { url, events })).body.error.code).toBe("insufficient_scope");
    expect((await reader.request("DELETE", `${ENDPOINTS}/x`)).status).toBe(403);
    const other = await keyWith("agents:read", "agents:write", "billing:write");
    expect((await other.get(NOTICES)).status).toBe(403);
    expect((await other.post(ENDPOINTS, { url, events })).status).toBe(201);
  });
});

describe("notices (contract 5)", () => {
  it("report a failed run, and the schedule that it paused, to the endpoint and in the list", async () => {
    const user = await service.newUser();
    const before = receiver.received.length;
    const { secret } = (await user.post(ENDPOINTS, { url: receiver.url, events: ["run.failed", "schedule.paused"] }))
      .body;
    const schedule = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" };
    const limits = { max_cost_tokens_per_run: 1, max_consecutive_failures: 1 };
    const { agent_id, run_id } = await failedRun(user, failing({ ...schedule, limits }));
    await receiver.until(before + 2);
    const bodies = receiver.received
      .slice(before)
      .map(({ body, headers }) => new Webhook(secret).verify(body, headers));
    const timestamp = "2026-01-31T00:00:00.000Z";
    expect(bodies).toContainEqual({
      type: "run.failed",
      timestamp,
      data: { agent_id, run_id, trigger: "manual", error_code: "budget_exceeded", error_message: expect.any(String) },
    });
    const document = await readDocument(service.url);
    const { faultIn } = createDeclared(document);
    const faultOf = (body: { type: string }) =>
      faultIn(["webhooks", body.type, "post", "requestBody", "content", "application/json", "schema"], body);
    expect(bodies.map((body) => faultOf(body as { type: string }))).toEqual([null, null]);
    expect(Object.keys(document.webhooks).toSorted()).toEqual(
      [...NOTICE_EVENTS, "run.finished", "webhook.test"].toSorted(),
    );
    expect(bodies).toContainEqual({
      type: "schedule.paused",
      timestamp,
      data: {
        agent_id,
        schedule_id: expect.any(String),
        schedule_name: "default",
        reason: "1 failed run: set schedule_enabled to true to resume",
      },
    });
    await expect
      .poll(async () => (await noticesOf(user)).map(({ event }) => event).sort())
      .toEqual(["run.failed", "schedule.paused"]);
    const delivered = { status: "delivered", attempts: 1, last_status: 204, last_error: null, next_attempt_at: null };
    await expect.poll(async () => (await noticesOf(user))[0]?.deliveries).toMatchObject([delivered]);
  });

  it("report each pause once, also if more runs fail while the schedule is paused", async () => {
    const user = await service.newUser();
    const schedule = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" };
    const limits = { max_cost_tokens_per_run: 1, max_consecutive_failures: 1 };
    const { agent_id } = await failedRun(user, failing({ ...schedule, limits }));
    const again = () => user.post(`/api/v1/agents/${agent_id}/runs`, undefined, { Prefer: "wait=20" });
    await again();
    expect(await noticesOf(user, "&event=schedule.paused")).toHaveLength(1);
    await user.request("PUT", `/api/v1/agents/${agent_id}`, { schedule_enabled: true });
    await again();
    expect(await noticesOf(user, "&event=schedule.paused")).toHaveLength(2);
    expect(await noticesOf(user, "&event=run.failed")).toHaveLength(3);
  });

  it("report no pause without a schedule, and no failed chat, whose caller has the answer", async () => {
    const user = await service.newUser();
    const { agent_id } = await failedRun(
      user,
      failing({ limits: { max_cost_tokens_per_run: 1, max_consecutive_failures: 1 } }),
    );
    await user.post(`/api/v1/agents/${agent_id}/chat`, { messages: [{ role: "user", content: "hi" }] });
    expect((await noticesOf(user)).map(({ event }) => event)).toEqual(["run.failed"]);
  });

  it("are listed newest first, by event and in pages, and only the user's own", async () => {
    const [user, stranger] = [await service.newUser(), await service.newUser()];
    for (let index = 0; index < 3; index += 1) await failedRun(user, failing());
    const ids = (await noticesOf(user)).map(({ id }) => id);
    expect(ids).toEqual(ids.toSorted().reverse());
    expect(ids).toHaveLength(3);
    const first = (await user.get(`${NOTICES}?limit=2`)).body;
    const rest = (await user.get(`${NOTICES}?limit=2&cursor=${first.next_cursor}`)).body;
    expect([...first.notices, ...rest.notices].map(({ id }: Notice) => id)).toEqual(ids);
    expect(rest.next_cursor).toBeNull();
    expect(await noticesOf(user, "&event=balance.low")).toEqual([]);
    expect(await noticesOf(stranger)).toEqual([]);
    const refused = [`${NOTICES}?event=run.won`, `${NOTICES}?cursor=x`, `${NOTICES}?limit=0`];
    const answers = await Promise.all(refused.map((path) => user.get(path)));
    expect(answers.map(({ status, body }) => [status, body.error.param])).toEqual([
      [400, "event"],
      [400, "cursor"],
      [400, "limit"],
    ]);
  });
});
