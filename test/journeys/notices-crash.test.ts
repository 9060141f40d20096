import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type RunningProcess, startProcessOn } from "../support/process.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import { ADMIN_KEY } from "../support/service.ts";

let database: TestDatabase;
let receiver: Receiver;
let child: RunningProcess;
beforeAll(async () => {
  database = await createTestDatabase();
  receiver = await startReceiver();
});
afterEach(async () => {
  child.signal("SIGKILL");
  await child.ended;
});
afterAll(async () => {
  await receiver.close();
  await database.drop();
});

/** Starts the service in a process of its own over the test's storage. Returns its URL. */
async function start(): Promise<string> {
  child = startProcessOn(database, { PURSER_EGRESS_ALLOW: receiver.host });
  return child.listening;
}

async function post(url: string, key: string, body: object, prefer = "") {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json", Prefer: prefer };
  return (await fetch(url, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

it("a delivery that failed before kill -9 is sent after the restart, with the same webhook-id", async () => {
  const first = await start();
  const { api_key } = await post(`${first}/api/v1/admin/users`, ADMIN_KEY, { email: "ada@example.com" });
  await post(`${first}/api/v1/webhook-endpoints`, api_key.key, { url: receiver.url, events: ["run.failed"] });
  const limits = { max_cost_tokens_per_run: 1 };
  const agent = { name: "fails", model_id: "purser/rehearsal", run_prompt: "Say: hi", limits };
  const { id } = await post(`${first}/api/v1/agents`, api_key.key, agent);
  receiver.treat(500, 204);
  await post(`${first}/api/v1/agents/${id}/runs`, api_key.key, {}, "wait=20");
  const headers = { Authorization: `Bearer ${api_key.key}` };
  const deliveryAt = async (url: string) => {
    const { notices } = await (await fetch(`${url}/api/v1/notices`, { headers })).json();
    return notices[0]?.deliveries[0];
  };
  await expect.poll(() => deliveryAt(first)).toMatchObject({ status: "pending", attempts: 1, last_status: 500 });
  child.signal("SIGKILL");
  await child.ended;

  const second = await start();
  await receiver.until(2);
  expect(new Set(receiver.received.map(({ headers: sent }) => sent["webhook-id"])).size).toBe(1);
  await expect.poll(() => deliveryAt(second)).toMatchObject({ status: "delivered", attempts: 2 });
});
