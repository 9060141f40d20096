import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { type ManifestEnd, makeFolder, readManifestEnd, verifyRows } from "../../../src/account/ledger/archive-file.ts";
import { createVerifier } from "../../../src/account/ledger/verify-export.ts";

test("a check that ends before the end of a compressed file reports its own error only", async () => {
  const folder = mkdtempSync(join(tmpdir(), "purser-archive-file-"));
  const entries = join(folder, "entry.jsonl.gz");
  const manifest = join(folder, "archive.jsonl");
  // Random text does not compress, so most of the file is unread when the check ends.
  const rows = Array.from({ length: 2_000 }, (_, seq) =>
    JSON.stringify({ user_id: "someone", seq, description: randomBytes(500).toString("base64") }),
  );
  writeFileSync(entries, gzipSync(rows.join("\n")));
  writeFileSync(manifest, "{}\n");
  const cut = join(folder, "cut.jsonl.gz");
  writeFileSync(cut, gzipSync(rows.join("\n")).subarray(0, 100_000));
  const uncaught: unknown[] = [];
  const note = (error: unknown) => void uncaught.push(error);
  process.on("uncaughtException", note);
  try {
    const checked = verifyRows({ entries, usage_events: entries, manifest }, {} as ManifestEnd, createVerifier());
    await expect(checked).rejects.toThrow("has no line for someone");
    await expect(readManifestEnd(cut)).rejects.toThrow("cut.jsonl.gz cannot be read");
    await delay(50);
    expect(uncaught).toEqual([]);
  } finally {
    process.off("uncaughtException", note);
    rmSync(folder, { recursive: true });
  }
});

test("a folder of the archive is created with its parents, and may already exist", async () => {
  const folder = mkdtempSync(join(tmpdir(), "purser-archive-file-"));
  const wanted = join(folder, "of", "purser");
  try {
    await makeFolder(wanted);
    await makeFolder(wanted);
    expect(existsSync(wanted)).toBe(true);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
