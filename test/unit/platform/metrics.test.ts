import { expect, test } from "vitest";
import { createMetrics } from "../../../src/platform/telemetry/metrics.ts";

const QUEUE = /^purser_runs_queued(_oldest_seconds)? \S+$/gm;

test("the queue is read once for both of its figures", async () => {
  const metrics = createMetrics();
  let looks = 0;
  metrics.watchQueue(async () => {
    looks += 1;
    return { queued: 3, oldest_ms: 1_500 };
  });
  expect((await metrics.text()).match(QUEUE)).toEqual([
    "purser_runs_queued 3",
    "purser_runs_queued_oldest_seconds 1.5",
  ]);
  expect(looks).toBe(1);
});

test.each<[string, () => Promise<never>]>([
  ["fails", () => Promise.reject(new Error("away"))],
  ["does not answer", () => new Promise(() => {})],
])("a database that %s does not hide the other figures, and adds no invented ones", async (_what, look) => {
  const metrics = createMetrics();
  metrics.watchQueue(look);
  metrics.runFinished("failed", "worker_lost");
  const text = await metrics.text();
  expect(text).toContain('purser_runs_total{status="failed",error="worker_lost"} 1');
  expect(text.match(QUEUE)).toBeNull();
});
