import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createTestDatabase } from "../support/database.ts";
import { startProcess } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { completion, hanging, startUpstream } from "../support/upstream.ts";

// failures: "running" for ever after a crash (deer-flow#1087); a pre-charge never settled (new-api#4429).

test("a run killed in its model call goes on in the next process with the very tokens that the dead one held", async () => {
  const database = await createTestDatabase();
  const upstream = await startUpstream();
  const config = {
    providers: [{ name: "lab", kind: "openai-compatible", base_url: upstream.url, api_key_env: "LAB_KEY" }],
    models: [
      {
        id: "lab/plain",
        provider: "lab",
        provider_model: "plain",
        input_rate: 1,
        output_rate: 2,
        context_window: 128_000,
        max_output_tokens: 4096,
      },
    ],
  };
  writeFileSync(join(database.data_dir, "purser.json"), JSON.stringify(config));
  const env = {
    PORT: "0",
    DATA_DIR: database.data_dir,
    PURSER_CONFIG: join(database.data_dir, "purser.json"),
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PURSER_KEK: `test:${randomBytes(32).toString("base64")}`,
    LAB_KEY: "lab",
    LOG_LEVEL: "silent",
    ...(database.database_url === null ? {} : { DATABASE_URL: database.database_url }),
  };
  const killed = startProcess(env);
  const { user, api_key } = await call(await killed.listening, ADMIN_KEY, "/api/v1/admin/users", {
    email: "ada@example.com",
    trial: false,
  });
  // Less than the model's worst case: one call holds all of it.
  const grant = { amount_tokens: 1000, source: "top_up" };
  await call(await killed.listening, ADMIN_KEY, `/api/v1/admin/users/${user.id}/grants`, grant);
  const agent = { name: "Scout", model_id: "lab/plain", run_prompt: "Go." };
  const { id } = await call(await killed.listening, api_key.key, "/api/v1/agents", agent);
  upstream.answer(hanging(), completion("Done."));
  const { id: run_id } = await call(await killed.listening, api_key.key, `/api/v1/agents/${id}/runs`, {});
  await upstream.until(() => upstream.requests.length === 1);
  // Alone, a hold may be lost with its process; what is committed after it makes it last.
  await call(await killed.listening, api_key.key, "/api/v1/agents", agent);
  killed.signal("SIGKILL");
  await killed.ended;

  // Nobody waits 45 s here for the dead worker's lease to end.
  const db = await database.open();
  await db.query({ text: "update run set lease_until = now() where lease_until is not null" });
  await db.close();
  const next = startProcess(env);
  const url = await next.listening;
  const run = () => call(url, api_key.key, `/api/v1/agents/${id}/runs/${run_id}`);
  await expect.poll(async () => (await run()).finished_at, { timeout: 20_000 }).not.toBeNull();
  expect(await run()).toMatchObject({ status: "succeeded", attempt: 2, output: "Done.", usage: { cost_tokens: 18 } });
  const { balance } = await call(url, api_key.key, "/api/v1/users/me");
  expect(balance).toMatchObject({ posted: 982, held: 0 });
  next.signal("SIGTERM");
  expect((await next.ended).code).toBe(0);
  await upstream.close();
  await database.drop();
});

// biome-ignore lint/suspicious/noExplicitAny: tests read whatever JSON came
async function call(url: string, key: string, path: string, body?: unknown): Promise<any> {
  const response = await fetch(`${url}${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return response.json();
}
