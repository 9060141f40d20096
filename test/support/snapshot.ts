import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { TestDatabase } from "./database.ts";
import { runSql } from "./postgres-server.ts";
import type { Client, Service } from "./service.ts";

/**
 * All stored rows, to compare before and after, but for the log of failed requests. Embedded storage belongs to the process that serves from it, so there it
 * is the API's lists instead.
 */
export async function snapshot(service: Service, user: Client): Promise<Record<string, unknown>> {
  return service.database.kind === "postgres" ? rowCounts(service) : listed(service, user);
}

async function rowCounts({ database }: Service): Promise<Record<string, number>> {
  const tables = (await tableNames(database)).filter((name) => name !== "failed_request");
  const counts = tables.map((name) => `(select count(*)::integer from "${name}") as "${name}"`);
  const [row] = await runSql(database.database_url ?? "", `select ${counts.join(", ")}`);
  return row as Record<string, number>;
}

async function listed(service: Service, user: Client): Promise<Record<string, unknown>> {
  const lists = [
    "api-keys",
    "agents",
    "secrets",
    "users/me/transactions",
    "users/me/buckets?include=closed",
    "billing/subscription",
    "billing/purchases",
    "billing/overage",
  ];
  const answers = await Promise.all(lists.map((list) => user.get(`/api/v1/${list}`)));
  const users = await service.admin.get("/api/v1/admin/users");
  // Every use of a key changes this time.
  const text = JSON.stringify([users, ...answers].map(({ body }) => body));
  return { listed: JSON.parse(text.replaceAll(/"last_used_at":("[^"]*"|null)/g, '"last_used_at":null')) };
}

/** All stored data, to search for leaks: rows as text on PostgreSQL, the files on embedded storage. */
export async function storedBytes(service: Pick<Service, "database">): Promise<Buffer> {
  if (service.database.kind === "embedded") {
    const files = readdirSync(service.database.data_dir, { recursive: true, withFileTypes: true });
    return Buffer.concat(
      files.filter((file) => file.isFile()).map((file) => readFileSync(join(file.parentPath, file.name))),
    );
  }
  const tables = await tableNames(service.database);
  const texts = tables.map((name) => `select t::text as text from "${name}" t`);
  const rows = await runSql(service.database.database_url ?? "", texts.join(" union all "));
  return Buffer.from(rows.map((row) => (row as { text: string }).text).join("\n"));
}

async function tableNames({ database_url }: TestDatabase): Promise<string[]> {
  const rows = await runSql(
    database_url ?? "",
    "select table_name as name from information_schema.tables where table_schema = 'public' order by 1",
  );
  return rows.map((row) => (row as { name: string }).name);
}
