import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { createThreadPool } from "../../../src/platform/lib/thread-pool.ts";

// A PDF of 1 MB that inflates to 2 GB: the parser keeps it in buffers, which the limit of a thread's heap does not count.

const FILLS = `
  const { parentPort } = require("node:worker_threads");
  const pause = new Int32Array(new SharedArrayBuffer(4));
  parentPort.on("message", (mb) => {
    const kept = [];
    for (let n = 0; n < mb; n += 4) {
      kept.push(new Uint8Array(4_194_304).fill(1));
      Atomics.wait(pause, 0, 0, 5);
    }
    parentPort.postMessage(kept.length);
  });
`;
const folder = mkdtempSync(join(tmpdir(), "purser-threads-"));
afterAll(() => rmSync(folder, { recursive: true }));

it("a request that fills the memory with buffers ends its thread, and the next request gets a new one", async () => {
  const file = join(folder, "fills.cjs");
  writeFileSync(file, FILLS);
  const pool = createThreadPool<number>(file, { memory_mb: 64 });
  const signal = new AbortController().signal;
  expect(await pool.ask(16, signal)).toBe(4);
  await expect(pool.ask(1_200, signal)).rejects.toThrow();
  expect(await pool.ask(16, signal)).toBe(4);
});
