import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { runSql } from "../support/postgres-server.ts";
import { runPurser, startProcess } from "../support/process.ts";

// `purser create-user` and `purser grant`.

const KEK = `k1:${Buffer.alloc(32, 5).toString("base64")}`;

let folder: string;
let database: TestDatabase;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "purser-users-"));
  database = await createTestDatabase();
});
afterAll(async () => {
  await database.drop();
  rmSync(folder, { recursive: true });
});

describe("commands for users", () => {
  it("create-user and grant work while the service runs on PostgreSQL, and the audit agrees", async () => {
    const env = { DATABASE_URL: database.database_url ?? "", PURSER_KEK: KEK, DATA_DIR: join(folder, "users") };
    const made = await runPurser(["create-user", "ada@example.com", "--no-trial"], env);
    expect([made.code, made.stderr]).toEqual([0, ""]);
    expect(made.stdout).toMatch(
      /^created ada@example\.com: [0-9a-f-]{36}\nAPI key, shown this once: purser_live_\w+\n$/,
    );
    const granted = await runPurser(["grant", "ada@example.com", "--tokens", "5000", "--note", "a lost top-up"], env);
    expect([granted.code, granted.stderr]).toEqual([0, ""]);
    const audit = await runPurser(["audit"], env);
    expect([audit.code, audit.stdout]).toEqual([0, expect.stringContaining("the ledger is in order")]);
    const [upkeep] = await runSql(
      env.DATABASE_URL,
      "select kind, problem, succeeded_at = ended_at as is_good from upkeep",
    );
    expect(upkeep).toEqual({ kind: "audit", problem: null, is_good: true });
    const rows = await runSql(env.DATABASE_URL, "select note from bucket where note is not null");
    expect(rows).toEqual([{ note: "a lost top-up" }]);
    const stranger = await runPurser(["grant", "bob@example.com", "--tokens", "5"], env);
    expect([stranger.code, stranger.stderr]).toEqual([
      1,
      // The database's client may write a warning about its own next version before it.
      expect.stringMatching(/there is no user bob@example\.com: give the whole e-mail address or the id\n$/),
    ]);
  });

  it("create-user and grant name the operator API while a service has the embedded database open", async () => {
    const DATA_DIR = join(folder, "in-use");
    const service = startProcess({ PORT: "0", DATA_DIR });
    try {
      await service.listening;
      const answers = await Promise.all([
        runPurser(["create-user", "ada@example.com"], { DATA_DIR }),
        runPurser(["grant", "ada@example.com", "--tokens", "5"], { DATA_DIR }),
      ]);
      expect(answers.map(({ code, stdout }) => [code, stdout])).toEqual([
        [1, ""],
        [1, ""],
      ]);
      const asking = `the embedded database in ${DATA_DIR} open: ask it with POST /api/v1/admin/users`;
      expect(answers[0]?.stderr).toContain(`${asking} and PURSER_ADMIN_KEY`);
      expect(answers[1]?.stderr).toContain(`${asking}/{id}/grants and PURSER_ADMIN_KEY`);
    } finally {
      service.signal("SIGTERM");
      await service.ended;
    }
  });

  it("grant finds its user among two hundred newer ones whose addresses contain the same text", async () => {
    const env = { DATABASE_URL: database.database_url ?? "", PURSER_KEK: KEK, DATA_DIR: join(folder, "users") };
    await runPurser(["create-user", "ann@example.com", "--no-trial"], env);
    await runSql(
      env.DATABASE_URL,
      `with newer as (
          insert into users (id, email, created_at)
          select ('ffffffff-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'j' || n || 'ann@example.com', now()
          from generate_series(1, 200) as n returning id
        ) insert into account (user_id, opened_at) select id, now() from newer`,
    );
    const { code, stdout } = await runPurser(["grant", "Ann@example.com", "--tokens", "5"], env);
    expect([code, stdout]).toEqual([0, expect.stringContaining("granted 5 tokens to ann@example.com")]);
  });
});
