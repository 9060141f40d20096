import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, inject, it } from "vitest";
import { dumpSchema } from "../../migrations/schema.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { readDefinitions } from "../../src/platform/db/sql-functions.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

let database: TestDatabase;
let db: Db;

beforeEach(async () => {
  database = await createTestDatabase();
  db = await database.open();
});

afterEach(async () => {
  await db.close();
  await database.drop();
});

const restart = async () => {
  await db.close();
  db = await database.open();
};

it("schema.sql is the schema of a database on this storage (npm run schema writes it)", async () => {
  expect(await dumpSchema(db)).toBe(readFileSync(join(import.meta.dirname, "../../schema.sql"), "utf8"));
});

describe.runIf(inject("storage").kind === "postgres")("the SQL functions of a database", () => {
  const OTHER = "create or replace function ledger_used_percent(granted bigint, posted bigint) returns integer";
  const bodyOf = async (name: string) => {
    const [row] = await db.query<{ body: string }>({
      text: "select prosrc as body from pg_proc where proname = $1",
      values: [name],
    });
    return row?.body ?? "";
  };
  const leaveBy = async (release: string) => {
    await db.query({ text: `${OTHER} language sql immutable as $$ select 7 $$` });
    await db.query({ text: "update sql_definition set release = $1", values: [release] });
    await db.query({ text: "update sql_definition set sha256 = 'other' where name = 'ledger_used_percent'" });
  };

  it("those of a newer release stay when an older node starts", async () => {
    await leaveBy("99.0.0");
    await restart();
    expect(await bodyOf("ledger_used_percent")).toBe(" select 7 ");
  });

  it("those of an older release are replaced when a newer node starts", async () => {
    await leaveBy("0.0.1");
    await restart();
    expect(await bodyOf("ledger_used_percent")).toContain("granted - posted");
    expect(await db.query({ text: "select distinct release from sql_definition" })).toHaveLength(1);
  });

  it("those that are unchanged are not applied again", async () => {
    const times = () => db.query({ text: "select name, applied_at from sql_definition order by name" });
    const before = await times();
    await restart();
    expect(await times()).toEqual(before);
  });

  it("all have a body that the database accepts, also where it does not check the body at creation", async () => {
    for (const { name, text } of readDefinitions()) {
      for (const created of text.split(/^(?=create )/m)) {
        if (!created.startsWith("create or replace function")) continue;
        await expect(db.query({ text: created }), name).resolves.toEqual([]);
      }
    }
  });
});
