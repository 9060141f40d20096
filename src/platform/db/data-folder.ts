import { accessSync, constants, readdirSync, statfsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

const { F_OK, R_OK, W_OK, X_OK } = constants;

/**
 * Looks for what this process may not use of the embedded storage in `data_dir`: the folder, the nearest one above it if it
 * is missing, and each file of the database. Returns one line that says what to do, or null.
 */
export function deniedIn(data_dir: string): string | null {
  const user = process.getuid?.() ?? "of this process";
  const explained = (path: string, code: string | undefined, chown: string) =>
    code === "EROFS"
      ? `${path} is on a read-only file system: mount it for writing, or set DATA_DIR to another directory`
      : `the user ${user} cannot write to ${path} (${code}): run ${chown}, or set DATA_DIR to a directory of that user`;
  const top = nearestFolder(data_dir);
  const above = catchFailure(() => accessSync(top, W_OK | X_OK));
  if (above !== null)
    return explained(top, above.code, `chown ${top === resolve(data_dir) ? "-R " : ""}${user} ${top}`);
  const inside = catchFailure(() => checkFiles(join(data_dir, "database")));
  if (inside === null || inside.code === "ENOENT") return null;
  return explained(inside.path ?? data_dir, inside.code, `chown -R ${user} ${resolve(data_dir)}`);
}

/** The embedded database does not open with less: PostgreSQL writes WAL in segments of 16 MB. */
const MIN_FREE_BYTES = 32 * 1024 * 1024;

/** Returns one line that says what to do if the disk of `data_dir` has too little space to open a database, or null. */
export function getFullDisk(data_dir: string): string | null {
  const folder = nearestFolder(data_dir);
  const { bavail, bsize } = statfsSync(folder);
  const free_bytes = bavail * bsize;
  if (free_bytes >= MIN_FREE_BYTES) return null;
  return `the disk of ${folder} is full (${Math.floor(free_bytes / 1024 / 1024)} MB free): free some space and start again`;
}

/** The folder itself, or the nearest one above it that exists and can be looked at. */
function nearestFolder(data_dir: string): string {
  let path = resolve(data_dir);
  while (path !== dirname(path) && catchFailure(() => accessSync(path, F_OK)) !== null) path = dirname(path);
  return path;
}

/** Throws the system's error for the first file or folder that cannot be read and written. */
function checkFiles(folder: string): void {
  accessSync(folder, R_OK | W_OK | X_OK);
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) checkFiles(path);
    else accessSync(path, R_OK | W_OK);
  }
}

function catchFailure(work: () => void): NodeJS.ErrnoException | null {
  try {
    work();
    return null;
  } catch (error) {
    return error as NodeJS.ErrnoException;
  }
}
