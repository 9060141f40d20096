import { monitorEventLoopDelay } from "node:perf_hooks";
import { isMainThread } from "node:worker_threads";

// Loaded into a service's own process (--import): answers each message with the worst delay of its event loop, and its
// memory, since the one before.
if (isMainThread && process.send !== undefined) {
  const delay = monitorEventLoopDelay({ resolution: 2 });
  delay.enable();
  process.on("message", () => {
    process.send?.({ worst_ms: delay.max / 1e6, rss_mb: process.memoryUsage().rss / 2 ** 20 });
    delay.reset();
  });
  process.channel?.unref();
}
