import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type RunningProcess, startProcess } from "../support/process.ts";

// The embedded database has checkpoints every 30 s. Timers of this length run a hundred times faster here.

const FAST_TIMERS = `const set = globalThis.setInterval;
globalThis.setInterval = (work, ms, ...given) => set(work, ms === 30000 ? 300 : ms, ...given);`;
const ADMIN_KEY = "operator-key-of-the-tests";

let folder: string;
let service: RunningProcess;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "purser-idle-"));
  const NODE_OPTIONS = `--import data:text/javascript;base64,${Buffer.from(FAST_TIMERS).toString("base64")}`;
  service = startProcess({ PORT: "0", DATA_DIR: folder, PURSER_ADMIN_KEY: ADMIN_KEY, NODE_OPTIONS });
});
afterEach(async () => {
  service.signal("SIGKILL");
  await service.ended;
  rmSync(folder, { recursive: true, force: true });
});

/** The time of the last checkpoint, which writes this file. */
const checkpointed = () => statSync(join(folder, "database/pgdata/global/pg_control")).mtimeMs;

it("an idle service makes no checkpoint of its embedded database, and one after a write", async () => {
  const url = await service.listening;
  const secondsWithout = async () => {
    const before = checkpointed();
    await delay(2_000);
    return checkpointed() === before;
  };
  await expect.poll(secondsWithout).toBe(true);
  const idle = checkpointed();
  const body = JSON.stringify({ email: "ada@example.com" });
  const headers = { Authorization: `Bearer ${ADMIN_KEY}`, "Content-Type": "application/json" };
  expect((await fetch(`${url}/api/v1/admin/users`, { method: "POST", headers, body })).status).toBe(201);
  await expect.poll(checkpointed).toBeGreaterThan(idle);
});
