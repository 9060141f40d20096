import { expect, test } from "vitest";
import { computeSkew, startClockCheck } from "../../../src/platform/db/clock-skew.ts";
import { createSteadyTime } from "../../../src/platform/lib/clock.ts";
import type { Log } from "../../../src/platform/telemetry/log.ts";

/** The machine's clock is `ahead_ms` ahead of the database's, or on embedded storage of the time since the start. */
async function startWith(ahead_ms: number, { is_embedded = false } = {}) {
  const node = { ahead_ms, uptime_ms: 0 };
  const lines: string[] = [];
  const figures: number[] = [];
  const write = (_: object, text: string) => lines.push(text);
  const time = createSteadyTime({
    wallMs: () => 1_000_000 + node.uptime_ms + node.ahead_ms,
    uptimeMs: () => node.uptime_ms,
  });
  const check = await startClockCheck({
    clocks: { time, databaseMs: is_embedded ? null : async () => 1_000_000 + node.uptime_ms },
    log: { warn: write, error: write } as unknown as Log,
    metrics: { clockSkew: (seconds) => figures.push(seconds) },
  });
  return { node, lines, figures, check, time };
}

test.each([
  [1_900, false, []],
  [2_500, false, [/differs from the database's/]],
  [-59_000, false, [/differs from the database's/]],
  [61_000, true, [/is wrong: correct it .* runs no schedules/]],
  [-3_600_000, true, [/is wrong: correct it .* runs no schedules/]],
])("a clock that is %i ms ahead stops due work: %s", async (ahead_ms, is_excessive, lines) => {
  const started = await startWith(ahead_ms);
  expect(started.check.isExcessive()).toBe(is_excessive);
  expect(started.lines).toEqual(lines.map((line) => expect.stringMatching(line)));
  expect(started.figures[0]).toBeCloseTo(ahead_ms / 1_000, 1);
});

test("work continues after the clock is corrected", async () => {
  const { node, check, lines } = await startWith(3_600_000);
  node.ahead_ms = 0;
  await check.check();
  expect(check.isExcessive()).toBe(false);
  expect(lines.at(-1)).toMatch(/right again/);
});

test("a slow answer of the database does not count as clock skew", () => {
  expect(computeSkew({ node_ms: 10_000, database_ms: 5_000, round_trip_ms: 10_000 })).toBe(0);
  expect(computeSkew({ node_ms: 10_000, database_ms: 1_000, round_trip_ms: 8_000 })).toBe(1_000);
});

const HOUR_MS = 3_600_000;

test.each([
  ["the database", false],
  ["embedded storage", true],
])(
  "with %s, a clock that is set while the process runs does not change its time, until it is set back",
  async (_, is_embedded) => {
    const { node, check, time, lines } = await startWith(0, { is_embedded });
    for (const ahead_ms of [960 * HOUR_MS, -960 * HOUR_MS, HOUR_MS, 0]) {
      node.uptime_ms += 10_000;
      node.ahead_ms = ahead_ms;
      expect(time.nowMs()).toBe(1_000_000 + node.uptime_ms);
      await check.check();
      expect(time.nowMs()).toBe(1_000_000 + node.uptime_ms);
      expect(check.isExcessive()).toBe(!is_embedded && ahead_ms !== 0);
    }
    expect(lines.at(-1)).toMatch(/right again/);
  },
);

test("a clock that the database confirms is followed, as after a pause of the whole machine", async () => {
  const { node, check, time } = await startWith(0);
  // The database's clock went on, this machine's uptime did not.
  node.ahead_ms = HOUR_MS;
  expect(time.nowMs()).toBe(1_000_000);
  node.uptime_ms += HOUR_MS;
  node.ahead_ms = 0;
  await check.check();
  expect(check.isExcessive()).toBe(false);
  expect(time.nowMs()).toBe(1_000_000 + HOUR_MS);
});

test.each([
  ["ahead of", HOUR_MS, 0],
  ["behind", -HOUR_MS, -HOUR_MS],
])("a process that starts with a clock %s the database's takes the earlier time", async (_, ahead_ms, expected_ms) => {
  const { check, time } = await startWith(ahead_ms);
  expect(time.nowMs()).toBe(1_000_000 + expected_ms);
  expect(check.isExcessive()).toBe(true);
});

test("a clock that stays wrong is checked at each sweep and logged once a minute", async () => {
  const { check, lines, figures } = await startWith(HOUR_MS);
  for (let sweep = 0; sweep < 5; sweep += 1) await check.check();
  expect(figures).toHaveLength(6);
  expect(lines).toHaveLength(1);
});

test.each([1_500, -1_500, 59_000, -59_000])("a step of %i ms is followed, as NTP makes it", (step_ms) => {
  const node = { ahead_ms: 0 };
  const time = createSteadyTime({ wallMs: () => 1_000_000 + node.ahead_ms, uptimeMs: () => 0 });
  node.ahead_ms = step_ms;
  expect(time.nowMs()).toBe(1_000_000 + step_ms);
});
