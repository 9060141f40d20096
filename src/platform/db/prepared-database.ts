import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { deserialize, serialize } from "node:v8";
import { constants, zstdCompressSync, zstdDecompressSync } from "node:zlib";

/**
 * An embedded database with all tables and no users, which a build contains (deploy/build.ts). Copying its files takes a
 * tenth of the time of creating and migrating a database. The source has none, because each of its starts may have other
 * migrations.
 */
const PREPARED = join(import.meta.dirname, "prepared-database.zst");

export const isPrepared = (): boolean => existsSync(PREPARED);

/** A file of the database with its bytes, or a folder. Folders come before their files. */
type Entry = readonly [path: string, bytes: Uint8Array | null];

/** Packs a closed database. */
export function packDatabase(directory: string): Buffer {
  const found = readdirSync(directory, { recursive: true, withFileTypes: true });
  const entries = found.map((entry): Entry => {
    const path = join(entry.parentPath, entry.name);
    return [relative(directory, path), entry.isDirectory() ? null : readFileSync(path)];
  });
  const params = { [constants.ZSTD_c_compressionLevel]: 19 };
  return zstdCompressSync(serialize(entries.sort(([one], [other]) => (one < other ? -1 : 1))), { params });
}

/** Creates the database `directory` from the prepared one. A process that is killed meanwhile leaves no half of it there. */
export async function copyPrepared(directory: string): Promise<void> {
  const entries: Entry[] = deserialize(zstdDecompressSync(await readFile(PREPARED)));
  const unfinished = `${directory}.new`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { mode: 0o700 });
  for (const [path, bytes] of entries) if (bytes === null) mkdirSync(join(unfinished, path), { mode: 0o700 });
  const write = ([path, bytes]: Entry) =>
    bytes === null ? null : writeFile(join(unfinished, path), bytes, { mode: 0o600, flush: true });
  await Promise.all(entries.map(write));
  renameSync(unfinished, directory);
}
