import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { createLog } from "../../src/platform/log.ts";
import { openDb } from "../../src/platform/open-db.ts";
import { runSql, startPostgres } from "./postgres-server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** A folder with a migrated embedded database, to copy; or the URL of a server with the database `template`. */
    storage: { kind: "embedded"; template: string } | { kind: "postgres"; url: string };
  }
}

/** Makes the template that every test's own database is cloned from: migrating anew would cost seconds each time. */
export default async function setup(project: TestProject) {
  const log = createLog("silent");
  if (project.name === "postgres") {
    const server = await startPostgres();
    await runSql(server.url("postgres"), "create database template");
    const db = await openDb({ database_url: server.url("template"), data_dir: "", log });
    await db.close();
    project.provide("storage", { kind: "postgres", url: server.url("postgres") });
    return () => server.stop();
  }
  const template = mkdtempSync(join(tmpdir(), "purser-template-"));
  const db = await openDb({ database_url: null, data_dir: template, log });
  await db.close();
  project.provide("storage", { kind: "embedded", template });
  return () => rmSync(template, { recursive: true, force: true });
}
