import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { LAB_KEY, labConfig } from "../support/lab.ts";
import { type RunningProcess, startProcessOn } from "../support/process.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { calling, completion, hanging, startUpstream, type Upstream } from "../support/upstream.ts";

// contract 6.11.1: a chat that waits for a decision, and processes that are killed before and after it.

let database: TestDatabase;
let upstream: Upstream;
let receiver: Receiver;
let child: RunningProcess | undefined;
beforeAll(async () => {
  database = await createTestDatabase();
  upstream = await startUpstream();
  receiver = await startReceiver();
});
afterAll(async () => {
  await killed();
  await upstream.close();
  await receiver.close();
  await database.drop();
});

async function killed(): Promise<void> {
  child?.signal("SIGKILL");
  await child?.ended;
}
async function started(): Promise<string> {
  const config = join(database.data_dir, "purser.json");
  writeFileSync(config, JSON.stringify(labConfig(upstream)));
  child = startProcessOn(database, { PURSER_CONFIG: config, PURSER_EGRESS_ALLOW: receiver.host, LAB_KEY });
  return child.listening;
}
/** A request to the process that runs now; without a body it reads. */
async function ask(url: string, key: string, body?: object) {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const sent = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
  return (await fetch(url, sent)).json();
}

test("a chat that waits outlives its killed process, and after the decision a second one, and its answer joins the thread", async () => {
  const url = `${receiver.url}/hook`;
  upstream.answer(calling("send_webhook", { url, payload: { n: 1 } }), hanging(), completion("Told."));
  const first = await started();
  const { user, api_key } = await ask(`${first}/api/v1/admin/users`, ADMIN_KEY, { email: "ada@example.com" });
  const wanted = { name: "Desk", scopes: ["agents:read", "agents:approve"], reason: "a test" };
  const approver = (await ask(`${first}/api/v1/admin/users/${user.id}/api-keys`, ADMIN_KEY, wanted)).key;
  const send_webhook = { enabled: true, urls: [url], permission_policy: "always_ask" };
  const fields = { name: "Herald", model_id: "lab/plain", tools_config: { send_webhook } };
  const { id } = await ask(`${first}/api/v1/agents`, api_key.key, fields);
  const turn = { messages: [{ role: "user", content: "Tell them." }], thread_id: "desk" };
  const answer = await ask(`${first}/api/v1/agents/${id}/chat`, api_key.key, turn);
  expect(answer.choices[0].finish_reason).toBe("requires_action");
  await killed();

  const path = `/api/v1/agents/${id}/runs/${answer.run_id}`;
  const second = await started();
  const waits = await ask(second + path, api_key.key);
  expect(waits).toMatchObject({ status: "requires_action", required_actions: answer.required_actions });
  const [action] = waits.required_actions;
  await ask(`${second}${path}/actions/${action.id}`, approver, { decision: "approve" });
  await upstream.until(() => upstream.requests.length === 2);
  await killed();

  // On PostgreSQL the lease has to end first. This ends it.
  const db = await database.open();
  await db.query({ text: "update run set lease_until = now() - interval '1 second' where lease_until is not null" });
  await db.close();
  const third = await started();
  await expect.poll(() => ask(third + path, api_key.key)).toMatchObject({ status: "succeeded", output: "Told." });
  expect(receiver.received).toHaveLength(1);
  const { messages } = await ask(`${third}/api/v1/agents/${id}/threads/desk`, api_key.key);
  expect(messages.at(-1)).toMatchObject({ role: "assistant", content: "Told." });
});
