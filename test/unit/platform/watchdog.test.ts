import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { startWatchdog } from "../../../src/platform/db/embedded.adapter.ts";

const LIMIT_MS = 300_000;
const onStuck = vi.fn();
beforeEach(() => {
  onStuck.mockClear();
  vi.useFakeTimers();
});
afterEach(() => vi.useRealTimers());

test("a thread that does not answer one ping within the limit is stuck, and is reported once", () => {
  startWatchdog(
    () => 1,
    () => LIMIT_MS,
    onStuck,
  );
  vi.advanceTimersByTime(LIMIT_MS);
  expect(onStuck).not.toHaveBeenCalled();
  vi.advanceTimersByTime(LIMIT_MS);
  expect(onStuck).toHaveBeenCalledTimes(1);
});

test("a thread that keeps answering is not stuck, however long others wait", () => {
  let answers = 0;
  const stop = startWatchdog(
    () => answers++,
    () => LIMIT_MS,
    onStuck,
  );
  vi.advanceTimersByTime(10 * LIMIT_MS);
  stop();
  expect(onStuck).not.toHaveBeenCalled();
});

test("a pause of the whole process, such as a sleeping laptop, does not count", () => {
  const asked_an_hour_ago = performance.now() - 3_600_000;
  const stop = startWatchdog(
    () => asked_an_hour_ago,
    () => LIMIT_MS,
    onStuck,
  );
  vi.advanceTimersByTime(10_000);
  stop();
  expect(onStuck).not.toHaveBeenCalled();
});
