import { expect, test } from "vitest";
import { inWords, routingReason, scheduleReason, settingName } from "../../../console/src/service-words.ts";
import { KEY_PAUSE_REASON } from "../../../src/agents/definitions/schedule-key.ts";
import { gatewayErrors } from "../../../src/gateway/models/errors.ts";
import { rankModels } from "../../../src/gateway/models/routing.ts";
import { modelOf, requestOf } from "../models/model-fixture.ts";

test("a message about a setting names it as the editor does", () => {
  expect(inWords(gatewayErrors.runBudgetExceeded().message)).toMatch(/^The remaining “Tokens per run” does/);
  expect(inWords(gatewayErrors.monthlyBudgetExceeded("x").message)).toMatch(/^The remaining “Tokens per month” does/);
  expect(inWords("Raise limits.max_steps, not max_steps_too.")).toBe("Raise “Steps per run”, not max_steps_too.");
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

test("the reason for a model is a sentence, for each reason that the routing has", () => {
  const reasonFor = (
    content: string,
    fields: { sticky_model_id?: string; resting?: boolean; tier?: "standard" } = {},
  ) => {
    const { sticky_model_id = null, resting = false, tier = "economy" } = fields;
    const request = requestOf({ model: "auto", messages: [{ role: "user", content }] });
    const models = [modelOf({ tier })];
    return routingReason(
      rankModels({ request, models, is_trial: false, sticky_model_id, isResting: () => resting }).reason,
    );
  };
  const simple = "By its score of 0, the task needs a model of the tier “economy”.";
  expect(reasonFor("hello")).toBe(`${simple} This is the cheapest one.`);
  expect(reasonFor("hello", { tier: "standard" })).toBe(
    `${simple} There is none, so this is the cheapest of the next tier, “standard”.`,
  );
  expect(reasonFor("Compare ```a```", { tier: "standard", resting: true })).toBe(
    "By its score of 3 (code, reasoning), the task needs a model of the tier “standard”. This is the cheapest one. " +
      "Models whose provider failed recently were tried last.",
  );
  expect(reasonFor("hello", { sticky_model_id: modelOf().id })).toBe("It answered the earlier turns.");
  expect(routingReason("any other reason")).toBe("any other reason");
});

test("a changed field of an agent has the editor's label", () => {
  expect(settingName("limits.max_steps")).toBe("Steps per run");
  expect(settingName("run_prompt")).toBe("Task of each run");
  expect(settingName("tools_config.web_fetch.hosts")).toBe("Tools: web fetch, hosts");
});
