import { describe, expect, test } from "vitest";
import { newConfig } from "../../../src/agents/definitions/agent-config.ts";
import { keyPause, scheduleKeyAfter } from "../../../src/agents/definitions/schedule-key.ts";

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
  const daily = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" } as const;
  const config = newConfig({ name: "Scout", model_id: "lab/plain", run_prompt: "Go.", ...daily });
  const after = (changes: Partial<typeof config>, resumes = false) =>
    scheduleKeyAfter({
      before: { config, api_key_id: "owner" },
      config: { ...config, ...changes },
      resumes,
      caller_key_id: "writer",
    });
  test.each<[string, Partial<typeof config>, boolean, string | null]>([
    ["stays for another name or description", { name: "Other", description: "Other" }, false, "owner"],
    ["is the writer's when it is enabled or resumed", {}, true, "writer"],
    ["is the writer's for another prompt", { run_prompt: "Spend." }, false, "writer"],
    ["is the writer's for other instructions", { system_prompt: "Spend." }, false, "writer"],
    ["is the writer's for a more expensive model", { model_id: "lab/dear" }, false, "writer"],
    ["is the writer's for an earlier time", { schedule_time: "00:01" }, false, "writer"],
    ["is the writer's for more tools", { tools_config: { web_fetch: { enabled: true } } }, false, "writer"],
    ["is the writer's for wider limits", { limits: { ...config.limits, max_steps: 200 } }, false, "writer"],
    ["is none when it is off", { schedule_enabled: false }, false, null],
  ])("%s", (_how, changes, resumes, key_id) => {
    expect(after(changes, resumes)).toBe(key_id);
  });
});
