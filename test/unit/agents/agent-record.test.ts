import { describe, expect, test } from "vitest";
import { type NamedChanges, newConfig } from "../../../src/agents/definitions/agent-config.ts";
import { agentRecord } from "../../../src/agents/definitions/agents.service.ts";

const now = "2026-03-01T12:00:00.000Z";
const daily: NamedChanges = {
  run_prompt: "Go.",
  schedule_enabled: true,
  schedule_interval: "daily",
  schedule_time: "09:00",
};
const NEXT_RUN = { next_run_at: "2026-03-02T09:00:00.000Z", paused_reason: null };

function record(
  fields: NamedChanges,
  schedule: { next_run_at: string | null; paused_reason: string | null } = NEXT_RUN,
) {
  const config = newConfig({ model_id: "lab/plain", ...fields, name: "Scout" });
  const state = { user_id: "u", id: "a", version: 1, consecutive_failures: 0, created_at: now, updated_at: now };
  const rest = { schedule_api_key_id: null, deleted_at: null };
  return agentRecord({ ...config, ...state, ...rest }, { schedule: schedule, last_run: undefined, now });
}

describe("an agent's record", () => {
  test("does not show the row's internal columns", () => {
    expect(record({})).not.toHaveProperty("user_id");
    expect(record({})).not.toHaveProperty("deleted_at");
  });

  test("of a paused schedule has the reason, and the time of the next run after a resume", () => {
    expect(record(daily, { ...NEXT_RUN, paused_reason: "out of tokens" })).toMatchObject({
      schedule_status: "paused",
      schedule_paused_reason: "out of tokens",
      next_run_at: NEXT_RUN.next_run_at,
      upcoming_runs: { length: 5 },
    });
  });

  test.each([{ is_active: false }, { schedule_enabled: false }])("with %j has no next run, paused or not", (off) => {
    const off_record = { schedule_status: "off", schedule_paused_reason: null, next_run_at: null, upcoming_runs: [] };
    expect(record({ ...daily, ...off })).toMatchObject(off_record);
    expect(record({ ...daily, ...off }, { ...NEXT_RUN, paused_reason: "out of tokens" })).toMatchObject(off_record);
  });

  test("names each secret that its tools use once", () => {
    const inject = { type: "bearer" as const };
    const auth = ["STRIPE", "GITHUB", "STRIPE"].map((secret) => ({ secret, hosts: ["a.example"], inject }));
    const tools_config = { web_fetch: { enabled: true, auth } } as unknown as NamedChanges["tools_config"];
    expect(record({ tools_config }).secrets_used).toEqual(["STRIPE", "GITHUB"]);
    expect(record({}).secrets_used).toEqual([]);
  });
});
