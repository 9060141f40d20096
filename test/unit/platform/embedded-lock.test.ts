import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openEmbedded } from "../../../src/platform/db/embedded.adapter.ts";
import { createLog } from "../../../src/platform/telemetry/log.ts";

test("a lock file that cannot be used, as on a full disk, is not reported as another process", async () => {
  const directory = mkdtempSync(join(tmpdir(), "purser-lock-"));
  writeFileSync(join(directory, "lock"), "no database".repeat(100));
  await expect(openEmbedded({ directory, log: createLog("silent") })).rejects.toThrow(
    `the embedded database in ${directory} cannot be locked: file is not a database`,
  );
  rmSync(directory, { recursive: true });
});
