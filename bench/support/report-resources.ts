import { renameSync, writeFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

// Loaded into a service's process (--import, with --expose-gc). On SIGUSR2 it writes what the process keeps to the file
// RESOURCES_FILE.

/** What a process keeps. */
export interface Resources {
  heap_mb: number;
  timers: number;
  sockets: number;
}

const file = process.env.RESOURCES_FILE;
if (isMainThread && file !== undefined) {
  process.on("SIGUSR2", () => {
    globalThis.gc?.();
    const kinds = process.getActiveResourcesInfo();
    const count = (kind: string) => kinds.filter((each) => each === kind).length;
    const found: Resources = {
      heap_mb: process.memoryUsage().heapUsed / 1e6,
      timers: count("Timeout"),
      sockets: count("TCPSocketWrap"),
    };
    writeFileSync(`${file}.new`, JSON.stringify(found));
    renameSync(`${file}.new`, file);
  });
}
