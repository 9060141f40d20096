import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { openDb } from "../../src/platform/db/open-db.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { newDatabaseFolder } from "./folder.ts";
import { runSql, startPostgres } from "./postgres-server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** A folder with a migrated embedded database, to copy; or the URL of a server with the database `template`. */
    storage: { kind: "embedded"; template: string } | { kind: "postgres"; url: string };
  }
}

const BUILD = join(import.meta.dirname, "../../console/build.ts");

/** Makes the template that every test's database is cloned from, because migrating each one would take seconds. */
export default async function setup(project: TestProject) {
  const log = createLog("silent");
  if (project.name === "postgres") {
    const server = await startPostgres({ folder: newDatabaseFolder("postgres") });
    await runSql(server.url("postgres"), "create database template");
    const db = await openDb({ database_url: server.url("template"), data_dir: "", log });
    await db.close();
    project.provide("storage", { kind: "postgres", url: server.url("postgres") });
    return () => server.stop();
  }
  if (project.name === "console") execFileSync(process.execPath, [BUILD], { stdio: "inherit" });
  // Two projects run on embedded storage. The second one uses the first one's template, which it finds by their common root.
  const root = project.vitest.getRootProject();
  if (root.getProvidedContext().storage !== undefined) return;
  const folder = newDatabaseFolder("embedded");
  const remove = () => rmSync(folder, { recursive: true, force: true });
  process.once("exit", remove); // an interrupted run leaves nothing in memory
  const template = join(folder, "template");
  const db = await openDb({ database_url: null, data_dir: template, log });
  await db.close();
  root.provide("storage", { kind: "embedded", template });
  return remove;
}
