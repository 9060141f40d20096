import { expect, test } from "vitest";
import { createLog } from "../../../src/platform/log.ts";
import { startSweeper } from "../../../src/platform/sweeper.ts";

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
