import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createLog } from "../../../src/platform/telemetry/log.ts";
import { loggingProgress } from "../../../src/platform/telemetry/progress-log.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("a step of a start that takes 7 s has a line after a second, one after 5 more, one at its end, and none after it", async () => {
  const lines: string[] = [];
  const log = createLog("info", null, { write: (line) => void lines.push(JSON.parse(line).msg) });
  const step = loggingProgress(log, { step: "migration", about: {} }, async () => {
    await new Promise((resolve) => setTimeout(resolve, 7_000));
  });
  await vi.advanceTimersByTimeAsync(7_000);
  await step;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(lines).toEqual(["migration: at work", "migration: at work", "migration: done"]);
  expect(vi.getTimerCount()).toBe(0);
});
