import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { approverOf } from "../support/approvals.ts";
import { expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import type { Client } from "../support/service.ts";
import { calling, completion } from "../support/upstream.ts";

// A run that asks a person before it calls a tool: contract 6.12.

let lab: Lab;
let receiver: Receiver;
let user: Client;
let approver: Omit<Client, "user_id">;

beforeAll(async () => {
  receiver = await startReceiver();
  lab = await startLab(undefined, { env: { PURSER_EGRESS_ALLOW: receiver.host } });
});
beforeEach(async () => {
  receiver.received.length = 0;
  lab.upstream.requests.length = 0;
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  approver = await approverOf(lab.service, user);
});
afterAll(async () => {
  await expectCleanAudit(lab.service);
  await lab.stop();
  await receiver.close();
});

const hook = () => `${receiver.url}/hook`;

/** The address of an agent that asks before each webhook. */
async function create(fields: object = {}): Promise<string> {
  const send_webhook = { enabled: true, urls: [hook()], permission_policy: "always_ask" };
  const agent = { name: "Herald", model_id: "lab/plain", run_prompt: "Tell.", tools_config: { send_webhook } };
  const made = await user.post("/api/v1/agents", { ...agent, ...fields });
  expect(made.status).toBe(201);
  return `/api/v1/agents/${made.body.id}`;
}

/** A run that waits. */
async function waiting(agent: string) {
  const { body } = await user.post(`${agent}/runs`);
  const path = `${agent}/runs/${body.id}`;
  await expect.poll(async () => (await user.get(path)).body.status).toBe("requires_action");
  return { path, run: (await user.get(path)).body };
}
const ended = async (path: string) => {
  await expect.poll(async () => (await user.get(path)).body.finished_at).not.toBeNull();
  return (await user.get(path)).body;
};
const sends = (payload: unknown) => calling("send_webhook", { url: hook(), payload });

test("a call that must be approved is made after the approval, and not before", async () => {
  lab.upstream.answer(sends({ n: 1 }), completion("Told."));
  const agent = await create();
  const { path, run } = await waiting(agent);
  expect(receiver.received).toEqual([]);
  expect(run.required_actions).toEqual([
    {
      id: expect.any(String),
      type: "tool_approval",
      step: 1,
      tool: "send_webhook",
      arguments: { url: hook(), payload: { n: 1 } },
      destination: receiver.host,
      budget: null,
      reason: "Each call of send_webhook needs your approval.",
      untrusted_sources: [],
      spent: { tokens: run.usage.cost_tokens, usd: expect.any(String) },
      requested_at: expect.any(String),
      expires_at: expect.any(String),
    },
  ]);
  const [action] = run.required_actions;
  expect((await user.get(`${agent}/runs`)).body.runs[0].required_actions).toEqual([action]);
  expect((await user.get("/api/v1/runs")).body.runs[0].required_actions).toEqual([action]);

  const decided = await approver.post(`${path}/actions/${action.id}`, { decision: "approve" });
  expect(decided.status).toBe(200);
  expect(decided.body).toMatchObject({
    required_actions: [],
    decisions: [{ ...action, decision: "approved", decided_by: { type: "api_key" }, arguments_sent: action.arguments }],
  });
  expect(await ended(path)).toMatchObject({ status: "succeeded", output: "Told.", steps_count: 3 });
  expect(receiver.received.map(({ body }) => JSON.parse(body))).toEqual([{ n: 1 }]);
});

test("a rejection is the tool's answer to the model, with the person's reason", async () => {
  lab.upstream.answer(sends({ n: 1 }), completion("Then not."));
  const { path, run } = await waiting(await create());
  const body = { decision: "reject", reason: "Not today." };
  expect((await approver.post(`${path}/actions/${run.required_actions[0].id}`, body)).status).toBe(200);
  expect(await ended(path)).toMatchObject({ status: "succeeded", output: "Then not." });
  expect(receiver.received).toEqual([]);
  expect(lab.upstream.requests.at(-1)?.body.messages.at(-1)).toMatchObject({
    role: "tool",
    content: expect.stringContaining("Not today."),
  });
});

test("an edited call is sent with the person's arguments, and the model is told", async () => {
  lab.upstream.answer(sends({ n: 1 }), completion("Told."));
  const { path, run } = await waiting(await create());
  const given = { url: hook(), payload: { n: 2 } };
  const body = { decision: "edit", arguments: given };
  expect((await approver.post(`${path}/actions/${run.required_actions[0].id}`, body)).status).toBe(200);
  expect(await ended(path)).toMatchObject({ status: "succeeded", steps: [{}, { arguments: given }, {}] });
  expect(receiver.received.map(({ body }) => JSON.parse(body))).toEqual([{ n: 2 }]);
});
