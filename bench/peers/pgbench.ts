import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type PostgresServer, postgresBinaries, runSql } from "../../test/support/postgres-server.ts";

/**
 * The cost of a charge in PostgreSQL alone, without Purser's code: pgbench locks an account's row, takes from its
 * oldest bucket, inserts an entry and returns the balance, one transaction per charge.
 */

const SCHEMA = `
  create table account (id integer primary key, balance bigint not null) with (fillfactor = 50);
  create table bucket (account_id integer, id integer, remaining bigint not null, primary key (account_id, id))
    with (fillfactor = 50);
  create table entry (account_id integer, at timestamptz not null default clock_timestamp(), amount bigint not null);
  insert into account select id, 2000000000000 from generate_series(1, 10000) id;
  insert into bucket select id, part, 1000000000000 from generate_series(1, 10000) id, generate_series(1, 2) part;
  create index on entry (account_id, at);
`;
const charge = (account: string) => `
  \\set id ${account}
  begin;
  select balance from account where id = :id for update;
  update bucket set remaining = remaining - 7
    where account_id = :id
      and id = (select id from bucket where account_id = :id and remaining >= 7 order by id limit 1);
  insert into entry (account_id, amount) values (:id, -7);
  update account set balance = balance - 7 where id = :id returning balance;
  commit;
`;
const SCRIPTS = { one: charge("1"), many: charge("random(1, 10000)") } as const;

export interface PgBench {
  /** Charges a second, by `clients` at once on one account or on 10,000. */
  charges(accounts: keyof typeof SCRIPTS, clients: number, seconds: number): Promise<number>;
  drop(): void;
}

/** Creates the tables in their own database. */
export async function createPgBench(server: PostgresServer): Promise<PgBench> {
  const folder = mkdtempSync(join(tmpdir(), "pgbench-"));
  const url = server.url("pgbench");
  await runSql(server.url("postgres"), "create database pgbench");
  await runSql(url, SCHEMA);
  for (const [name, script] of Object.entries(SCRIPTS)) writeFileSync(join(folder, name), script);
  return {
    async charges(accounts, clients, seconds) {
      const script = join(folder, accounts);
      const args = ["-n", "-M", "prepared", "-f", script, "-c", `${clients}`, "-j", "1", "-T", `${seconds}`, url];
      const text = await outputOf(join(postgresBinaries() ?? "", "pgbench"), args);
      const found = /^tps = ([\d.]+)/m.exec(text)?.[1];
      if (found === undefined) throw new Error(`pgbench gave no figure:\n${text}`);
      return Number(found);
    },
    drop: () => rmSync(folder, { recursive: true, force: true }),
  };
}

async function outputOf(command: string, args: readonly string[]): Promise<string> {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  child.stdout.on("data", (chunk) => {
    text += chunk;
  });
  child.stderr.on("data", (chunk) => {
    text += chunk;
  });
  await new Promise((resolve, reject) => {
    child.once("exit", resolve);
    child.once("error", reject);
  });
  return text;
}
