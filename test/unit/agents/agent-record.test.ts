import { describe, expect, test } from "vitest";
import { type NamedChanges, newConfig } from "../../../src/agents/definitions/agent-config.ts";
import { newSchedule } from "../../../src/agents/definitions/agent-schedules.service.ts";
import { agentRecord } from "../../../src/agents/definitions/agents.service.ts";
import type { ScheduleRow } from "../../../src/agents/schedules/schedules.service.ts";

const now = "2026-03-01T12:00:00.000Z";
const empty = newSchedule({ user_id: "u", agent_id: "a", name: "default", now });
const daily: ScheduleRow = {
  ...empty,
  spec: { interval: "daily", times: ["09:00"], timezone: "UTC" },
  enabled: true,
  next_run_at: "2026-03-02T09:00:00.000Z",
};

function record(fields: NamedChanges, ...schedules: ScheduleRow[]) {
  const config = newConfig({ model_id: "lab/plain", ...fields, name: "Scout" });
  const state = { user_id: "u", id: "a", version: 1, created_at: now, updated_at: now, deleted_at: null };
  const all = schedules.length === 0 ? [empty] : schedules;
  return agentRecord({ ...config, ...state }, { schedules: all, last_run: undefined, now });
}

describe("an agent's record", () => {
  test("does not show the row's internal columns", () => {
    expect(record({})).not.toHaveProperty("user_id");
    expect(record({})).not.toHaveProperty("deleted_at");
  });

  test("of a paused schedule has the reason, and the time of the next run after a resume", () => {
    expect(record({}, { ...daily, paused_reason: "out of tokens" })).toMatchObject({
      schedule_status: "paused",
      schedule_paused_reason: "out of tokens",
      next_run_at: daily.next_run_at,
      upcoming_runs: { length: 5 },
    });
  });

  test("of a disabled agent or a schedule that is off has no next run, paused or not", () => {
    const off_record = { schedule_status: "off", schedule_paused_reason: null, next_run_at: null, upcoming_runs: [] };
    const off = { ...daily, enabled: false, next_run_at: null };
    for (const paused_reason of [null, "out of tokens"]) {
      expect(record({}, { ...off, paused_reason })).toMatchObject(off_record);
      expect(record({ is_active: false }, { ...daily, paused_reason })).toMatchObject(off_record);
    }
  });

  test("has the next runs of all its schedules in their order, without the paused ones", () => {
    const noon: ScheduleRow = {
      ...daily,
      id: "noon",
      name: "noon",
      spec: { interval: "daily", times: ["12:00"], timezone: "UTC" },
      next_run_at: "2026-03-02T12:00:00.000Z",
    };
    const hours = (...schedules: ScheduleRow[]) =>
      record({}, ...schedules).upcoming_runs.map(({ at }) => at.slice(8, 13));
    expect(hours(daily, noon)).toEqual(["02T09", "02T12", "03T09", "03T12", "04T09"]);
    expect(hours({ ...daily, paused_reason: "enough" }, noon)).toEqual(["02T12", "03T12", "04T12", "05T12", "06T12"]);
  });

  test("names each secret that its tools use once", () => {
    const inject = { type: "bearer" as const };
    const auth = ["STRIPE", "GITHUB", "STRIPE"].map((secret) => ({ secret, hosts: ["a.example"], inject }));
    const tools_config = { web_fetch: { enabled: true, auth } } as unknown as NamedChanges["tools_config"];
    expect(record({ tools_config }).secrets_used).toEqual(["STRIPE", "GITHUB"]);
    expect(record({}).secrets_used).toEqual([]);
  });
});
