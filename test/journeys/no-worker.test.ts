import { expect, inject, test } from "vitest";
import { startLab } from "../support/lab.ts";

test.skipIf(inject("storage").kind === "embedded")(
  "without a worker the test clock does not wait: 503 names the missing worker, and the clock works once there is one",
  async ({ onTestFinished }) => {
    const start = "2026-03-01T00:00:00.000Z";
    const lab = await startLab(undefined, { env: { PURSER_ROLE: "api", PURSER_TEST_CLOCK: start } });
    onTestFinished(() => lab.stop());
    const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
    const daily = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" };
    const made = await user.post("/api/v1/agents", { name: "a", model_id: "lab/plain", run_prompt: "Go.", ...daily });
    const put = (now: string) => lab.service.admin.request("PUT", "/api/v1/admin/clock", { now });
    expect((await put("2026-03-01T08:00:00.000Z")).status).toBe(200);
    const refused = await put("2026-03-01T10:00:00.000Z");
    expect([refused.status, refused.body.error.code]).toEqual([503, "overloaded"]);
    expect(refused.body.error.message).toContain("PURSER_ROLE");
    await lab.service.restart({ PURSER_ROLE: "all" });
    expect((await put("2026-03-01T10:00:00.000Z")).status).toBe(200);
    const { runs } = (await user.get(`/api/v1/agents/${made.body.id}/runs`)).body;
    expect(runs).toMatchObject([{ status: "succeeded", scheduled_for: "2026-03-01T09:00:00.000Z" }]);
  },
);
