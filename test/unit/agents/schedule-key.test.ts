import { describe, expect, test } from "vitest";
import { newConfig } from "../../../src/agents/definitions/agent-config.ts";
import { isSameTask, keyPause, scheduleKeyAfter } from "../../../src/agents/definitions/schedule-key.ts";

const now = "2026-03-01T12:00:00.000Z";
const unlimited = { budget_interval: null, allowed_models: null, limits: null };
const key = { id: "k", budget_tokens: null, expires_at: null, revoked_at: null, ...unlimited };

describe("a key pays for no more runs", () => {
  test.each([
    ["that does not exist", undefined, 0, "key_revoked"],
    ["that was revoked", { ...key, revoked_at: now, budget_tokens: 0 }, 0, "key_revoked"],
    ["at the exact instant of its end", { ...key, expires_at: now }, 0, "key_expired"],
    ["whose budget is spent", { ...key, budget_tokens: 5 }, 5, "key_budget_exceeded"],
    ["of budget 0", { ...key, budget_tokens: 0 }, 0, "key_budget_exceeded"],
    ["whose budget of the day has tokens left", { ...key, budget_tokens: 5, budget_interval: "day" as const }, 5, null],
    ["without a budget, never", key, Number.MAX_SAFE_INTEGER, null],
    [
      "with a budget and a later end, not yet",
      { ...key, budget_tokens: 5, expires_at: "2026-03-01T12:00:00.001Z" },
      4,
      null,
    ],
  ])("%s", (_which, which, spent_tokens, pause) => {
    const spend = { spent: spent_tokens, day: 0, week: 0, month: 0 };
    expect(keyPause(which, { spend, now })).toBe(pause);
  });
});

describe("the key that a schedule counts against after a write", () => {
  test.each<[string, Partial<Parameters<typeof scheduleKeyAfter>[0]>, string | null]>([
    ["stays if it does the same", {}, "owner"],
    ["is the writer's when it is resumed", { resumes: true }, "writer"],
    ["is the writer's if it does something else", { is_same_task: false }, "writer"],
    ["is none when it is off", { enabled: false, resumes: true }, null],
  ])("%s", (_how, write, key_id) => {
    const same = { enabled: true, resumes: false, is_same_task: true };
    expect(scheduleKeyAfter({ ...same, before_key_id: "owner", caller_key_id: "writer", ...write })).toBe(key_id);
  });

  const config = newConfig({ name: "Scout", model_id: "lab/plain", run_prompt: "Go." });
  test.each<[string, Partial<typeof config>, boolean]>([
    ["another name and description", { name: "Other", description: "Other" }, true],
    ["another prompt", { run_prompt: "Spend." }, false],
    ["other instructions", { system_prompt: "Spend." }, false],
    ["a more expensive model", { model_id: "lab/dear" }, false],
    ["more tools", { tools_config: { web_fetch: { enabled: true } } }, false],
    ["wider limits", { limits: { ...config.limits, max_steps: 200 } }, false],
  ])("whether an agent with %s does the same", (_what, changes, is_same) => {
    expect(isSameTask(config, { ...config, ...changes })).toBe(is_same);
  });
});
