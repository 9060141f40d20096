import { monitorEventLoopDelay } from "node:perf_hooks";

const RESOLUTION_MS = 1;

/** Measures the event loop of the test's process from now on. report-loop-delay.ts measures that of a service. */
export function measureEventLoopDelay(): { stop(): number /* worst delay in ms */ } {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  histogram.enable();
  return {
    stop() {
      histogram.disable();
      return Math.max(0, histogram.max / 1e6 - RESOLUTION_MS);
    },
  };
}
