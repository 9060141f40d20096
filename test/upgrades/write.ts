import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { runSql, startPostgres } from "../support/postgres-server.ts";
import { startSite } from "../support/sites.ts";
import { startUpstream, type Upstream } from "../support/upstream.ts";
import { BEGIN, fill } from "./fill.ts";
import { KEK } from "./fixture.ts";

// `npm run upgrade-fixture -- <release>` writes test/upgrades/<release>: the rows of a database that this version has
// filled, and the names and hashes of its migrations. `--source DIR` fills it with another version of Purser: a folder with
// its source and node_modules. It needs the PostgreSQL server, as the suite does.

const ROOT = join(import.meta.dirname, "../..");
const ADMIN_KEY = "operator-key-of-the-fixture";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { source: { type: "string", default: ROOT } },
});
const [release] = positionals;
if (release === undefined) throw new Error("name the release: npm run upgrade-fixture -- 1.1.0");

const folder = mkdtempSync(join(tmpdir(), "purser-fixture-"));
const server = await startPostgres();
const database_url = server.url("filled");
const upstream = await startUpstream();
const site = await startSite({ "/prices": { body: "The price is 4." }, "/hook": { body: "" } });
try {
  await runSql(server.url("postgres"), "create database filled");
  writeFileSync(join(folder, "purser.json"), JSON.stringify(configOf(upstream)));
  await fillBy(resolve(values.source));
  const written = join(import.meta.dirname, release);
  mkdirSync(written, { recursive: true });
  writeFileSync(join(written, "rows.sql"), await dumpRows());
  writeFileSync(join(written, "migrations.json"), await dumpMigrations());
} finally {
  await Promise.all([server.stop(), upstream.close(), site.close()]);
  rmSync(folder, { recursive: true, force: true });
}

/** Starts the service in `source`, fills it and kills it. */
async function fillBy(source: string): Promise<void> {
  const env = {
    PATH: process.env.PATH,
    PORT: "0",
    DATA_DIR: folder,
    DATABASE_URL: database_url,
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PURSER_CONFIG: join(folder, "purser.json"),
    PURSER_EGRESS_ALLOW: site.host,
    PURSER_KEK: KEK,
    PURSER_PAYMENTS: "sandbox",
    PURSER_TEST_CLOCK: BEGIN,
    LAB_KEY: "sk-lab",
  };
  const child = spawn(process.execPath, ["src/main.ts"], { cwd: source, env, stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise((done) => child.once("exit", done));
  let output = "";
  child.stderr.on("data", (bytes) => {
    output += bytes;
  });
  try {
    const url = await new Promise<string>((listening, failed) => {
      child.stdout.on("data", (bytes) => {
        output += bytes;
        const line = /^listening on (\S+)$/m.exec(output)?.[1];
        if (line !== undefined) listening(line);
      });
      ended.then(() => failed(new Error(`the service ended: ${output}`)));
    });
    const link = async (): Promise<string> => {
      const found = /"link":"([^"]+)"/.exec(output)?.[1];
      if (found !== undefined) return found;
      await once(child.stderr, "data");
      return link();
    };
    await fill({ url, admin_key: ADMIN_KEY, upstream, site, link, sql: (text) => runSql(database_url, text) });
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${output}`, { cause: error });
  } finally {
    child.kill("SIGKILL");
    await ended;
  }
}

function configOf({ url }: Upstream) {
  return {
    providers: [{ name: "lab", kind: "openai-compatible", base_url: url, api_key_env: "LAB_KEY" }],
    models: [
      {
        id: "lab/plain",
        provider: "lab",
        provider_model: "plain",
        input_rate: 1,
        output_rate: 2,
        trial_eligible: true,
        context_window: 128_000,
        max_output_tokens: 4096,
        supports: { tools: true },
      },
    ],
  };
}

function read(text: string) {
  return runSql(database_url, text) as Promise<Record<string, string>[]>;
}

async function dumpMigrations(): Promise<string> {
  const rows = await read(`select name, sha256 from schema_migration order by name collate "C"`);
  return `${JSON.stringify(Object.fromEntries(rows.map(({ name, sha256 }) => [name, sha256])), null, 2)}\n`;
}

/** One insert per table that has rows, one line per row. */
async function dumpRows(): Promise<string> {
  const tables = await read(`select relname as name, string_agg(quote_ident(attname), ', ' order by attnum) as columns
    from pg_class join pg_attribute on attrelid = pg_class.oid
    where relnamespace = 'public'::regnamespace and relkind = 'r' and attnum > 0 and not attisdropped
      and relname not in ('schema_migration', 'sql_definition')
    group by relname order by relname collate "C"`);
  const inserts: string[] = [];
  for (const { name, columns } of tables) {
    const [all] = await read(`select string_agg(to_jsonb(t)::text, E',\\n' order by t) as rows from ${name} t`);
    if (all?.rows === null) continue;
    const rows = all?.rows?.replaceAll("'", "''");
    inserts.push(
      `insert into ${name} (${columns})\nselect ${columns} from jsonb_populate_recordset(null::${name}, '[\n${rows}\n]');\n`,
    );
  }
  const head = `-- The rows of a filled database. Written by \`npm run upgrade-fixture -- ${release}\`.\n`;
  return [head, ...inserts].join("\n");
}
