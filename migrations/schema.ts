import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Sql } from "../src/platform/db/db.ts";
import { openDb } from "../src/platform/db/open-db.ts";
import { createLog } from "../src/platform/telemetry/log.ts";

// `npm run schema` writes schema.sql: the schema of a new database, the same on both storages. A test compares it.

/** All tables in the order of their names, each with its columns, constraints, indexes and triggers. */
const TABLES = `select relname as name, concat_ws(E'\\n',
    format(E'create table %I (\\n%s\\n)%s;', relname, (
        select string_agg(format('  %I %s%s%s%s', attname, format_type(atttypid, atttypmod),
            case when attstorage <> typstorage then ' storage ' || attstorage::text end,
            case attgenerated when 's' then ' generated always as (' || pg_get_expr(adbin, adrelid) || ') stored' else ' default ' || pg_get_expr(adbin, adrelid) end, case when attnotnull then ' not null' end), E',\\n' order by attnum)
          from pg_attribute join pg_type on pg_type.oid = atttypid
          left join pg_attrdef on adrelid = attrelid and adnum = attnum
          where attrelid = pg_class.oid and attnum > 0 and not attisdropped
      ), ' with (' || array_to_string(reloptions, ', ') || ')'),
    (select string_agg(format('alter table %I add constraint %I %s;', relname, conname, pg_get_constraintdef(oid)), E'\\n'
        order by contype, conname)
      from pg_constraint where conrelid = pg_class.oid and contype in ('p', 'u', 'c', 'f')),
    (select string_agg(pg_get_indexdef(indexrelid) || ';', E'\\n' order by indexrelid::regclass::text)
      from pg_index where indrelid = pg_class.oid
        and not exists (select from pg_constraint where conindid = indexrelid and contype in ('p', 'u'))),
    (select string_agg(pg_get_triggerdef(oid) || ';', E'\\n' order by tgname)
      from pg_trigger where tgrelid = pg_class.oid and not tgisinternal)
  ) as text
  from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' order by relname collate "C"`;

/** All functions, without their bodies: these are in src/<module>/sql. */
const FUNCTIONS = `select
    format('-- function %s(%s) returns %s', proname, pg_get_function_arguments(oid), pg_get_function_result(oid)) as text
  from pg_proc where pronamespace = 'public'::regnamespace
  order by proname collate "C", pg_get_function_identity_arguments(oid)`;

/** The schema of a database as text. */
export async function dumpSchema(sql: Pick<Sql, "query">): Promise<string> {
  const tables = await sql.query<{ text: string }>({ text: TABLES });
  const functions = await sql.query<{ text: string }>({ text: FUNCTIONS });
  return [
    "-- Written by `npm run schema`. The schema of a database: its tables; its functions are in src/<module>/sql.",
    ...tables.map(({ text }) => text),
    functions.map(({ text }) => text).join("\n"),
    "",
  ]
    .join("\n\n")
    .replace(/\n\n$/, "\n");
}

if (import.meta.main) {
  const folder = mkdtempSync(join(tmpdir(), "purser-schema-"));
  const db = await openDb({ database_url: null, data_dir: folder, log: createLog("silent") });
  writeFileSync(join(import.meta.dirname, "../schema.sql"), await dumpSchema(db));
  await db.close();
  rmSync(folder, { recursive: true, force: true });
}
