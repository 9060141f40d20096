import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, test } from "vitest";
import { findProblems } from "../../src/cli/check.ts";
import { createFirstKey } from "../../src/cli/maintenance.ts";
import { knownMigrations } from "../../src/platform/db/migrate.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type PostgresServer, runSql, startPostgres } from "../support/postgres-server.ts";
import { runPurser } from "../support/process.ts";

// `npm start -- --check` for a new operator: each message names the setting, the fault and the solution.

const KEK = `k1:${Buffer.alloc(32, 5).toString("base64")}`;
const NOBODY = 65_534;

let folder: string;
let database: TestDatabase;
let locked: PostgresServer;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "purser-check-"));
  // The server's own user must be able to read its hba file.
  chmodSync(folder, 0o755);
  const hba = join(folder, "hba.conf");
  writeFileSync(hba, "host all purser all trust\nhost all all all scram-sha-256\n");
  [database, locked] = await Promise.all([createTestDatabase(), startPostgres({ settings: [`hba_file=${hba}`] })]);
  await runSql(locked.url("postgres"), "create role ada login password 'right'");
});
afterAll(async () => {
  await Promise.all([database.drop(), locked.stop()]);
  rmSync(folder, { recursive: true });
});

const withDefaults = (env: Record<string, string>) => ({ PORT: "0", DATA_DIR: join(folder, "unmade"), ...env });
/** The output lines of the command, which runs in this process. */
const problemsOf = async (env: Record<string, string>) => (await findProblems(withDefaults(env))).problems;
const onPostgres = (url: string) => ({ DATABASE_URL: url, PURSER_KEK: KEK });
const url = (part: "user" | "name", value: string) => {
  const { port } = new URL(locked.url("postgres"));
  return part === "user"
    ? `postgres://${value}@127.0.0.1:${port}/postgres`
    : `postgres://purser@127.0.0.1:${port}/${value}`;
};
const fileWith = (name: string, text: string) => {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
};

describe("--check of a broken configuration exits with 2 and says what to do", () => {
  it("1: a missing master key", async () => {
    const problems = await problemsOf({ DATABASE_URL: database.database_url ?? "" });
    expect(problems).toEqual([expect.stringMatching(/^PURSER_KEK: it is not set.*k1:\$\(openssl rand -base64 32\)$/)]);
  });

  it("2: a master key that is too short", async () => {
    const problems = await problemsOf({ PURSER_KEK: "k1:c2hvcnQ=" });
    expect(problems).toEqual([expect.stringMatching(/^PURSER_KEK: key 1 has 5 bytes, not 32; accepted: /)]);
  });

  it("3: a DATABASE_URL with a wrong scheme, a closed port or a missing database", async () => {
    const wrong = await Promise.all([
      problemsOf(onPostgres("mysql://db/purser")),
      problemsOf(onPostgres("postgres://purser@127.0.0.1:1/purser")),
      problemsOf(onPostgres(url("name", "nowhere"))),
      problemsOf(onPostgres(`${url("name", "postgres")}?sslmode=require`)),
      problemsOf(onPostgres(`${url("name", "postgres")}?sslmode=verify-full&sslrootcert=/nowhere/ca.pem`)),
    ]);
    expect(wrong).toEqual([
      [expect.stringMatching(/^DATABASE_URL: its scheme is "mysql:"; accepted: postgres:\/\/user:password@host/)],
      ["DATABASE_URL: nothing listens at 127.0.0.1:1: start PostgreSQL there, or correct host and port"],
      ["DATABASE_URL: the database nowhere does not exist: create it (createdb nowhere), or correct the name"],
      [expect.stringMatching(/^DATABASE_URL: 127\.0\.0\.1:\d+ has no TLS: enable it there, or remove sslmode/)],
      [expect.stringMatching(/^DATABASE_URL: the file of its sslrootcert cannot be read \(ENOENT\); accepted: /)],
    ]);
  });

  it("4: a wrong password, which no message contains", async () => {
    const problems = await problemsOf(onPostgres(url("user", "ada:hunter2")));
    expect(problems).toEqual([
      expect.stringMatching(/^DATABASE_URL: the server rejects the password of the user ada: correct it\./),
    ]);
    expect(problems.join()).not.toContain("hunter2");
  });

  it("4b: a user or a database with fewer connections than a node needs", async () => {
    await runSql(locked.url("postgres"), "create role few login password 'right' connection limit 5");
    await runSql(locked.url("postgres"), "create database narrow connection limit 16");
    const problems = await Promise.all([
      problemsOf(onPostgres(url("user", "few:right"))),
      problemsOf(onPostgres(url("name", "narrow"))),
    ]);
    expect(problems[0]).toContain(
      "DATABASE_URL: few may have 5 connections, and a node needs 17: raise the limit of the user or the database, or max_connections, of which the server reserves some",
    );
    expect(problems[1]).toEqual([expect.stringContaining("purser may have 16 connections, and a node needs 17")]);
  });

  it("4c: a server that reserves connections of which a node needs one, unless its user is a superuser", async () => {
    const small = await startPostgres({ settings: ["max_connections=19", "superuser_reserved_connections=3"] });
    try {
      await runSql(small.url("postgres"), "create role ada login");
      await runSql(small.url("postgres"), "create database purser owner ada");
      const { port } = new URL(small.url("postgres"));
      const problems = await problemsOf(onPostgres(`postgres://ada@127.0.0.1:${port}/purser`));
      expect(problems).toEqual([expect.stringContaining("ada may have 16 connections, and a node needs 17")]);
      expect(await problemsOf(onPostgres(small.url("purser")))).toEqual([]);
    } finally {
      await small.stop();
    }
  });

  it("5: a misspelt PURSER_ name, but not the names that Kubernetes sets, and not the key of a client", async () => {
    const problems = await problemsOf({
      PURSER_DRAIN_SECOND: "60",
      PURSER_DATA_DIR: "/nowhere",
      PURSER_PORT_3000_TCP: "tcp://10.0.0.1:3000",
      PURSER_POSTGRESQL_SERVICE_HOST: "10.0.0.2",
      PURSER_POSTGRESQL_SERVICE_PORT_TCP_POSTGRESQL: "5432",
      PURSER_POSTGRESQL_PORT: "tcp://10.0.0.2:5432",
      PURSER_POSTGRESQL_PORT_5432_TCP_ADDR: "10.0.0.2",
      PURSER_KEY: "purser_live_x",
      POSTGRES_PASSWORD_FILE: "/run/secrets/postgres",
    });
    expect(problems).toEqual([
      "PURSER_DRAIN_SECOND: this is no setting, so it has no effect: did you mean PURSER_DRAIN_SECONDS?",
      "PURSER_DATA_DIR: this is no setting, so it has no effect: did you mean DATA_DIR?",
    ]);
  });

  it("a secret in a file that cannot be read, beside the other faults", async () => {
    expect(await problemsOf({ SMTP_URL_FILE: "/nowhere/url", PORT: "many" })).toEqual([
      expect.stringMatching(/^PORT: "many" is not a port/),
      expect.stringMatching(/^SMTP_URL: SMTP_URL_FILE names "\/nowhere\/url", which cannot be read \(ENOENT\)/),
    ]);
  });

  it("6: every fault of PURSER_CONFIG, each with its line", async () => {
    const file = fileWith("faults.yaml", "margin: -1\nplanz: []\nlimits:\n  concurrent_runs: many\n");
    const problems = await problemsOf({ PURSER_CONFIG: file });
    expect(problems.map((line) => line.slice(0, line.indexOf(";") > 0 ? line.indexOf(";") : undefined))).toEqual([
      `PURSER_CONFIG: ${file}:1: margin must be above 0`,
      expect.stringContaining(`PURSER_CONFIG: ${file}:2: planz is an unknown key (known: providers, models`),
      `PURSER_CONFIG: ${file}:4: limits.concurrent_runs must be a whole number`,
    ]);
  });

  it("7: a plan without a price", async () => {
    const file = fileWith("plan.yaml", "plans:\n  - { id: basic, name: Basic, included_tokens: 1000 }\n");
    const problems = await problemsOf({ PURSER_CONFIG: file });
    expect(problems).toEqual([expect.stringMatching(/plan\.yaml:2: plans\[0\]\.price_cents is missing; accepted: /)]);
  });

  it("a judge without its key, and one whose model is not offered", async () => {
    const judge = (fields: string) => fileWith("judge.yaml", `safety:\n  judges:\n    - { ${fields} }\n`);
    expect(await problemsOf({ PURSER_CONFIG: judge("kind: lakera, url: 'https://lakera', secret_env: LK") })).toEqual([
      expect.stringMatching(/judge\.yaml: safety\.judges\[0\]\.secret_env names LK, which is not set; accepted: /),
    ]);
    expect(await problemsOf({ PURSER_CONFIG: judge("kind: model, model: lab/gone") })).toEqual([
      expect.stringMatching(/judge\.yaml: safety\.judges\[0\]\.model "lab\/gone" is no chat model of this file/),
    ]);
  });

  it("8: a port in use", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => taken.once("listening", resolve));
    const PORT = String((taken.address() as AddressInfo).port);
    const problems = await problemsOf({ PORT });
    const running = await findProblems(withDefaults({ PORT }), { is_running: true });
    taken.close();
    expect(running.problems).toEqual([]);
    expect(problems).toEqual([
      `PORT: ${PORT} is in use on 127.0.0.1; accepted: a free port, or 0 for any that is. If Purser runs there with these settings, check with --running`,
    ]);
  });

  it("9: a data directory of another user", async () => {
    const DATA_DIR = join(folder, "closed");
    mkdirSync(DATA_DIR, { mode: 0o555 });
    const is_root = process.getuid?.() === 0;
    const as = is_root ? { uid: NOBODY, gid: NOBODY } : {};
    const { code, stderr } = await runPurser(["start", "--check"], withDefaults({ DATA_DIR }), as);
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /^DATA_DIR: the user \d+ cannot write to \S+closed \(EACCES\): run chown -R \d+ .*\n1 problem: /,
    );
  });

  it("10: a database of a newer version, on both storages", async () => {
    const newer = await createTestDatabase();
    const sql = "insert into schema_migration (name, sha256) values ('9000_later.sql', 'x')";
    await runSql(newer.database_url ?? "", sql);
    const DATA_DIR = join(folder, "newer");
    mkdirSync(join(DATA_DIR, "database/pgdata"), { recursive: true });
    writeFileSync(join(DATA_DIR, "database/schema"), "9000_later.sql\n");
    const both = await Promise.all([
      problemsOf(onPostgres(newer.database_url ?? "")),
      problemsOf({ DATA_DIR, PURSER_KEK: KEK }),
    ]);
    await newer.drop();
    const message = /the migration 9000_later\.sql, which this version (\(.+\) )?does not know: .*version/;
    for (const problems of both) expect(problems).toEqual([expect.stringMatching(message)]);
  });

  it("11: proxies and a public address that contradict each other", async () => {
    const both = await Promise.all([
      problemsOf({ PURSER_TRUSTED_PROXIES: "10.0.0.0/8" }),
      problemsOf({ PURSER_PUBLIC_URL: "https://purser.example" }),
    ]);
    expect(both.flat()).toEqual([
      expect.stringMatching(
        /^PURSER_PUBLIC_URL: PURSER_TRUSTED_PROXIES names a proxy, and PURSER_PUBLIC_URL is not set/,
      ),
      expect.stringMatching(
        /^PURSER_TRUSTED_PROXIES is not set.*Set it to the proxy's CIDR, such as 127\.0\.0\.1\/32\.$/,
      ),
    ]);
  });

  it("12: a generated master key that is missing", async () => {
    const DATA_DIR = join(folder, "keyless");
    mkdirSync(join(DATA_DIR, "database/pgdata"), { recursive: true });
    const problems = await problemsOf({ DATA_DIR });
    expect(problems).toEqual([expect.stringMatching(/keyring is missing: .*Restore that file, or set PURSER_KEK/)]);
  });

  it("finds no problem after purser migrate in an empty DATA_DIR, which creates the first master key but does not replace a lost one", async () => {
    const DATA_DIR = join(folder, "migrated");
    expect(createFirstKey(DATA_DIR)).toContain("a master key was created at");
    mkdirSync(join(DATA_DIR, "database/pgdata"), { recursive: true });
    expect(await problemsOf({ DATA_DIR })).toEqual([]);
    rmSync(join(DATA_DIR, "keyring"));
    expect([createFirstKey(DATA_DIR), existsSync(join(DATA_DIR, "keyring"))]).toEqual([null, false]);
  });

  it("prints the faults of several settings at once", async () => {
    const problems = await problemsOf({
      HOST: "999",
      PORT: "http",
      PURSER_KEK: "k1",
      DATABASE_URL: "postgres://purser@127.0.0.1:1/purser",
      PURSER_ROLE: "boss",
    });
    expect(problems.map((line) => line.split(":")[0]).toSorted()).toEqual([
      "DATABASE_URL",
      "HOST",
      "PORT",
      "PURSER_KEK",
      "PURSER_ROLE",
    ]);
  });
});

describe("--check of a working configuration", () => {
  it("exits with 0, makes no directory and leaves the database empty", async () => {
    await runSql(locked.url("postgres"), "create database fresh");
    const DATA_DIR = join(folder, "unmade");
    const [embedded, fresh, migrated] = await Promise.all([
      runPurser(["start", "--check"], withDefaults({})),
      findProblems(withDefaults(onPostgres(url("name", "fresh")))),
      findProblems(withDefaults(onPostgres(database.database_url ?? ""))),
    ]);
    expect([embedded.code, embedded.stderr]).toEqual([0, ""]);
    expect(fresh).toEqual({
      problems: [],
      notes: [expect.stringMatching(/^PostgreSQL \d+: the database is empty; the first start creates its tables$/)],
    });
    expect(migrated).toEqual({
      problems: [],
      notes: [expect.stringMatching(/: the database has the schema of this version$/)],
    });
    expect(existsSync(DATA_DIR)).toBe(false);
    const tables = await runSql(url("name", "fresh"), "select 1 from pg_tables where schemaname = 'public'");
    expect(tables).toEqual([]);
  });
});

describe("a start or a command that the database rejects", () => {
  it.each([
    ["a missing database", "start", () => url("name", "nowhere"), 'database "nowhere" does not exist'],
    ["a missing database", "audit", () => url("name", "nowhere"), 'database "nowhere" does not exist'],
    ["a wrong password", "migrate", () => url("user", "ada:hunter2"), "password authentication failed"],
    ["a user without rights", "start", () => url("user", "ada:right"), "permission denied for schema public"],
  ])("because of %s says what to do: %s", async (_, command, address, reason) => {
    const { code, stderr } = await runPurser([command], withDefaults(onPostgres(address())));
    expect(code).toBe(1);
    expect(stderr).toContain(reason);
    expect(stderr).toContain("Run purser check, and correct DATABASE_URL or the rights of its user");
    expect(stderr).not.toContain("hunter2");
    // A command answers no requests.
    expect(stderr).not.toContain("503");
  });
});

describe("a command on data that exists", () => {
  it.each([
    ["audit"],
    ["rotate-keys"],
    ["backup", "FILE"],
    ["archive", "--older-than", "1", "--to", "FILE"],
    ["create-user", "ada@example.com"],
    ["grant", "ada@example.com", "--tokens", "5"],
  ])("%s exits with 2 on a missing or an empty database, and creates nothing", async (...call) => {
    const [name = ""] = call;
    const own = mkdtempSync(join(folder, "empty-"));
    const file = join(own, "file");
    const args = call.map((part) => part.replace("FILE", file));
    const DATA_DIR = join(own, "data");
    const empty = `empty_${name.replace("-", "_")}`;
    await runSql(locked.url("postgres"), `create database ${empty}`);
    const [missing, on_server] = await Promise.all([
      runPurser(args, { DATA_DIR }),
      runPurser(args, onPostgres(url("name", empty))),
    ]);
    expect(missing).toEqual({
      code: 2,
      stdout: "",
      stderr: `there are no tables in ${DATA_DIR}: set DATA_DIR or DATABASE_URL as for the service\n`,
    });
    expect(on_server).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^there are no tables in the database of/),
    });
    expect(existsSync(DATA_DIR)).toBe(false);
    expect(existsSync(file)).toBe(false);
    expect(await runSql(url("name", empty), "select 1 from pg_tables where schemaname = 'public'")).toEqual([]);
  });

  it.each([
    ["audit"],
    ["rotate-keys"],
    ["archive", "--older-than", "1", "--to", "FILE"],
    ["create-user", "a@b.example"],
  ])("%s does not upgrade a database of an older version, because that cannot be undone", async (...call) => {
    const empty = `older_${call[0]?.replace("-", "_")}`;
    await runSql(locked.url("postgres"), `create database ${empty}`);
    expect((await runPurser(["migrate"], onPostgres(url("name", empty)))).code).toBe(0);
    const last = knownMigrations().at(-1);
    await runSql(url("name", empty), `delete from schema_migration where name = '${last}'`);
    const args = call.map((part) => part.replace("FILE", join(folder, "older")));
    expect(await runPurser(args, onPostgres(url("name", empty)))).toEqual({
      code: 1,
      stdout: "",
      stderr: `the database is of an older version: it lacks ${last}. Run this command with the version of the service, or back up and upgrade with purser migrate. Nothing was changed\n`,
    });
    const history = await runSql(url("name", empty), "select name from schema_migration");
    expect(history).toHaveLength(knownMigrations().length - 1);
  });
});

describe.runIf(process.getuid?.() === 0)("a command of root on embedded storage of another user", () => {
  it("leaves no file that this user cannot open", async () => {
    const DATA_DIR = join(folder, "of-nobody");
    mkdirSync(DATA_DIR);
    chownSync(DATA_DIR, NOBODY, NOBODY);
    const as = { uid: NOBODY, gid: NOBODY };
    const commands = [
      await runPurser(["migrate"], { DATA_DIR }),
      await runPurser(["audit"], { DATA_DIR }, as),
      await runPurser(["audit"], { DATA_DIR }),
      await runPurser(["audit"], { DATA_DIR }, as),
    ];
    expect(commands.map(({ code, stderr }) => [code, stderr])).toEqual(commands.map(() => [0, ""]));
    const paths = readdirSync(DATA_DIR, { recursive: true, encoding: "utf8" });
    expect(paths.filter((path) => statSync(join(DATA_DIR, path)).uid !== NOBODY)).toEqual([]);
  });
});

test.runIf(process.getuid?.() === 0)("a check and a start name files of another user and say what to do", async () => {
  const DATA_DIR = join(folder, "foreign");
  mkdirSync(DATA_DIR);
  chownSync(DATA_DIR, NOBODY, NOBODY);
  const as = { uid: NOBODY, gid: NOBODY };
  expect((await runPurser(["migrate"], { DATA_DIR }, as)).code).toBe(0);
  for (const foreign of ["database/pgdata/PG_VERSION", "."]) {
    const path = join(DATA_DIR, foreign);
    chownSync(path, 0, 0);
    chmodSync(path, foreign.endsWith("VERSION") ? 0o600 : 0o700);
    const calls = [["check"], ["start"]];
    const answers = await Promise.all(calls.map((call) => runPurser(call, withDefaults({ DATA_DIR }), as)));
    chownSync(path, NOBODY, NOBODY);
    const line = `DATA_DIR: the user ${NOBODY} cannot write to ${path} (EACCES): run chown -R ${NOBODY} ${DATA_DIR}, or set`;
    expect(answers.map(({ code, stderr }) => [code, stderr.includes(line)])).toEqual([
      [2, true],
      [1, true],
    ]);
  }
});
