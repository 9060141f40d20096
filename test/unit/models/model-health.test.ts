import { expect, test } from "vitest";
import { createModelHealth } from "../../../src/gateway/models/model-routes.ts";
import { nearestNames } from "../../../src/kernel/nearest.ts";
import { realNowMs } from "../../../src/platform/lib/clock.ts";
import { retryAfterSeconds } from "../../../src/platform/lib/retry.ts";

const A = { id: "a", route: "first" };

test("a model that failed rests for ten seconds or for its provider's Retry-After, at most two minutes", () => {
  let now_ms = 1_000;
  const health = createModelHealth(() => now_ms);
  const restedAfter = (seconds: number) => {
    now_ms += seconds * 1_000;
    return !health.isResting(A);
  };
  expect(health.isResting(A)).toBe(false);
  for (const [retry_after_s, rests_s] of [
    [undefined, 10],
    [3, 3],
    [100_000, 120],
  ] as const) {
    health.failed(A, retry_after_s);
    expect([health.isResting({ ...A, route: "second" }), restedAfter(rests_s - 0.001), restedAfter(0.001)]).toEqual([
      false,
      false,
      true,
    ]);
  }
});

test("an answer ends a model's rest", () => {
  const health = createModelHealth();
  health.failed(A, undefined);
  health.answered(A);
  expect(health.isResting(A)).toBe(false);
});

test("Retry-After is read as seconds or as a date, and nothing else", () => {
  const date = new Date(realNowMs() + 90_000).toUTCString();
  expect(retryAfterSeconds("7")).toBe(7);
  expect(retryAfterSeconds(date)).toBeGreaterThanOrEqual(89);
  expect(retryAfterSeconds(date)).toBeLessThanOrEqual(90);
  expect(retryAfterSeconds("Thu, 01 Jan 1970 00:00:00 GMT")).toBe(0);
  for (const nonsense of [undefined, null, "", "soon", "-5", "1e99", ["1", "2"]]) {
    expect(retryAfterSeconds(nonsense)).toBeUndefined();
  }
});

test("an error about a mistyped model suggests similar names, and about a strange one none", () => {
  const names = ["gpt-6-luna", "gpt-6.1-terra", "claude-opus-5-5", "mistral-small-2603", "lab/small"];
  expect(nearestNames("gpt-6-lunar", names)[0]).toBe("gpt-6-luna");
  expect(nearestNames("Claude-Opus-5.5", names)).toEqual(["claude-opus-5-5"]);
  expect(nearestNames("small", names)).toEqual(["mistral-small-2603", "lab/small"]);
  expect(nearestNames("\u{1f600}".repeat(80), names)).toEqual([]);
});
