import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { gunzipSync } from "node:zlib";
import { readUsageOfAll } from "../src/operator/usage.store.ts";
import type { Db } from "../src/platform/db/db.ts";
import { openDb } from "../src/platform/db/open-db.ts";
import { newId } from "../src/platform/lib/ids.ts";
import { createLog } from "../src/platform/telemetry/log.ts";
import { createLedgerFixture, holdOf, settleOf } from "./properties/ledger-fixture.ts";
import { newDatabaseFolder } from "./support/folder.ts";
import { runSql, startPostgres } from "./support/postgres-server.ts";
import { type CommandResult, runPurser, startProcess, startPurser } from "./support/process.ts";

// `npm run kill-commands -- [--users 5000] [--kills 10] [--seed 1] [--only archive|copies]`: kill -9 of archive, move and restore at random moments, and
// of the service before the move. Each command is then run again to its end. Exits with 1 if rows differ or an audit fails.

const { values } = parseArgs({
  options: {
    users: { type: "string", default: "5000" },
    kills: { type: "string", default: "10" },
    seed: { type: "string", default: "1" },
    only: { type: "string" },
  },
});
const [users, kills, seed] = [Number(values.users), Number(values.kills), Number(values.seed)];
const KEK = `k1:${Buffer.alloc(32, 9).toString("base64")}`;
const ARCHIVED_USERS = 200;
const CALLS_A_MONTH = 20;
const MONTHS = ["2026-05", "2026-06", "2026-07", "2026-08", "2026-09"];
const ARCHIVE_WINDOW = { from: "2026-01-01T00:00:00.000Z", to: "2028-01-01T00:00:00.000Z", group_by: "user" } as const;

let state = seed;
/** A number from 0 to 1, by the seed. */
function random(): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return state / 2 ** 32;
}

let is_ok = true;
function report(what: string, holds: boolean, detail = ""): void {
  is_ok &&= holds;
  process.stdout.write(`${holds ? "ok    " : "FAILED"} ${what}${detail === "" ? "" : `: ${detail}`}\n`);
}

/**
 * Runs the command until it ends. Before, kills it `kills` times, each time at a random moment in the half second after its
 * first line.
 */
async function killRepeatedly(args: string[], env: Record<string, string>, after?: () => Promise<void>) {
  let killed = 0;
  for (;;) {
    const child = startPurser(args, env);
    let is_over = false;
    child.ended.then(() => {
      is_over = true;
    });
    if (killed < kills) {
      while (!is_over && child.stdout() === "") await delay(2);
      await Promise.race([child.ended, delay(random() * 500)]);
      child.kill();
    }
    const ended = await child.ended;
    if (ended.code !== null) return { ...ended, killed };
    killed += 1;
    await after?.();
  }
}

function reportCommand(name: string, { code, stdout, stderr, killed }: CommandResult & { killed: number }): void {
  report(
    `${name} after ${killed} kills`,
    code === 0 && killed > 0,
    `exit ${code}${stderr === "" ? "" : `, ${stderr.trim()}`}`,
  );
  for (const line of stdout.split("\n")) {
    if (/compared|in order|moved|VIOLATION/i.test(line)) process.stdout.write(`         ${line}\n`);
  }
}

const rowsIn = (folder: string, table: string) =>
  readdirSync(folder)
    .filter((file) => file.startsWith(`${table}-`) && file.endsWith(".gz"))
    .map(
      (file) =>
        gunzipSync(readFileSync(join(folder, file)))
          .toString()
          .split("\n").length - 1,
    )
    .reduce((sum, rows) => sum + rows, 0);

/** Calls of five closed months, one account after another. */
async function fillMonths(db: Db): Promise<void> {
  const { ledger, clock, account } = createLedgerFixture(db, `${MONTHS[0]}-01T00:00:00.000Z`);
  const user_ids: string[] = [];
  for (let n = 0; n < ARCHIVED_USERS; n += 1) user_ids.push(await account(100_000_000));
  for (const month of MONTHS) {
    for (let call = 0; call < CALLS_A_MONTH; call += 1) {
      clock.put(`${month}-${String(1 + call).padStart(2, "0")}T12:00:00.000Z`);
      await Promise.all(
        user_ids.map(async (user_id) => {
          const hold_id = newId();
          await ledger.hold(holdOf(user_id, 100, { hold_id }));
          const labels = { user: `customer-${call % 3}` };
          await ledger.settle(settleOf(user_id, hold_id, 1 + Math.floor(random() * 90), { labels }));
        }),
      );
    }
  }
}

async function archive(database_url: string, folder: string): Promise<void> {
  const data_dir = join(folder, "archive-data");
  const files = join(folder, "archive");
  for (const each of [data_dir, files]) mkdirSync(each);
  const db = await openDb({ database_url, data_dir, log: createLog("silent") });
  await fillMonths(db);
  const { ledger } = createLedgerFixture(db);
  const count = async (table: string) =>
    (await db.query<{ n: number }>({ text: `select count(*) as n from ${table}` }))[0]?.n;
  const before = { entry: await count("entry"), usage_event: await count("usage_event") };
  const usage = JSON.stringify(await readUsageOfAll(db, ARCHIVE_WINDOW));
  let violations = 0;
  let changes = 0;
  const check = async () => {
    violations += (await ledger.audit()).violations.length;
    if (JSON.stringify(await readUsageOfAll(db, ARCHIVE_WINDOW)) !== usage) changes += 1;
  };
  const env = { DATABASE_URL: database_url, DATA_DIR: data_dir, PURSER_KEK: KEK };
  const ended = await killRepeatedly(["archive", "--older-than", "1", "--to", files], env, check);
  await check();
  reportCommand(`archive of ${before.entry} entries and ${before.usage_event} usage events`, ended);
  report("audit after each kill", violations === 0, `${violations} violations`);
  report("usage of all after each kill", changes === 0, `${changes} times different`);
  for (const table of ["entry", "usage_event"] as const) {
    const [kept = 0, moved] = [await count(table), rowsIn(files, table)];
    report(
      `${table}: rows in files and in the database`,
      kept + moved === before[table],
      `${moved} + ${kept} of ${before[table]}`,
    );
  }
  const audited = await runPurser(["audit", "--archive", files], env);
  report("audit of the archive", audited.code === 0, audited.stdout.trim().split("\n").at(-1));
  report("files of killed attempts", !readdirSync(files).some((file) => file.endsWith(".partial")), "none are left");
  await db.close();
}

async function statuses(database_url: string): Promise<string> {
  const text = `select (select count(*) from users)::integer || ' users, runs: ' || string_agg(runs || ' ' || status, ', ' order by status) as found
    from (select status, count(*) as runs from run group by 1) as of_status`;
  const [row] = (await runSql(database_url, text)) as { found: string }[];
  return row?.found ?? "";
}

async function moveAndRestore(newDatabase: (name: string) => Promise<string>, folder: string): Promise<void> {
  const env = { DATA_DIR: join(folder, "embedded"), PURSER_KEK: KEK, PURSER_ADMIN_KEY: "operator-key", PORT: "0" };
  const filled = spawnSync(process.execPath, ["test/support/populate.ts", `${users}`, `${seed}`], {
    env: { ...process.env, ...env },
  });
  report(`${users} users`, filled.status === 0, `${filled.stderr}`.trim());
  // The service takes up the queued runs and is killed while it executes them.
  const service = startProcess(env);
  await service.listening;
  await delay(300 * random());
  service.signal("SIGKILL");
  await service.ended;
  const target = await newDatabase("moved");
  const backup = join(folder, "backup.gz");
  const backed_up = await runPurser(["backup", backup], env);
  report("backup", backed_up.code === 0, backed_up.stdout.trim().split("\n").at(-1));
  reportCommand("move", await killRepeatedly(["move", "--to", target], env));
  report("moved", true, await statuses(target));
  const restored = await newDatabase("restored");
  reportCommand("restore", await killRepeatedly(["restore", backup], { ...env, DATABASE_URL: restored }));
  report("restored", (await statuses(restored)) === (await statuses(target)), await statuses(restored));
}

process.stdout.write(`seed ${seed}\n`);
const folder = newDatabaseFolder("kill-commands");
const postgres = await startPostgres({ folder: newDatabaseFolder("kill-commands-server") });
const newDatabase = async (name: string) => {
  await runSql(postgres.url("postgres"), `create database ${name}`);
  return postgres.url(name);
};
if (values.only !== "copies") await archive(await newDatabase("archived"), folder);
if (values.only !== "archive") await moveAndRestore(newDatabase, folder);
await postgres.stop();
process.stdout.write(is_ok ? "every command was resumed, and nothing was lost\n" : "FAILED\n");
process.exit(is_ok ? 0 : 1);
