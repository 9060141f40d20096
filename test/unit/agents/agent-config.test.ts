import { describe, expect, test } from "vitest";
import {
  type AgentConfig,
  changedConfig,
  type NamedChanges,
  newConfig,
  sameConfig,
} from "../../../src/agents/definitions/agent-config.ts";
import { createAgentSchema, updateAgentSchema } from "../../../src/api/contract/agents.ts";
import { validationError } from "../../../src/api/contract/validation.ts";
import type { PurserError } from "../../../src/kernel/errors.ts";

const minimal = { name: "Scout", model_id: "lab/small" };

function refusal(work: () => unknown): { code: string; param: string | undefined } {
  try {
    work();
  } catch (error) {
    const { shape } = error as PurserError;
    return { code: shape.code, param: shape.param };
  }
  throw new Error("nothing was refused");
}

describe("a new agent", () => {
  test("has the defaults of the contract", () => {
    expect(newConfig(minimal)).toEqual({
      name: "Scout",
      description: null,
      system_prompt: null,
      run_prompt: null,
      model_id: "lab/small",
      auto_route: false,
      is_active: true,
      tools_config: {},
      client_tools: "ignore",
      input_schema: null,
      output_schema: null,
      deliveries: [],
      approval_hours: 24,
      on_budget: "fail",
      limits: {
        max_steps: 25,
        max_run_seconds: 900,
        max_cost_tokens_per_run: null,
        max_cost_tokens_per_month: null,
        max_consecutive_failures: 5,
      },
      model_settings: { temperature: null, top_p: null, reasoning_effort: null, max_output_tokens: null },
    });
  });

  test("with auto_route needs no model", () => {
    expect(newConfig({ name: "Scout", auto_route: true }).model_id).toBeNull();
  });
});

describe("fields that need another field are rejected with the missing one", () => {
  const cases: [string, NamedChanges & { name: string }, string][] = [
    ["neither model nor auto_route", { name: "Scout" }, "model_id"],
    ["auto_route false and no model", { name: "Scout", auto_route: false }, "model_id"],
  ];
  test.each(cases)("%s", (_what, wanted, param) => {
    expect(refusal(() => newConfig(wanted))).toEqual({ code: "missing_field", param });
  });
});

describe("a change", () => {
  const config = newConfig({ ...minimal, run_prompt: "Go.", limits: { max_steps: 3 } });

  test("keeps the fields that it does not name", () => {
    expect(changedConfig(config, { name: "Ranger" })).toEqual({ ...config, name: "Ranger" });
  });

  test("of one limit keeps the others", () => {
    const { limits } = changedConfig(config, { limits: { max_run_seconds: 60 } });
    expect(limits).toMatchObject({ max_steps: 3, max_run_seconds: 60, max_consecutive_failures: 5 });
  });

  test("to null clears a field", () => {
    expect(changedConfig(newConfig({ ...minimal, description: "x" }), { description: null }).description).toBeNull();
  });

  test("that makes the agent inconsistent is rejected", () => {
    expect(refusal(() => changedConfig(config, { model_id: null })).param).toBe("model_id");
  });

  test("to the same values is no change, in any order of keys", () => {
    const stored = { ...config, limits: Object.fromEntries(Object.entries(config.limits).reverse()) } as AgentConfig;
    expect(sameConfig(config, stored)).toBe(true);
    expect(sameConfig(config, changedConfig(config, { limits: { max_steps: 4 } }))).toBe(false);
  });
});

describe("an invalid body is rejected with its field", () => {
  const whole = { name: "Scout", model_id: "m" };
  const cases: [string, unknown, string, string][] = [
    ["no name", { model_id: "m" }, "missing_field", "name"],
    ["an empty name", { ...whole, name: "" }, "invalid_value", "name"],
    ["a blank name", { ...whole, name: "   " }, "invalid_value", "name"],
    ["a name that is too long", { ...whole, name: "x".repeat(201) }, "invalid_value", "name"],
    ["a name that is null", { ...whole, name: null }, "invalid_value", "name"],
    ["a prompt that is too long", { ...whole, system_prompt: "x".repeat(100_001) }, "invalid_value", "system_prompt"],
    ["U+0000", { ...whole, run_prompt: "a\0b" }, "invalid_value", "run_prompt"],
    ["half a surrogate pair", { ...whole, description: "\ud800" }, "invalid_value", "description"],
    ["text for a boolean", { ...whole, is_active: "yes" }, "invalid_value", "is_active"],
    ["an unknown interval", { ...whole, schedule_interval: "hourly" }, "invalid_value", "schedule_interval"],
    ["an impossible time", { ...whole, schedule_time: "24:00" }, "invalid_value", "schedule_time"],
    ["an unknown day", { ...whole, schedule_day_of_week: "Monday" }, "invalid_value", "schedule_day_of_week"],
    ["day 32", { ...whole, schedule_day_of_month: 32 }, "invalid_value", "schedule_day_of_month"],
    ["an unknown zone", { ...whole, schedule_timezone: "Mars/Olympus" }, "invalid_value", "schedule_timezone"],
    ["an offset for a zone", { ...whole, schedule_timezone: "+05:30" }, "invalid_value", "schedule_timezone"],
    ["no steps at all", { ...whole, limits: { max_steps: 0 } }, "invalid_value", "limits.max_steps"],
    ["an unknown field", { ...whole, colour: "red" }, "unknown_field", "colour"],
    ["an unknown nested field", { ...whole, limits: { max_stepz: 1 } }, "unknown_field", "limits.max_stepz"],
  ];
  test.each(cases)("%s", (_what, body, code, param) => {
    const { error } = createAgentSchema.safeParse(body);
    expect(validationError((error?.issues ?? []) as never, body, createAgentSchema).shape).toMatchObject({
      code,
      param,
    });
  });

  test("an update needs no field", () => {
    expect(updateAgentSchema.parse({})).toEqual({});
  });
});
