import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { useLab } from "../support/lab.ts";
import { type Received, type Receiver, startReceiver } from "../support/receiver.ts";
import type { Client } from "../support/service.ts";
import { json } from "../support/upstream.ts";

// contract 5.13.2 to 5.13.5: endpoints are changed, tested and asked for again, and their secrets rotated.

const ENDPOINTS = "/api/v1/webhook-endpoints";
const START = "2026-03-02T09:00:00.000Z";
const env: Record<string, string> = { PURSER_TEST_CLOCK: START };
let receiver: Receiver;
let user: Client;
let secret: string;
let endpoint: string;

beforeAll(async () => {
  receiver = await startReceiver();
  env.PURSER_EGRESS_ALLOW = receiver.host;
});
const lab = useLab(undefined, { env });
afterAll(() => receiver.close());
beforeEach(async () => {
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  receiver.received.length = 0;
  receiver.treat(204);
  const made = await user.post(ENDPOINTS, { url: `${receiver.url}/hook`, events: ["run.failed"] });
  expect(made.body).toMatchObject({ status: "enabled", last_delivery: null, failed_deliveries: 0 });
  ({ secret } = made.body);
  endpoint = `${ENDPOINTS}/${made.body.id}`;
});

/** A run that fails, and so a notice. */
async function failRun(): Promise<void> {
  lab.upstream.answer(json({ error: { message: "no" } }, 400));
  const agent = await user.post("/api/v1/agents", { name: "Herald", model_id: "lab/plain", run_prompt: "Go." });
  await user.post(`/api/v1/agents/${agent.body.id}/runs`, undefined, { Prefer: "wait=30" });
}
const deliveries = async () => (await user.get(`${endpoint}/deliveries`)).body.deliveries;
const listed = async () => (await user.get(ENDPOINTS)).body.webhook_endpoints[0];

it("a test event is signed, delivered now, and tells what the endpoint answered", async () => {
  receiver.treat((response) => void response.writeHead(418).end(`short and stout${"t".repeat(2_000)}`));
  const { status, body } = await user.post(`${endpoint}/test`);
  expect([status, body]).toEqual([
    200,
    {
      id: expect.any(String),
      delivered: false,
      status: 418,
      error: null,
      duration_ms: expect.any(Number),
      answer: expect.stringMatching(/^short and stoutt{985}$/),
    },
  ]);
  const { headers = {}, body: sent = "" }: Partial<Received> = receiver.received[0] ?? {};
  expect(new Webhook(secret).verify(sent, headers)).toEqual({
    type: "webhook.test",
    timestamp: expect.any(String),
    data: { endpoint_id: endpoint.slice(ENDPOINTS.length + 1) },
  });
  expect(headers["webhook-id"]).toBe(body.id);
  const other = await lab.service.newUser();
  expect((await other.post(`${endpoint}/test`)).status).toBe(404);
  expect(await deliveries()).toEqual([]);
});

it("a test of an address inside the operator's network is not sent, and a user has 10 tests a minute", async () => {
  await lab.service.changeDatabase((db) =>
    db.query({ text: "update webhook_endpoint set url = $1", values: ["https://10.0.0.1/"] }),
  );
  const { body } = await user.post(`${endpoint}/test`);
  expect(body).toMatchObject({ delivered: false, status: null, error: "egress_refused", answer: null });
  const statuses = await Promise.all(Array.from({ length: 10 }, () => user.post(`${endpoint}/test`)));
  expect(statuses.map(({ status }) => status).sort()).toEqual([...Array(9).fill(200), 429]);
});

it("a delivery is sent again with the same webhook-id, also one that was delivered", async () => {
  await failRun();
  await expect.poll(async () => (await deliveries())[0]?.status).toBe("delivered");
  const [{ id, event, attempts }] = await deliveries();
  expect([event, attempts]).toEqual(["run.failed", 1]);
  receiver.treat(200);
  const again = await user.post(`${endpoint}/deliveries/${id}/resend`);
  expect([again.status, again.body]).toMatchObject([200, { id, status: "pending", delivered_at: null }]);
  await receiver.until(2);
  expect(receiver.received.map(({ headers }) => headers["webhook-id"])).toEqual([id, id]);
  await expect
    .poll(async () => (await deliveries())[0])
    .toMatchObject({ status: "delivered", last_status: 200, attempts: 2 });
  expect(await listed()).toMatchObject({ last_delivery: { id, event, status: "delivered" }, failed_deliveries: 0 });
  expect((await user.post(`${endpoint}/deliveries/${endpoint.slice(-36)}/resend`)).status).toBe(404);
});

it("a delivery whose next try is seconds away is sent again now", { retry: 2 }, async () => {
  receiver.treat(500);
  await failRun();
  await expect.poll(async () => (await deliveries())[0]).toMatchObject({ last_status: 500 });
  const [{ id, status }] = await deliveries();
  expect(status).toBe("pending");
  receiver.treat(204);
  expect((await user.post(`${endpoint}/deliveries/${id}/resend`)).status).toBe(200);
  await expect.poll(async () => (await deliveries())[0], { timeout: 3_000 }).toMatchObject({ status: "delivered" });
});

it("a new secret signs beside each former one until that one's time is over, for tests and notices alike, and then alone", async () => {
  const secrets = [secret];
  const rotate = async (body?: object) => {
    const rotated = await user.post(`${endpoint}/rotate`, body);
    expect(rotated).toMatchObject({ status: 200, body: { secret: expect.stringMatching(/^whsec_/) } });
    secrets.push(rotated.body.secret);
    return rotated;
  };
  const setHour = async (hour: number) => {
    const now = new Date(Date.parse(START) + hour * 3_600_000).toISOString();
    expect((await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now })).status).toBe(200);
  };
  /** Which secrets verify the last delivery, and how many signatures it has. */
  const verifying = () => {
    const { headers = {}, body = "" }: Partial<Received> = receiver.received.at(-1) ?? {};
    const verifies = (each: string) => {
      try {
        return new Webhook(each).verify(body, headers) !== undefined;
      } catch {
        return false;
      }
    };
    return [secrets.map(verifies), headers["webhook-signature"]?.split(" ").length];
  };
  const tested = async () => {
    expect((await user.post(`${endpoint}/test`)).body.delivered).toBe(true);
    return verifying();
  };
  const first = await rotate();
  expect(first.headers.get("cache-control")).toBe("no-store");
  expect(first.body).toMatchObject({ former_secret_until: "2026-03-03T09:00:00.000Z", events: ["run.failed"] });
  const { secret: _, ...record } = first.body;
  expect(await listed()).toEqual(record);
  expect(await tested()).toEqual([[true, true], 2]);
  await failRun();
  await receiver.until(2);
  expect(verifying()).toEqual([[true, true], 2]);
  await rotate({ overlap_hours: 1 });
  expect(await tested()).toEqual([[true, true, true], 3]);
  await setHour(2);
  expect(await tested()).toEqual([[true, false, true], 2]);
  await setHour(25);
  expect(await tested()).toEqual([[false, false, true], 1]);
  expect((await listed()).former_secret_until).toBeNull();
  await rotate({ overlap_hours: 168 });
  await rotate({ overlap_hours: 0 });
  expect(await tested()).toEqual([[false, false, false, false, true], 1]);
});

it("a secret is rotated by the endpoint's user only, and not by a change of its fields; an e-mail endpoint has none", async () => {
  const other = await lab.service.newUser();
  expect((await other.post(`${endpoint}/rotate`)).status).toBe(404);
  expect((await user.post(`${ENDPOINTS}/nonsense/rotate`)).status).toBe(404);
  const changed = await user.request("PATCH", endpoint, { secret: "whsec_x" });
  expect([changed.status, changed.body.error.message]).toEqual([
    400,
    expect.stringContaining("POST /api/v1/webhook-endpoints/{id}/rotate"),
  ]);
  await lab.service.changeDatabase((db) =>
    db.query({ text: "update webhook_endpoint set url = $1", values: ["mailto:ada@example.com"] }),
  );
  expect((await user.post(`${endpoint}/rotate`)).body.error).toMatchObject({ code: "invalid_value" });
  expect(await listed()).toMatchObject({ former_secret_until: null });
});

it("an endpoint gets another address and other events, is disabled and enabled again, and keeps its secret", async () => {
  const changed = await user.request("PATCH", endpoint, { url: `${receiver.url}/other` });
  expect([changed.status, changed.body]).toMatchObject([200, { url: `${receiver.url}/other`, events: ["run.failed"] }]);
  receiver.treat(500);
  await failRun();
  await receiver.until(1);
  expect(receiver.received[0]?.path).toBe("/other");
  const disabled = await user.request("PATCH", endpoint, { status: "disabled" });
  expect(disabled.body).toMatchObject({ status: "disabled", disabled_at: expect.any(String) });
  await expect.poll(listed).toMatchObject({ failed_deliveries: 1, last_delivery: { status: "failed" } });
  const [{ id }] = await deliveries();
  const refused = await user.post(`${endpoint}/deliveries/${id}/resend`);
  expect([refused.status, refused.body.error.code]).toEqual([409, "endpoint_disabled"]);
  await failRun();
  expect(await deliveries()).toHaveLength(1);
  const enabled = await user.request("PATCH", endpoint, { status: "enabled", events: ["run.succeeded"] });
  expect(enabled.body).toMatchObject({ status: "enabled", disabled_at: null, events: ["run.succeeded"] });
  const { body } = await user.post(`${endpoint}/test`);
  expect(body.status).toBe(500);
  const last = receiver.received.at(-1);
  new Webhook(secret).verify(last?.body ?? "", last?.headers ?? {});
  expect((await (await lab.service.newUser()).request("PATCH", endpoint, {})).status).toBe(404);
});
