import { expect, test } from "vitest";
import { skewOf, startClockCheck } from "../../../src/platform/clock-skew.ts";
import type { Log } from "../../../src/platform/log.ts";

async function startWith(ahead_ms: number) {
  const node = { ahead_ms };
  const lines: string[] = [];
  const figures: number[] = [];
  const write = (_: object, text: string) => lines.push(text);
  const check = await startClockCheck({
    clocks: { nodeMs: () => 1_000_000 + node.ahead_ms, databaseMs: async () => 1_000_000 },
    log: { warn: write, error: write } as unknown as Log,
    metrics: { clockSkew: (seconds) => figures.push(seconds) },
  });
  return { node, lines, figures, check };
}

test.each([
  [1_900, false, []],
  [2_500, false, [/differs from the database's/]],
  [-59_000, false, [/differs from the database's/]],
  [61_000, true, [/is wrong: correct it .* runs no schedules/]],
  [-3_600_000, true, [/is wrong: correct it .* runs no schedules/]],
])("a clock that is %i ms ahead stops due work: %s", async (ahead_ms, is_excessive, lines) => {
  const started = await startWith(ahead_ms);
  started.check.stop();
  expect(started.check.isExcessive()).toBe(is_excessive);
  expect(started.lines).toEqual(lines.map((line) => expect.stringMatching(line)));
  expect(started.figures[0]).toBeCloseTo(ahead_ms / 1_000, 1);
});

test("work continues after the clock is corrected", async () => {
  const { node, check, lines } = await startWith(3_600_000);
  node.ahead_ms = 0;
  await check.check();
  check.stop();
  expect(check.isExcessive()).toBe(false);
  expect(lines.at(-1)).toMatch(/right again/);
});

test("a slow answer of the database does not count as clock skew", () => {
  expect(skewOf({ node_ms: 10_000, database_ms: 5_000, round_trip_ms: 10_000 })).toBe(0);
  expect(skewOf({ node_ms: 10_000, database_ms: 1_000, round_trip_ms: 8_000 })).toBe(1_000);
});
