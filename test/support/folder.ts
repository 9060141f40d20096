import { existsSync, mkdtempSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Linux keeps this folder in memory. */
const MEMORY = "/dev/shm";
/** The databases of a run of the suite together stay well below this. */
const ROOM_BYTES = 2 * 2 ** 30;

/**
 * A new folder for a database, in memory if there is room. A cluster has a thousand files, which a disk takes ten
 * times as long to copy.
 */
export function newDatabaseFolder(name: string): string {
  return mkdtempSync(join(hasRoom() ? MEMORY : tmpdir(), `purser-${name}-`));
}

function hasRoom(): boolean {
  if (!existsSync(MEMORY)) return false;
  const { bavail, bsize } = statfsSync(MEMORY);
  return bavail * bsize > ROOM_BYTES;
}
