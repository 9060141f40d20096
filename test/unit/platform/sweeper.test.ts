import { expect, test } from "vitest";
import { startSweeper } from "../../../src/platform/db/sweeper.ts";
import { createLog } from "../../../src/platform/telemetry/log.ts";

test("background work that has never succeeded has an age since the start, so that its alert fires", async () => {
  const swept: string[] = [];
  const broken = {
    name: "broken",
    nextDueAt: async () => null,
    carryOut: () => Promise.reject(new Error("it never works")),
  };
  const sweeper = startSweeper({
    sources: [broken],
    log: createLog("silent"),
    onSwept: (source) => swept.push(source),
  });
  await sweeper.stop();
  expect(swept).toEqual(["broken"]);
});

test("before each turn the sweeper asks whether it is paused, and then carries nothing out", async () => {
  let carried_out = 0;
  let is_paused = false;
  let asked = 0;
  const source = {
    name: "counted",
    nextDueAt: async () => null,
    carryOut: async () => {
      carried_out += 1;
    },
  };
  const isPaused = async () => {
    asked += 1;
    return is_paused;
  };
  const sweeper = startSweeper({ sources: [source], log: createLog("silent"), isPaused });
  await expect.poll(() => carried_out).toBe(1);
  is_paused = true;
  const before = asked;
  await expect.poll(() => asked).toBeGreaterThan(before + 1);
  expect(carried_out).toBe(1);
  await sweeper.stop();
});
