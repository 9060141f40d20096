import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { inject } from "vitest";
import type { Db } from "../../src/platform/db/db.ts";
import { openDb } from "../../src/platform/db/open-db.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { runSql } from "./postgres-server.ts";

/** A test's own database, on the storage that the suite runs on: migrated and empty, or a copy of a closed one. */
export interface TestDatabase {
  kind: "embedded" | "postgres";
  database_url: string | null;
  data_dir: string;
  open(): Promise<Db>;
  drop(): Promise<void>;
}

let sequence = 0;

export async function createTestDatabase(copied?: TestDatabase): Promise<TestDatabase> {
  const storage = inject("storage");
  const parent_folder = storage.kind === "embedded" ? dirname(storage.template) : tmpdir();
  const data_dir = mkdtempSync(join(parent_folder, "purser-test-"));
  let database_url: string | null = null;
  let drop = async () => rmSync(data_dir, { recursive: true, force: true });
  if (storage.kind === "embedded") {
    cpSync(copied?.data_dir ?? storage.template, data_dir, { recursive: true });
  } else {
    sequence += 1;
    const name = `test_${process.pid}_${sequence}`;
    const admin = storage.url;
    const template = copied === undefined ? "template" : new URL(copied.database_url ?? "").pathname.slice(1);
    await runSql(admin, `create database ${name} template ${template}`);
    database_url = Object.assign(new URL(admin), { pathname: `/${name}` }).href;
    const dropFolder = drop;
    drop = async () => {
      await runSql(admin, `drop database ${name} with (force)`);
      await dropFolder();
    };
  }
  const open = () => openDb({ database_url, data_dir, log: createLog("silent") });
  return { kind: storage.kind, database_url, data_dir, open, drop };
}

/** Inserts an agent for tests of what belongs to one. */
export async function insertAgent(db: Db, agent: { user_id: string; agent_id: string }): Promise<void> {
  await db.query({
    text: `insert into agent (user_id, id, version, name, auto_route, is_active, tools_config,
        limits, created_at, updated_at)
      values ($1, $2, 1, 'A', true, true, '{}', '{}', now(), now())`,
    values: [agent.user_id, agent.agent_id],
  });
}
