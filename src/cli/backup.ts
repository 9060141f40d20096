import { once } from "node:events";
import { createWriteStream, existsSync, renameSync, rmSync, statSync } from "node:fs";
import { Readable, type Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { openArchive, writeArchive } from "../operator/backup/archive.ts";
import { createUpkeep } from "../operator/upkeep.store.ts";
import type { SqlSource } from "../platform/db/sql-connection.ts";
import { rejectTransfer } from "../platform/db/transfer.ts";
import { createSystemClock } from "../platform/lib/clock.ts";
import { createLog } from "../platform/telemetry/log.ts";
import { type Call, MisuseError, say } from "./command.ts";
import { openExisting } from "./existing.ts";
import { describeStorage, fill, readStorage } from "./storage.ts";

/** Readable by the owner only: it has hashes of keys, sealed secrets and everything that users wrote. */
const PRIVATE = 0o600;

/** `purser backup FILE`: writes a backup, reads it back and prints what it has. */
export async function backup({ argument: file = "", options }: Call): Promise<number> {
  if (existsSync(file)) throw new MisuseError(`${file} exists, and a backup overwrites nothing: name another file`);
  const storage = readStorage();
  const partial = `${file}.partial`;
  rmSync(partial, { force: true });
  const out = () => openedFile(partial);
  const written = async () => {
    await writeDirectly(storage, out).catch(async (error: Error) => {
      if (error.name !== "EmbeddedInUseError") throw error;
      await download({ ...storage, url: options.url }, out);
    });
    return openArchive(partial);
  };
  const { header, digests } = await written().catch((error: unknown) => {
    // It may have half of everything that users wrote.
    rmSync(partial, { force: true });
    throw error;
  });
  renameSync(partial, file);
  const rows = Object.values(digests).reduce((sum, digest) => sum + digest.rows, 0);
  const mb = (statSync(file).size / 1e6).toFixed(1);
  say(`${file}: ${header.tables.length} tables, ${rows} rows, ${mb} MB, read back completely`);
  say("It does not have the master keys: keep PURSER_KEK, or DATA_DIR/keyring, in another place");
  return 0;
}

/** Opened before anything is read: until a pipeline listens, an error of the stream would end the process. */
async function openedFile(path: string): Promise<Writable> {
  const file = createWriteStream(path, { mode: PRIVATE, flush: true });
  await once(file, "open").catch(({ code }: NodeJS.ErrnoException) => {
    throw new Error(
      `${path} cannot be written (${code}): name a file in a folder that exists and that you may write to`,
    );
  });
  return file;
}

async function writeDirectly(
  { database_url, data_dir }: { database_url: string | null; data_dir: string },
  out: () => Promise<Writable>,
): Promise<void> {
  const prepare = async (source: SqlSource) => {
    const connection = await source.connect();
    await rejectTransfer((statement) => connection.query<never>(statement).then(({ rows }) => rows)).finally(() =>
      connection.release(),
    );
  };
  const db = await openExisting({ database_url, data_dir }, prepare);
  const clock = createSystemClock();
  const upkeep = createUpkeep({ db, clock, log: createLog("warn") });
  try {
    await writeArchive(db, clock.now(), await out());
    await upkeep.ended("backup", null);
  } catch (error) {
    await upkeep.ended("backup", (error as Error).message);
    throw error;
  } finally {
    await db.close();
  }
}

/** The running service has the embedded database, so it makes the backup. */
async function download(
  { url, admin_key, host, port }: { url: string | undefined; admin_key: string | null; host: string; port: number },
  out: () => Promise<Writable>,
): Promise<void> {
  const base = url?.replace(/\/+$/, "") ?? `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
  if (admin_key === null) {
    throw new Error(
      "a running service has the embedded database, and only its operator may ask it for a backup: set PURSER_ADMIN_KEY as for the service, or stop the service",
    );
  }
  const headers = { Authorization: `Bearer ${admin_key}` };
  const response = await fetch(`${base}/api/v1/admin/backup`, { method: "POST", headers }).catch((error: Error) => {
    const reason = (error.cause as Error | undefined)?.message ?? error.message;
    throw new Error(`the service at ${base} does not answer (${reason}): name its address with --url`);
  });
  if (!response.ok || response.body === null) {
    throw new Error(await explainRejection(response, base));
  }
  say(`the service at ${base} makes the backup`);
  await pipeline(Readable.fromWeb(response.body as never), await out());
}

/** The message of the service's answer, and what to do about the key. */
async function explainRejection(response: Response, base: string): Promise<string> {
  const { status } = response;
  if (status === 401) {
    return `the service at ${base} rejects PURSER_ADMIN_KEY (401): set it to the service's PURSER_ADMIN_KEY, or to an operator key with the role admin`;
  }
  const text = await response.text();
  let message: unknown;
  try {
    message = (JSON.parse(text) as { error: { message: unknown } }).error.message;
  } catch {
    // Another program answers at this address, so its text is shown.
  }
  return `the service at ${base} answered ${status}: ${typeof message === "string" ? message : text.slice(0, 300)}`;
}

/** `purser restore FILE`: fills the empty database of the settings, compares the rows and audits the ledger. */
export async function restore({ argument: file = "" }: Call): Promise<number> {
  const storage = readStorage();
  const archive = await openArchive(file);
  const { header } = archive;
  say(`restoring the backup of ${header.created_at} (release ${header.release}) into ${describeStorage(storage)}`);
  const source = { ...header, ...archive, name: file };
  const code = await fill(storage, source, {
    keyring: storage.keyring,
    withSource: (work) => work(source),
    finish: async () => true,
  });
  say(code === 0 ? "restored" : "restored, with the problems above");
  return code;
}
