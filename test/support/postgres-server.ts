import { execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";

/** A PostgreSQL server of the test's own on loopback, with fsync on. Its folder, temporary unless given, is deleted with it. */
export interface PostgresServer {
  /** The address of a database, which may not exist yet: `url("name")`. */
  url(database: string): string;
  stop(): Promise<void>;
}

/** The folder of the newest server binaries on this machine, or null. Debian keeps them off the PATH. */
export function postgresBinaries(): string | null {
  const root = "/usr/lib/postgresql";
  const debian = existsSync(root) ? readdirSync(root).map((version) => join(root, version, "bin")) : [];
  const others = (process.env.PATH ?? "").split(":");
  const found = [...debian.sort().reverse(), ...others].filter((folder) => existsSync(join(folder, "initdb")));
  return found[0] ?? null;
}

/** The server does not run as root, so root runs it as the user that Debian's package made. */
function serverUser(): { uid: number; gid: number } | null {
  if (process.getuid?.() !== 0) return null;
  const id = (flag: string) => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }));
  return { uid: id("-u"), gid: id("-g") };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

/**
 * Starts a server. Rejects without server binaries (install the package `postgresql`). With `standby_of`, it is a
 * streaming standby of that server.
 */
export async function startPostgres(
  options: { settings?: readonly string[]; folder?: string; standby_of?: PostgresServer; wal_folder?: string } = {},
): Promise<PostgresServer> {
  const { settings = [], folder = mkdtempSync(join(tmpdir(), "purser-postgres-")), standby_of } = options;
  const binaries = postgresBinaries();
  if (binaries === null) throw new Error("no PostgreSQL server binaries here: install the package postgresql");
  const user = serverUser();
  const data = join(folder, "data");
  if (user !== null) chownSync(folder, user.uid, user.gid);
  const as = user ?? {};
  const { wal_folder } = options;
  if (user !== null && wal_folder !== undefined) chownSync(wal_folder, user.uid, user.gid);
  const wal = wal_folder === undefined ? [] : ["-X", join(wal_folder, "wal")];
  const [program, ...args] =
    standby_of === undefined
      ? ["initdb", "-D", data, "-U", "purser", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", ...wal]
      : ["pg_basebackup", "-D", data, "-R", "-d", standby_of.url("postgres"), "--checkpoint=fast", "--no-sync"];
  execFileSync(join(binaries, program as string), args, { ...as, cwd: folder, stdio: "pipe" });
  const start = async (port: number): Promise<PostgresServer | null> => {
    const params = [
      `port=${port}`,
      "listen_addresses=127.0.0.1",
      `unix_socket_directories=${folder}`,
      "max_connections=300",
      ...settings,
    ];
    const args = ["-D", data, ...params.flatMap((param) => ["-c", param])];
    const server = spawn(join(binaries, "postgres"), args, { ...as, cwd: folder, stdio: "ignore" });
    const exited = new Promise<void>((resolve) => server.once("exit", () => resolve()));
    const url = (database: string) => `postgres://purser@127.0.0.1:${port}/${database}`;
    if (!(await Promise.race([untilReady(url("postgres")).then(() => true), exited.then(() => false)]))) return null;
    const remove = () => rmSync(folder, { recursive: true, force: true });
    // An interrupted test leaves no server behind.
    const end = () => server.kill("SIGQUIT") && remove();
    process.once("exit", end);
    const stop = async () => {
      process.off("exit", end);
      server.kill("SIGINT");
      await exited;
      remove();
    };
    return { url, stop };
  };
  // Another process may take the port between its choice and its use.
  for (let tries = 1; tries <= 3; tries += 1) {
    const server = await start(await freePort());
    if (server !== null) return server;
  }
  throw new Error(`the PostgreSQL server in ${folder} ends at once`);
}

async function untilReady(url: string): Promise<void> {
  const deadline = performance.now() + 30_000;
  for (;;) {
    try {
      await runSql(url, "select 1");
      return;
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** Runs one statement on a new connection. */
export async function runSql(url: string, text: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

/**
 * The sessions of the database that wait for a lock. It has a connection of its own, because in a transaction this view
 * lacks connections that were opened after it was first read.
 */
export function waitingForLocks(url: string): Promise<unknown[]> {
  return runSql(url, "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'");
}
