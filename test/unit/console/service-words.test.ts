import { expect, test } from "vitest";
import { inWords, scheduleReason } from "../../../console/src/service-words.ts";
import { KEY_PAUSE_REASON } from "../../../src/agents/schedule-key.ts";
import { errors } from "../../../src/errors.ts";

test("a message about a limit names it as the editor does", () => {
  expect(inWords(errors.runBudgetExceeded().message)).toMatch(/^The remaining “Tokens per run” does/);
  expect(inWords(errors.monthlyBudgetExceeded("x").message)).toMatch(/^The remaining “Tokens per month” does/);
  expect(inWords("limits.max_steps and max_steps_too stay")).toBe("limits.max_steps and max_steps_too stay");
});

test("the reason for a paused schedule is shown without codes and fields", () => {
  expect(scheduleReason("5 failed runs in a row: set schedule_enabled to true to resume")).toBe(
    "5 failed runs in a row",
  );
  for (const [code, recorded] of Object.entries(KEY_PAUSE_REASON)) {
    const text = scheduleReason(code);
    expect(text).toMatch(/^the (budget of the )?API key that enabled the schedule/);
    expect(scheduleReason(recorded)).toBe(text);
    expect(scheduleReason(`paused since 2026-03-01T09:00:00.000Z: ${code}`)).toBe(
      `paused since 2026-03-01T09:00:00.000Z: ${text}`,
    );
  }
});
