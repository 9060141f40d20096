import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { approverOf } from "../support/approvals.ts";
import { charges, expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import { type Received, type Receiver, startReceiver } from "../support/receiver.ts";
import type { Client } from "../support/service.ts";
import { calling, completion, json } from "../support/upstream.ts";

// Tests of changes that are not saved: contract 6.5.4.

let lab: Lab;
let receiver: Receiver;
let user: Client;
let agent: { id: string };

beforeAll(async () => {
  receiver = await startReceiver();
  lab = await startLab(undefined, { env: { PURSER_EGRESS_ALLOW: receiver.host } });
});
afterAll(async () => {
  await expectCleanAudit(lab.service);
  await lab.stop();
  await receiver.close();
});
beforeEach(async () => {
  lab.upstream.answer(completion("Tested."));
  lab.upstream.requests.length = 0;
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  agent = await newAgent();
});

const FIELDS = { name: "Scout", model_id: "lab/plain", system_prompt: "Be brief.", run_prompt: "Look." };
const newAgent = async (fields: object = {}) => (await user.post("/api/v1/agents", { ...FIELDS, ...fields })).body;
const pathOf = ({ id }: { id: string }) => `/api/v1/agents/${id}`;
const testDraft = (draft: object, { body = {}, by = user as Pick<Client, "post">, of = agent } = {}) =>
  by.post(`${pathOf(of)}/runs`, { draft, ...body }, { Prefer: "wait=30" });

test("a test runs with the draft, is billed and marked, and changes neither the agent nor its versions", async () => {
  const before = (await user.get(pathOf(agent))).body;
  const draft = { ...before, name: "Scout 2", system_prompt: "In French.", run_prompt: "Look at {{input.what}}." };
  const { status, body: run } = await testDraft(draft, { body: { input: { what: "the sea" } } });
  expect([status, run]).toMatchObject([
    200,
    { trigger: "test", status: "succeeded", agent_version: 1, output: "Tested.", usage: { cost_tokens: 18 } },
  ]);
  expect(lab.upstream.requests[0]?.body.messages).toMatchObject([
    { content: expect.stringMatching(/^In French\./) },
    { content: "Look at the sea." },
  ]);
  expect((await user.get(`${pathOf(agent)}/runs/${run.id}/prompt`)).body.messages).toEqual([
    { role: "system", content: expect.stringMatching(/^In French\./) },
    { role: "user", content: "Look at the sea." },
  ]);
  expect((await charges(user)).map(({ amount }) => amount)).toEqual([-18]);

  expect((await user.get(pathOf(agent))).body).toEqual(before);
  expect((await user.get(`${pathOf(agent)}/versions`)).body.versions).toMatchObject([{ version: 1 }]);
  const manual = (await user.post(`${pathOf(agent)}/runs`, {}, { Prefer: "wait=30" })).body;
  const listed = async (query: string) =>
    (await user.get(`/api/v1/runs${query}`)).body.runs.map(({ id }: { id: string }) => id);
  expect(await listed("?trigger=test")).toEqual([run.id]);
  expect(await listed("")).toEqual([manual.id, run.id]);
});

test.each<[string, object, object]>([
  ["model", { model_id: "lab/odd" }, { model: "odd" }],
  ["model setting", { model_settings: { temperature: 0.5 } }, { temperature: 0.5 }],
  ["cap of the output", { model_settings: { max_output_tokens: 77 } }, { max_tokens: 77 }],
])("a test uses the draft's %s", async (_, draft, sent) => {
  const { body: run } = await testDraft(draft);
  expect(run).toMatchObject({ trigger: "test", status: "succeeded" });
  expect(lab.upstream.requests[0]?.body).toMatchObject(sent);
});

test("a test asks for its own schemas, limits and tools", async () => {
  const input_schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
  expect((await testDraft({ input_schema })).body.error).toMatchObject({ code: "missing_field", param: "input.city" });
  expect((await testDraft({ limits: { max_cost_tokens_per_run: 1 } })).body).toMatchObject({
    status: "failed",
    error: { code: "budget_exceeded" },
  });
  const ends = { on_budget: "ask", limits: { max_cost_tokens_per_run: 1 } };
  expect((await testDraft(ends)).body).toMatchObject({ status: "failed", error: { code: "budget_exceeded" } });
});

test("a call of a draft's tool asks by the draft's policy, and is edited by its rules", async () => {
  const url = "https://elsewhere.example/hook";
  const send_webhook = { enabled: true, urls: [url], permission_policy: "always_ask" };
  lab.upstream.answer(calling("send_webhook", { url, payload: {} }));
  const { body: run } = await testDraft({ tools_config: { send_webhook } });
  expect(run).toMatchObject({ trigger: "test", status: "requires_action" });
  const approver = await approverOf(lab.service, user);
  const [action] = run.required_actions;
  const path = `${pathOf(agent)}/runs/${run.id}/actions/${action.id}`;
  const edit = (to: string) =>
    approver.post(path, { decision: "edit", arguments: { url: to, payload: { edited: true } } });
  expect((await edit("https://third.example/")).status).toBe(400);
  lab.upstream.answer(completion("Rejected."));
  expect((await approver.post(path, { decision: "reject" })).status).toBe(200);
  const record = async () => (await user.get(`${pathOf(agent)}/runs/${run.id}`)).body;
  await expect.poll(record).toMatchObject({ status: "succeeded", output: "Rejected." });
});

describe("a test is rejected", () => {
  test.each<[string, object, [number, string, string]]>([
    ["without a task", { run_prompt: null }, [400, "missing_field", "run_prompt"]],
    ["with an unknown model", { model_id: "lab/none" }, [400, "model_not_found", "draft.model_id"]],
    ["without a model", { model_id: null }, [400, "missing_field", "draft.model_id"]],
    ["with a wrong placeholder", { run_prompt: "On {{Date}}" }, [400, "invalid_value", "draft.run_prompt"]],
    ["with a version that is not the present one", { version: 9 }, [400, "invalid_value", "draft.version"]],
    ["with an unknown field", { task: "Look." }, [400, "unknown_field", "draft.task"]],
    [
      "with a secret that does not exist",
      { tools_config: { send_webhook: { enabled: true, urls: ["https://a.example/"], secret: "NONE" } } },
      [400, "invalid_value", "draft.tools_config.send_webhook.secret"],
    ],
  ])("%s, and no run is stored", async (_, draft, [status, code, param]) => {
    const answer = await testDraft(draft);
    expect([answer.status, answer.body.error?.code, answer.body.error?.param]).toEqual([status, code, param]);
    expect((await user.get("/api/v1/runs")).body.runs).toEqual([]);
  });

  test("with a secret that a key without secrets:write adds; null keeps a saved one", async () => {
    await user.post("/api/v1/secrets", { name: "STRIPE", value: "value" });
    const binding = { secret: "STRIPE" as string | null, hosts: ["api.stripe.com"], inject: { type: "bearer" } };
    const tools = (change: object = {}) => ({
      tools_config: { web_fetch: { enabled: true, auth: [{ ...binding, ...change }] } },
    });
    const of = await newAgent(tools());
    const key = await user.post("/api/v1/api-keys", { name: "narrow", scopes: ["agents:read", "agents:write"] });
    const by = lab.service.as(key.body.key);
    expect((await testDraft(tools({ hosts: ["evil.example"] }), { by, of })).body.error).toMatchObject({
      code: "insufficient_scope",
      param: "draft.tools_config.web_fetch.auth[0].secret",
    });
    expect((await testDraft(tools({ secret: null }), { by, of })).body).toMatchObject({ status: "succeeded" });
  });

  test("of another user's agent (404), of a disabled agent (409), and without tokens (402)", async () => {
    const other = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
    expect((await testDraft({}, { by: other })).status).toBe(404);
    const disabled = await newAgent({ is_active: false });
    expect((await testDraft({ is_active: true }, { of: disabled })).body.error).toMatchObject({
      code: "agent_disabled",
    });
    user = await lab.service.newUser({ trial: false });
    expect((await testDraft({}, { of: await newAgent() })).status).toBe(402);
  });
});

test("the end of a test counts for no schedule, delivers nothing, makes no notice and is not the agent's last run", async () => {
  await user.post("/api/v1/webhook-endpoints", {
    url: `${receiver.url}/notices`,
    events: ["run.failed", "run.succeeded"],
  });
  const of = await newAgent({
    deliveries: [{ to: `${receiver.url}/results` }],
    limits: { max_consecutive_failures: 1 },
    schedule_enabled: true,
    schedule_interval: "daily",
    schedule_time: "09:00",
  });
  lab.upstream.answer(json({ error: { message: "no" } }, 400));
  expect((await testDraft({ run_prompt: "Fail." }, { of })).body).toMatchObject({ status: "failed", deliveries: [] });
  lab.upstream.answer(completion("{{last_output}}"));
  expect((await testDraft({}, { of })).body).toMatchObject({ status: "succeeded", deliveries: [] });
  const shown = (await user.get(pathOf(of))).body;
  expect(shown).toMatchObject({ consecutive_failures: 0, schedule_status: "active", last_run: null });

  // A run that is no test shows that both addresses do get what they should.
  const run = (await user.post(`${pathOf(of)}/runs`, { run_prompt: "{{last_output}}" }, { Prefer: "wait=30" })).body;
  expect(lab.upstream.requests.at(-1)?.body.messages.at(-1).content).toBe("none");
  const idIn = ({ body }: Received) => JSON.parse(String(body)).data;
  await expect.poll(() => receiver.received.length).toBe(2);
  expect(receiver.received.map((each) => idIn(each).run_id ?? idIn(each).id)).toEqual([run.id, run.id]);
  expect((await user.get(pathOf(of))).body.last_run.id).toBe(run.id);
});

test("the draft is stored with the run, and deleted with the agent", async () => {
  const { body: run } = await testDraft({ system_prompt: "Only in the draft." });
  const db = await lab.service.database.open();
  const drafts = () =>
    db.query({
      text: "select engine_input #>> '{draft,system_prompt}' as draft from run where user_id = $1 and id = $2",
      values: [user.user_id, run.id],
    });
  expect(await drafts()).toEqual([{ draft: "Only in the draft." }]);
  expect((await user.request("DELETE", pathOf(agent))).status).toBe(204);
  expect(await drafts()).toEqual([{ draft: null }]);
  await db.close();
});
