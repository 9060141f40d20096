import { afterAll, beforeAll, expect, test } from "vitest";
import type { Db } from "../../src/platform/db/db.ts";
import { type Lab, startLab } from "../support/lab.ts";
import { type MailServer, startMailServer } from "../support/mail-server.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import type { Client } from "../support/service.ts";
import { deliver, newTrigger } from "../support/triggers.ts";
import { calling, completion } from "../support/upstream.ts";

// PURSER_MODE=drill: a restored copy is tried without an effect on the customers of the real service. Contract 1.14.

let lab: Lab;
let db: Db;
let receiver: Receiver;
let mails: MailServer;
let user: Client;
let agent: string;
let queued_id: string;

beforeAll(async () => {
  receiver = await startReceiver();
  mails = await startMailServer();
  const env = { PURSER_EGRESS_ALLOW: receiver.host, SMTP_URL: mails.url, PURSER_PAYMENTS: "sandbox" };
  lab = await startLab(undefined, { env });
  db = await lab.service.database.open();
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const made = await user.post("/api/v1/agents", {
    name: "Herald",
    model_id: "lab/plain",
    run_prompt: "Tell.",
    tools_config: { send_webhook: { enabled: true, urls: [`${receiver.url}/tool`] } },
    schedule_enabled: true,
    schedule_interval: "daily",
    schedule_time: "09:00",
  });
  agent = `/api/v1/agents/${made.body.id}`;
  await user.post("/api/v1/webhook-endpoints", { url: `${receiver.url}/notices`, events: ["run.failed"] });
  // A run that waits in the copy's queue.
  lab.upstream.answer(completion("Told."));
  queued_id = (await user.post(`${agent}/runs`, undefined, { Prefer: "wait=30" })).body.id;
  await lab.service.restart({ PURSER_MODE: "drill" });
  await db.query({ text: "delete from run_step" });
  await db.query({
    text: "update run set status = 'queued', finished_at = null, output = null, worker_id = null, steps_count = 0",
  });
  await db.query({ text: "update schedule set next_run_at = next_run_at - interval '1 day'" });
});
afterAll(async () => {
  await db.close();
  await lab.stop();
  await receiver.close();
  await mails.stop();
});

const statusOf = async (id: string) => (await user.get(`${agent}/runs/${id}`)).body.status;
const occurrences = async () => (await user.get(`${agent}/occurrences`)).body.occurrences;

test("a drill says so in every answer, in its readiness and in its log", async () => {
  const { service } = lab;
  const answers = [
    await user.get("/api/v1/models"),
    await user.get("/api/v1/nothing"),
    await service.as("wrong").get("/api/v1/models"),
    await service.admin.get("/api/v1/admin/users"),
    await user.post("/api/v1/chat/completions", { model: "lab/plain", messages: [] }),
  ];
  for (const { headers } of answers) expect(headers.get("purser-mode")).toBe("drill");
  expect((await service.as("").get("/readyz")).body).toEqual({ status: "ready", mode: "drill" });
});

test("a test event of a webhook endpoint is not sent", async () => {
  const [{ id }] = (await user.get("/api/v1/webhook-endpoints")).body.webhook_endpoints;
  const { body } = await user.post(`/api/v1/webhook-endpoints/${id}/test`);
  expect(body).toMatchObject({ delivered: false, status: null, error: "not_sent" });
  expect(receiver.received).toEqual([]);
});

test("a run-now of a drill is executed, but its webhook, the notice of its failure and mails are not sent", async () => {
  lab.upstream.answer(calling("send_webhook", { url: `${receiver.url}/tool`, payload: { n: 1 } }));
  const run = (await user.post(`${agent}/runs`, undefined, { Prefer: "wait=30" })).body;
  expect(run).toMatchObject({ status: "failed", error: { code: "tool_failed" } });
  expect(run.steps[1].error).toMatchObject({ code: "webhook_failed", message: expect.stringContaining("drill") });
  expect((await user.get("/api/v1/notices")).body.notices[0]).toMatchObject({ event: "run.failed" });
  const { email } = (await user.get("/api/v1/users/me")).body;
  const headers = { Origin: lab.service.url };
  expect((await lab.service.as("").post("/api/v1/auth/request-password-reset", { email }, headers)).status).toBe(202);
  await expect.poll(() => lab.service.linkTo(email)).toBeDefined();
  expect([receiver.received, mails.received]).toEqual([[], []]);
});

test("a delivery to a trigger of a drill is executed too", async () => {
  lab.upstream.answer(completion("Told."));
  const { body } = await deliver(await newTrigger(user, {}, agent), { n: 1 });
  await expect.poll(() => statusOf(body.run_id), { interval: 20 }).toBe("succeeded");
});

test("a drill takes no payments", async () => {
  const bought = await user.post("/api/v1/billing/purchase", { amount_cents: 100 });
  expect([bought.status, bought.body.error.code]).toEqual([503, "payments_not_configured"]);
  expect((await user.get("/api/v1/billing/plans")).body.payments).toBe("none");
});

test("due schedules and runs that were queued before wait, and go on when the copy becomes the real service", async () => {
  // Long enough for two sweeps and two turns of the worker.
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  expect([await statusOf(queued_id), await occurrences()]).toEqual(["queued", []]);
  lab.upstream.answer(completion("Told."));
  await lab.service.restart();
  await expect.poll(() => statusOf(queued_id)).toBe("succeeded");
  await expect.poll(async () => (await occurrences()).length).toBe(1);
  await expect.poll(() => receiver.received.map(({ path }) => path)).toContain("/notices");
  expect((await user.get("/api/v1/models")).headers.get("purser-mode")).toBeNull();
});
