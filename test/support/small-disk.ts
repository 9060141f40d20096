import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A small file system that can be filled. */
export interface SmallDisk {
  folder: string;
  fill(left_bytes: number): void;
  free(): void;
  remove(): void;
}

/** Mounts a new small file system. Null if this user may not mount one. */
export function mountSmall(megabytes: number): SmallDisk | null {
  const folder = mkdtempSync(join(tmpdir(), "purser-disk-"));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", folder], { stdio: "ignore" });
  } catch {
    remove();
    return null;
  }
  const filler = join(folder, "filler");
  return {
    folder,
    fill(left_bytes) {
      const { bavail, bsize } = statfsSync(folder);
      try {
        writeFileSync(filler, Buffer.alloc(Math.max(0, bavail * bsize - left_bytes)));
      } catch (error) {
        // A database on this disk has written meanwhile, so the disk is full already.
        if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      }
    },
    free: () => rmSync(filler, { force: true }),
    remove() {
      execFileSync("umount", ["-l", folder]);
      remove();
    },
  };
}
