import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, inject, test } from "vitest";
import { createTestDatabase } from "../support/database.ts";
import { LAB_KEY, labConfig } from "../support/lab.ts";
import { startProcess } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { startUpstream } from "../support/upstream.ts";

const DAY_MS = 86_400_000;
const MOVABLE_CLOCK = import.meta.resolve("../support/movable-clock.ts");

/** A service whose system clock the test moves, with a user on trial and a user with a plan, a bucket and a schedule. */
async function startNode() {
  const upstream = await startUpstream();
  const database = await createTestDatabase();
  const file = (name: string) => join(database.data_dir, name);
  writeFileSync(file("purser.json"), JSON.stringify(labConfig(upstream)));
  const moveClock = (days: number) => writeFileSync(file("clock"), `${days * DAY_MS}`);
  moveClock(0);
  const env: Record<string, string> = {
    PORT: "0",
    DATA_DIR: database.data_dir,
    PURSER_CONFIG: file("purser.json"),
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PURSER_KEK: `test:${randomBytes(32).toString("base64")}`,
    LAB_KEY,
    NODE_OPTIONS: `--import ${MOVABLE_CLOCK}`,
    CLOCK_FILE: file("clock"),
    ...(database.database_url === null ? {} : { DATABASE_URL: database.database_url }),
  };
  let process = startProcess(env);
  let url = await process.listening;
  // biome-ignore lint/suspicious/noExplicitAny: tests read any field
  const send = async (method: string, path: string, key: string, body?: unknown): Promise<any> => {
    const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
    const response = await fetch(`${url}${path}`, {
      method,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
    });
    return response.json();
  };
  const admin = (method: string, path: string, body?: unknown) =>
    send(method, `/api/v1/admin/${path}`, ADMIN_KEY, body);
  const tried = await admin("POST", "users", { email: "trial@example.com" });
  const paying = await admin("POST", "users", { email: "paid@example.com", trial: false });
  const in_30_days = new Date(Date.now() + 30 * DAY_MS).toISOString();
  await admin("POST", `users/${paying.user.id}/grants`, {
    amount_tokens: 5_000,
    source: "top_up",
    expires_at: in_30_days,
  });
  await admin("POST", `users/${paying.user.id}/subscription`, { plan_id: "starter" });
  const daily = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" };
  const agent = await send("POST", "/api/v1/agents", paying.api_key.key, {
    name: "daily",
    model_id: "lab/plain",
    run_prompt: "Go.",
    ...daily,
  });
  return {
    moveClock,
    stderr: () => process.stderr(),
    readyz: async () => (await fetch(`${url}/readyz`)).status,
    ask: () =>
      send("POST", "/api/v1/chat/completions", paying.api_key.key, {
        model: "lab/plain",
        messages: [{ role: "user", content: "hello" }],
      }),
    /** The completion's charge aside, nothing of it may change. */
    async state() {
      const of = (path: string, { api_key } = paying) => send("GET", `/api/v1/${path}`, api_key.key);
      const { buckets } = await of("users/me/buckets?limit=100");
      const { balance: trial_balance, is_trial } = await of("users/me", tried);
      return {
        // biome-ignore lint/suspicious/noExplicitAny: tests read any field
        buckets: buckets.map(({ id, expires_at }: any) => ({ id, expires_at })),
        renews_at: (await of("billing/subscription")).current_period_end,
        trial: { is_trial, available: trial_balance.available },
        next_run_at: (await of(`agents/${agent.id}`)).next_run_at,
        runs: (await of(`agents/${agent.id}/runs`)).runs.length,
        occurrences: (await of(`agents/${agent.id}/occurrences`)).occurrences.length,
      };
    },
    created_at: async () =>
      (await send("POST", "/api/v1/agents", paying.api_key.key, { name: "new", model_id: "lab/plain" })).created_at,
    async restart() {
      process.signal("SIGKILL");
      await process.ended;
      process = startProcess(env);
      url = await process.listening;
    },
    async stop() {
      process.signal("SIGKILL");
      await process.ended;
      await upstream.close();
      await database.drop();
    },
  };
}

test.each([40, -40])(
  "when a node's clock is set by %i days, nothing expires, renews or becomes due, also not by its calls",
  async (days) => {
    const node = await startNode();
    try {
      const before = await node.state();
      expect(before.trial.is_trial).toBe(true);
      node.moveClock(days);
      // Sweeps and calls go on.
      for (let nth = 0; nth < 15; nth += 1) {
        expect((await node.ask()).choices).toHaveLength(1);
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
      expect(await node.state()).toEqual(before);
      expect(Math.abs(Date.parse(await node.created_at()) - Date.now())).toBeLessThan(60_000);
      const is_embedded = inject("storage").kind === "embedded";
      expect(node.stderr()).toContain(is_embedded ? "this machine's clock was set" : "this node's clock is wrong");
      await expect.poll(node.readyz).toBe(is_embedded ? 200 : 503);
      node.moveClock(0);
      await expect.poll(node.stderr).toContain("this node's clock is right again");
      await expect.poll(node.readyz).toBe(200);
      expect(await node.state()).toEqual(before);
    } finally {
      await node.stop();
    }
  },
);

test.skipIf(inject("storage").kind === "embedded")(
  "a node that starts with a clock that is 40 days ahead of the database's expires nothing, also not by its calls",
  async () => {
    const node = await startNode();
    try {
      const before = await node.state();
      node.moveClock(40);
      await node.restart();
      expect((await node.ask()).choices).toHaveLength(1);
      expect(await node.readyz()).toBe(503);
      expect(await node.state()).toEqual(before);
    } finally {
      await node.stop();
    }
  },
);
