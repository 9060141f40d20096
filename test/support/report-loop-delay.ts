import { monitorEventLoopDelay } from "node:perf_hooks";
import { isMainThread } from "node:worker_threads";

// Loaded into a service's process (--import). It answers each message with the worst delay of its event loop since the
// last message, the most processor time of its main thread in one turn (without the system's part, as in held.ts), and
// its memory.
if (isMainThread && process.send !== undefined) {
  const delay = monitorEventLoopDelay({ resolution: 2 });
  delay.enable();
  let held_us = 0;
  let last = process.threadCpuUsage();
  const look = () => {
    held_us = Math.max(held_us, process.threadCpuUsage(last).user);
    last = process.threadCpuUsage();
  };
  setInterval(look, 1).unref();
  process.on("message", () => {
    look();
    const rss_mb = process.memoryUsage().rss / 2 ** 20;
    process.send?.({ worst_ms: delay.max / 1e6, held_ms: held_us / 1_000, rss_mb });
    delay.reset();
    held_us = 0;
  });
  process.channel?.unref();
}
