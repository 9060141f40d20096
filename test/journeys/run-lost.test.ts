import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { LAB_KEY, labConfig } from "../support/lab.ts";
import { metricsOf } from "../support/metrics.ts";
import { type RunningProcess, startProcessOn } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { hanging, startUpstream, type Upstream } from "../support/upstream.ts";

// contract 6, worker_lost: the record of a chat whose process was killed.

let database: TestDatabase;
let upstream: Upstream;
let child: RunningProcess | undefined;
beforeAll(async () => {
  database = await createTestDatabase();
  upstream = await startUpstream();
});
afterAll(async () => {
  await killed();
  await upstream.close();
  await database.drop();
});

async function killed(): Promise<void> {
  child?.signal("SIGKILL");
  await child?.ended;
}
async function started(): Promise<string> {
  const config = join(database.data_dir, "purser.json");
  writeFileSync(config, JSON.stringify(labConfig(upstream)));
  child = startProcessOn(database, { PURSER_CONFIG: config, LAB_KEY });
  return child.listening;
}
const posted = (url: string, key: string, body: object) =>
  fetch(url, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });

test("a chat whose process was killed is failed with worker_lost after the restart, and is counted as such", async () => {
  upstream.answer(hanging());
  const first = await started();
  const { api_key } = await (
    await posted(`${first}/api/v1/admin/users`, ADMIN_KEY, { email: "ada@example.com" })
  ).json();
  const fields = { name: "Scout", model_id: "lab/plain" };
  const { id } = await (await posted(`${first}/api/v1/agents`, api_key.key, fields)).json();
  const messages = [{ role: "user", content: "hello" }];
  const cutOff = posted(`${first}/api/v1/agents/${id}/chat`, api_key.key, { messages }).catch((error: Error) => error);
  await upstream.until(() => upstream.requests.length === 1);
  await killed();
  expect(await cutOff).toBeInstanceOf(Error);

  // On PostgreSQL the lease has to end first. This ends it.
  const db = await database.open();
  await db.query({ text: "update run set lease_until = now() - interval '1 second' where lease_until is not null" });
  await db.close();
  const second = await started();
  const runs = async () => {
    const headers = { Authorization: `Bearer ${api_key.key}` };
    return (await (await fetch(`${second}/api/v1/agents/${id}/runs`, { headers })).json()).runs;
  };
  await expect
    .poll(runs)
    .toMatchObject([{ trigger: "chat", status: "failed", error: { code: "worker_lost" }, usage: { cost_tokens: 0 } }]);
  const counted = 'purser_runs_total{status="failed",error="worker_lost"} 1';
  await expect.poll(() => metricsOf(second)).toContain(counted);
});
