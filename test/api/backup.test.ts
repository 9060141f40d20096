import { rmSync } from "node:fs";
import { PassThrough } from "node:stream";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";
import pg from "pg";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { writeArchive } from "../../src/operator/backup/archive.ts";
import { createBackups } from "../../src/operator/backup/backup.service.ts";
import { createSystemClock } from "../../src/platform/lib/clock.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { newDatabaseFolder } from "../support/folder.ts";
import { metricsOf } from "../support/metrics.ts";
import { waitingForLocks } from "../support/postgres-server.ts";
import { ADMIN_KEY, type Service, startService } from "../support/service.ts";

// contract 8.12: the operator's backup.

let service: Service;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

const backUp = (key: string, headers: Record<string, string> = {}) =>
  fetch(`${service.url}/api/v1/admin/backup`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, ...headers },
  });
const acts = async () => (await service.admin.get("/api/v1/admin/acts?what=backup.create")).body.acts;

it("the age of the last backup is a metric, absent before the first one", async () => {
  expect(await metricsOf(service.url)).not.toMatch(/^purser_backup_age_seconds/m);
  await (await backUp(ADMIN_KEY)).arrayBuffer();
  expect(await metricsOf(service.url)).toMatch(/^purser_backup_age_seconds \d+(\.\d+)?$/m);
});

it("a backup needs the role admin, runs one at a time, and is in the log once", async () => {
  await service.newUser();
  const support = await service.admin.post("/api/v1/admin/keys", { name: "desk", role: "support" });
  expect((await backUp(support.body.key)).status).toBe(403);
  const both = await Promise.all([backUp(ADMIN_KEY), backUp(ADMIN_KEY)]);
  expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
  const lines = await Promise.all(both.map(async (answer) => Buffer.from(await answer.arrayBuffer())));
  const [file = Buffer.alloc(0)] = lines.filter((_, index) => both[index]?.status === 200);
  const text = gunzipSync(file).toString().trim().split("\n");
  expect(JSON.parse(text[0] ?? "")).toMatchObject({ purser_backup: 1, tables: expect.any(Array) });
  expect(JSON.parse(text.at(-1) ?? "")).toMatchObject({ end: { users: { rows: 1 } } });
  expect(await acts()).toHaveLength(2);
  expect(await acts()).toMatchObject(
    new Array(2).fill({ who: { name: "PURSER_ADMIN_KEY" }, target: { type: "service" } }),
  );
});

it("a backup and a user's export are never stored for an Idempotency-Key, in memory or in the database", async () => {
  const user = await service.newUser();
  const headers = { "Idempotency-Key": "once" };
  const authorization = { Authorization: `Bearer ${user.key}` };
  const download = () =>
    fetch(`${service.url}/api/v1/users/me/export`, { method: "POST", headers: { ...authorization, ...headers } });
  for (const send of [() => backUp(ADMIN_KEY, headers), download, download]) {
    // The backup before ends a moment after its last byte.
    await expect
      .poll(async () => {
        const answer = await send();
        await answer.arrayBuffer();
        return [answer.status, answer.headers.get("idempotent-replayed")];
      })
      .toEqual([200, null]);
  }
  const db = await service.database.open();
  expect(await db.query({ text: "select key from idempotency_key where key = 'once'" })).toEqual([]);
  await db.close();
});

it("a backup has one state of all tables, also if they change while it is made", async () => {
  const url = service.database.database_url ?? "";
  const db = await service.database.open();
  const writer = new pg.Client(url);
  await writer.connect();
  await writer.query("create table noise (id integer)");
  await writer.query("begin; lock table noise; insert into noise values (1)");
  const out = new PassThrough();
  const written = writeArchive(db, createSystemClock().now(), out);
  const file = buffer(out);
  await expect.poll(async () => (await waitingForLocks(url)).length, { interval: 10 }).toBe(1);
  await writer.query("commit");
  await written;
  await writer.query("drop table noise");
  await Promise.all([writer.end(), db.close()]);
  expect(gunzipSync(await file).toString()).toContain('"noise":{"rows":0,');
});

it("a backup ends if its caller stops reading, so that the next one can begin", async () => {
  const db = await service.database.open();
  await db.query({ text: "create table noise as select gen_random_uuid() as id from generate_series(1, 200000)" });
  const folder = newDatabaseFolder("backup");
  const log = createLog("silent");
  const backUpAgain = createBackups({
    db,
    clock: createSystemClock(),
    data_dir: folder,
    log,
    onEnded: async () => {},
    stalled_ms: 50,
  });
  const unread = backUpAgain();
  expect(backUpAgain).toThrow("backup");
  const next = await vi.waitFor(backUpAgain, 60_000);
  await next.body?.cancel();
  await expect(unread.arrayBuffer()).rejects.toThrow("stopped reading");
  await db.query({ text: "drop table noise" });
  await db.close();
  rmSync(folder, { recursive: true });
});
