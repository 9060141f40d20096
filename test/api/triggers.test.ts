import { randomUUID } from "node:crypto";
import { Webhooks } from "@octokit/webhooks";
import Stripe from "stripe";
import { Webhook as Svix } from "svix";
import { beforeEach, describe, expect, it } from "vitest";
import { useLab } from "../support/lab.ts";
import { metricsOf } from "../support/metrics.ts";
import type { Client } from "../support/service.ts";
import {
  deliver,
  endedRun,
  hexHmac,
  newTriggeredAgent,
  newTrigger as newTriggerOf,
  postHook,
  type TestTrigger,
} from "../support/triggers.ts";
import { completion } from "../support/upstream.ts";

// Addresses at which other services start runs: contract 6.17.

const START = "2026-03-02T09:00:00.000Z";
const lab = useLab(undefined, { env: { PURSER_TEST_CLOCK: START } });
let user: Client;
/** Sets the clock to so many hours after the beginning of the file's tests. */
const setHour = async (hour: number) => {
  const now = new Date(Date.parse(START) + hour * 3_600_000).toISOString();
  expect((await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now })).status).toBe(200);
};
beforeEach(async () => {
  lab.upstream.answer(completion("Triaged."));
  lab.upstream.requests.length = 0;
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
});

const newAgent = (fields: object = {}, of = user) => newTriggeredAgent(of, fields);
const newTrigger = (fields: object = {}, agent?: string, of = user) => newTriggerOf(of, fields, agent);
const deliveriesOf = async ({ path }: TestTrigger, of = user) => (await of.get(`${path}/deliveries`)).body.deliveries;
const ended = (run_id: string) => endedRun(user, run_id);
/** All that a model was told, as one text. */
const told = () => JSON.stringify(lab.upstream.requests.map(({ body }) => body.messages));

describe("a trigger", () => {
  it("is created with its address and a secret that no later answer has", async () => {
    const agent = await newAgent();
    const made = await user.post(`${agent}/triggers`, {
      name: "Issues",
      verify: "github",
      filter: { "headers.x-github-event": "issues" },
      input_map: { title: "issue.title" },
    });
    expect(made).toMatchObject({
      status: 201,
      body: {
        url: `${lab.service.url}/hooks/${made.body.id}`,
        name: "Issues",
        verify: "github",
        enabled: true,
        run_prompt: null,
        rejected_count: 0,
        last_delivery_at: null,
        former_secret_until: null,
      },
    });
    const { secret, ...record } = made.body;
    expect(secret).toMatch(/^[\w-]{43}$/);
    expect((await user.get(`${agent}/triggers`)).body).toEqual({ triggers: [record], next_cursor: null });
    expect((await user.get(`${agent}/triggers/${record.id}`)).body).toEqual(record);
    const changed = await user.request("PATCH", `${agent}/triggers/${record.id}`, { ...record, name: "All issues" });
    expect(changed.body).toMatchObject({ name: "All issues", filter: record.filter });
    expect(JSON.stringify(changed.body)).not.toContain(secret);
    expect((await user.request("DELETE", `${agent}/triggers/${record.id}`)).status).toBe(204);
    expect((await user.get(`${agent}/triggers/${record.id}`)).status).toBe(404);
  });

  it.each([
    ['event = "push"', { event: "push" }],
    ['action = "opened" and issue.number = 7', { action: "opened", "issue.number": 7 }],
    ["action == opened AND draft = false", { action: "opened", draft: false }],
  ])("with the filter %j in words has %j", async (words, filter) => {
    const made = await user.post(`${await newAgent()}/triggers`, {
      name: "A",
      verify: { type: "github" },
      filter: words,
    });
    expect(made).toMatchObject({ status: 201, body: { verify: "github", filter } });
  });

  it.each([
    [{ verify: "md5" }, "verify"],
    [{ filter: "push" }, "filter"],
    [{ verify: { type: "hmac_sha256" } }, "verify"],
    [{ filter: { "": 1 } }, "filter"],
    [{ filter: { action: {} } }, "filter"],
    [{ input_map: { a: "x y" } }, "input_map"],
    [{ input_map: { a: "$.issue.title" } }, "input_map"],
    [{ run_prompt: " " }, "run_prompt"],
    [{ secret: "short" }, "secret"],
    [{ verify: "standard_webhooks", secret: "no whsec at all" }, "secret"],
    [{ name: "" }, "name"],
    [{ secrets: 1 }, "secrets"],
  ])("with %j is rejected, and the answer names the field", async (fields, param) => {
    const answer = await user.post(`${await newAgent()}/triggers`, { name: "x", verify: "github", ...fields });
    expect(answer.status).toBe(400);
    expect(answer.body.error.param).toMatch(new RegExp(`^${param}`));
  });

  it("needs a run_prompt of its own or of its agent, a free name, and a place among twenty", async () => {
    const silent = await newAgent({ run_prompt: null });
    const trigger = { name: "a", verify: "bearer" };
    expect((await user.post(`${silent}/triggers`, trigger)).body.error).toMatchObject({ param: "run_prompt" });
    expect((await user.post(`${silent}/triggers`, { ...trigger, run_prompt: "Look." })).status).toBe(201);
    expect((await user.post(`${silent}/triggers`, { ...trigger, run_prompt: "Look." })).body.error).toMatchObject({
      code: "name_taken",
    });
    const names = Array.from({ length: 19 }, (_, n) => `n${n}`);
    for (const name of names) await newTrigger({ name, run_prompt: "Look." }, silent);
    const one_more = await user.post(`${silent}/triggers`, { name: "z", verify: "bearer", run_prompt: "Look." });
    expect(one_more.body.error).toMatchObject({ code: "trigger_limit_reached" });
  });

  it("stays with its agent: a duplicate and an agent with an earlier version's settings have the triggers that they had", async () => {
    const agent = await newAgent();
    const trigger = await newTrigger({}, agent);
    await user.request("PUT", agent, { description: "changed" });
    expect((await user.post(`${agent}/versions/1/restore`)).status).toBe(200);
    expect((await user.get(`${agent}/triggers`)).body.triggers).toMatchObject([{ id: trigger.id }]);
    const copy = await user.post(`${agent}/duplicate`, {});
    expect((await user.get(`/api/v1/agents/${copy.body.id}/triggers`)).body.triggers).toEqual([]);
  });

  it("is gone with its deliveries when its user is erased", async () => {
    const trigger = await newTrigger();
    await deliver(trigger, { n: 1 });
    expect((await lab.service.admin.request("DELETE", `/api/v1/admin/users/${user.user_id}`)).status).toBe(204);
    expect((await deliver(trigger, { n: 2 })).status).toBe(404);
    const db = await lab.service.database.open();
    for (const table of ["agent_trigger", "trigger_delivery", "trigger_day"]) {
      const left = await db.query({ text: `select 1 from ${table} where user_id = $1`, values: [user.user_id] });
      expect(left, table).toEqual([]);
    }
    await db.close();
  });

  it("of another user does not exist", async () => {
    const trigger = await newTrigger();
    await deliver(trigger, { action: "opened" });
    const [delivery] = await deliveriesOf(trigger);
    const other = await lab.service.newUser();
    const agent = trigger.path.replace(/\/triggers.*/, "");
    const asked = [
      await other.get(`${agent}/triggers`),
      await other.post(`${agent}/triggers`, { name: "x", verify: "bearer" }),
      await other.get(trigger.path),
      await other.request("PATCH", trigger.path, { enabled: false }),
      await other.post(`${trigger.path}/rotate`),
      await other.get(`${trigger.path}/deliveries`),
      await other.post(`${trigger.path}/deliveries/${delivery.id}/resend`),
      await other.request("DELETE", trigger.path),
    ];
    expect(asked.map(({ status }) => status)).toEqual(asked.map(() => 404));
    expect((await user.get(trigger.path)).body).toMatchObject({ enabled: true });
    // An agent of one's own does not lead to it.
    const own = await newAgent({}, other);
    expect((await other.get(`${own}/triggers/${trigger.id}`)).status).toBe(404);
  });

  it("accepts each former secret until its own time, however often the secret is rotated", async () => {
    const trigger = await newTrigger();
    const secrets = [trigger.secret];
    const rotate = async (body?: object) => {
      const rotated = await user.post(`${trigger.path}/rotate`, body);
      secrets.push(rotated.body.secret);
      return rotated;
    };
    const answers = async () => {
      const sent = secrets.map((secret) => deliver({ ...trigger, secret }, { n: 1 }));
      return (await Promise.all(sent)).map(({ status }) => status);
    };
    const end = "2026-03-04T09:00:00.000Z";
    expect(await rotate({ overlap_hours: 48 })).toMatchObject({ status: 200, body: { former_secret_until: end } });
    expect((await rotate({ overlap_hours: 1 })).body).toMatchObject({ former_secret_until: end });
    expect((await rotate()).body).toMatchObject({ former_secret_until: end });
    expect(new Set(secrets).size).toBe(4);
    expect(await answers()).toEqual([202, 202, 202, 202]);
    await setHour(2);
    expect(await answers()).toEqual([202, 401, 202, 202]);
    await setHour(25);
    expect(await answers()).toEqual([202, 401, 401, 202]);
    await setHour(49);
    expect(await answers()).toEqual([401, 401, 401, 202]);
    expect((await user.get(trigger.path)).body.former_secret_until).toBeNull();
    await rotate({ overlap_hours: 48 });
    const own = "It's a Secret to Everybody";
    expect((await rotate({ overlap_hours: 0, secret: own })).body).toMatchObject({
      secret: own,
      former_secret_until: null,
    });
    expect(await answers()).toEqual([401, 401, 401, 401, 401, 202]);
  });

  it("has at most ten former secrets, and a rotation without overlap ends them", async () => {
    const { path } = await newTrigger();
    for (let n = 0; n < 10; n += 1) expect((await user.post(`${path}/rotate`)).status).toBe(200);
    const one_more = await user.post(`${path}/rotate`);
    expect(one_more).toMatchObject({ status: 409, body: { error: { code: "former_secret_limit_reached" } } });
    expect((await user.post(`${path}/rotate`, { overlap_hours: 0 })).status).toBe(200);
    expect((await user.post(`${path}/rotate`)).status).toBe(200);
  });

  it("that gets another secret by a change of its fields answers with the address that replaces secrets", async () => {
    const { path } = await newTrigger();
    const { status, body } = await user.request("PATCH", path, { name: "Other", secret: "It's a Secret to Everybody" });
    expect([status, body.error]).toMatchObject([
      400,
      { code: "unknown_field", param: "secret", message: expect.stringContaining("/triggers/{trigger_id}/rotate") },
    ]);
    expect((await user.get(path)).body.name).toBe("Issues");
  });
});

describe("a delivery", () => {
  it("starts a run whose input is its body, with the trigger's id and name", async () => {
    const trigger = await newTrigger();
    const answer = await deliver(trigger, { action: "opened", issue: { title: "It does not start" } });
    expect(answer).toMatchObject({ status: 202, body: { outcome: "run", run_id: expect.any(String) } });
    const run = await ended(answer.body.run_id);
    expect(run).toMatchObject({
      trigger: "webhook",
      trigger_id: trigger.id,
      trigger_name: "Issues",
      status: "succeeded",
      output: "Triaged.",
      input: { action: "opened", issue: { title: "It does not start" } },
    });
    expect(told()).toContain("It does not start");
    expect(await deliveriesOf(trigger)).toEqual([
      expect.objectContaining({
        id: answer.body.delivery,
        trigger_id: trigger.id,
        outcome: "run",
        run_id: run.id,
        run: { status: "succeeded", has_errors: false },
        error: null,
        attempts: 1,
      }),
    ]);
    const listed = (await user.get("/api/v1/runs?trigger=webhook")).body.runs;
    expect(listed).toMatchObject([{ id: run.id, trigger_name: "Issues" }]);
    expect((await user.get(trigger.path)).body.last_delivery_at).toEqual(expect.any(String));
  });

  it("of Stripe's, Octokit's and Svix's own libraries starts a run", async () => {
    const body = JSON.stringify({ id: "evt_1", type: "invoice.paid" });
    const stripe = await newTrigger({ verify: "stripe", secret: "whsec_of_stripe" });
    const signature = Stripe.webhooks.generateTestHeaderString({ payload: body, secret: "whsec_of_stripe" });
    const github = await newTrigger();
    const svix = await newTrigger({ verify: "standard_webhooks" });
    const now = new Date();
    const of_svix = {
      "svix-id": "msg_1",
      "svix-timestamp": String(Math.floor(now.getTime() / 1_000)),
      "svix-signature": new Svix(svix.secret).sign("msg_1", now, body),
    };
    const answers = [
      await postHook(stripe.url, body, { "stripe-signature": signature }),
      await postHook(github.url, body, {
        "x-hub-signature-256": await new Webhooks({ secret: github.secret }).sign(body),
        "x-github-delivery": "1",
      }),
      await postHook(svix.url, body, of_svix),
    ];
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 202]);
    expect((await deliveriesOf(stripe))[0]).toMatchObject({ delivery_id: "evt_1" });
    expect((await deliveriesOf(svix))[0]).toMatchObject({ delivery_id: "msg_1" });
  });

  it("may be a form, GitHub's with its payload included", async () => {
    const trigger = await newTrigger();
    const form = { headers: { "content-type": "application/x-www-form-urlencoded" } };
    const github = await deliver(trigger, `payload=${encodeURIComponent('{"action":"opened"}')}`, form);
    const plain = await deliver(trigger, "command=%2Ftriage&text=now", form);
    expect((await ended(github.body.run_id)).input).toEqual({ action: "opened" });
    expect((await ended(plain.body.run_id)).input).toEqual({ command: "/triage", text: "now" });
  });

  it("gives the run the fields of input_map, its own run_prompt, and the agent's schema decides", async () => {
    const input_schema = { type: "object", properties: { title: { type: "string" } }, required: ["title"] };
    const agent = await newAgent({ input_schema });
    const input_map = { title: "issue.title", event: "headers.x-github-event" };
    const trigger = await newTrigger({ input_map, run_prompt: "Only the title: {{input.title}}" }, agent);
    const { body } = await deliver(trigger, { issue: { title: "Broken" }, sender: "someone" });
    expect((await ended(body.run_id)).input).toEqual({ title: "Broken", event: "issues" });
    expect(told()).toContain("Only the title:");
    expect(told()).not.toContain("someone");
    const misfit = await deliver(trigger, { issue: {} });
    expect(misfit).toMatchObject({ status: 400, body: { error: { code: "missing_field" } } });
    expect((await deliveriesOf(trigger))[0]).toMatchObject({
      outcome: "failed",
      run_id: null,
      error: { code: "missing_field", message: expect.stringContaining("input.title") },
    });
  });

  it("that lacks what the filter asks for is listed and starts no run", async () => {
    const filter = { "headers.x-github-event": "issues", action: ["opened", "reopened"] };
    const trigger = await newTrigger({ filter });
    expect(await deliver(trigger, { action: "closed" })).toMatchObject({
      status: 202,
      body: { run_id: null, outcome: "filtered" },
    });
    expect((await deliver(trigger, { action: "opened" }, { event: "push" })).body.outcome).toBe("filtered");
    expect((await deliver(trigger, { action: "reopened" })).body.outcome).toBe("run");
    const listed = await deliveriesOf(trigger);
    expect(listed.map(({ outcome }: { outcome: string }) => outcome)).toEqual(["run", "filtered", "filtered"]);
    const only = (await user.get(`${trigger.path}/deliveries?outcome=filtered`)).body.deliveries;
    expect(only).toHaveLength(2);
    expect((await user.get(`/api/v1/runs?trigger=webhook`)).body.runs).toHaveLength(1);
  });

  it("that comes again gets the first answer and starts no second run", async () => {
    const trigger = await newTrigger();
    const [first, second] = [
      await deliver(trigger, { n: 1 }, { id: "72d3162e" }),
      await deliver(trigger, { n: 1 }, { id: "72d3162e" }),
    ];
    expect(second.status).toBe(first.status);
    expect(second.body).toEqual(first.body);
    expect(await deliveriesOf(trigger)).toMatchObject([{ delivery_id: "72d3162e", attempts: 2 }]);
    // Without a name for the delivery its body decides.
    const unnamed = await newTrigger({ verify: { type: "hmac_sha256", header: "X-Signature" } });
    const send = (body: string) => postHook(unnamed.url, body, { "x-signature": hexHmac(unnamed.secret, body) });
    expect((await send('{"n":1}')).body).toEqual((await send('{"n":1}')).body);
    expect((await send('{"n":2}')).body.run_id).not.toBe((await send('{"n":1}')).body.run_id);
    const token = await newTrigger({ verify: "bearer" });
    const call = () => postHook(token.url, "{}", { authorization: `Bearer ${token.secret}` });
    expect((await call()).body.run_id).not.toBe((await call()).body.run_id);
  });

  it("can be sent again, and meets the trigger as it is now", async () => {
    const trigger = await newTrigger({ filter: { action: "opened" } });
    const { body } = await deliver(trigger, { action: "edited" });
    const resend = () => user.post(`${trigger.path}/deliveries/${body.delivery}/resend`);
    expect((await resend()).body).toMatchObject({ outcome: "filtered" });
    await user.request("PATCH", trigger.path, { filter: null });
    const again = await resend();
    expect(again).toMatchObject({ status: 202, body: { outcome: "run", run_id: expect.any(String) } });
    expect((await ended(again.body.run_id)).input).toEqual({ action: "edited" });
    const [newest] = await deliveriesOf(trigger);
    expect(newest).toMatchObject({ id: again.body.delivery, resent_from: body.delivery });
  });

  it("for which no run can start fails with the reason, costs nothing, and may come again", async () => {
    const agent = await newAgent();
    const trigger = await newTrigger({}, agent);
    const sent = () => deliver(trigger, { n: 1 }, { id: "same" });
    await user.request("PUT", agent, { is_active: false });
    expect(await sent()).toMatchObject({ status: 409, body: { error: { code: "agent_disabled" } } });
    await user.request("PUT", agent, { is_active: true });
    await user.request("PATCH", trigger.path, { enabled: false });
    expect(await sent()).toMatchObject({ status: 409, body: { error: { code: "trigger_disabled" } } });
    await user.request("PATCH", trigger.path, { enabled: true });
    expect(await deliveriesOf(trigger)).toMatchObject([
      { outcome: "failed", attempts: 2, error: { code: "trigger_disabled" } },
    ]);
    expect((await sent()).status).toBe(202);
    expect(await deliveriesOf(trigger)).toMatchObject([{ outcome: "run", attempts: 3, error: null }]);
    const poor = await lab.service.newUser({ trial: false });
    const unpaid = await newTrigger({}, undefined, poor);
    const declined = await deliver(unpaid, { n: 1 });
    expect(declined).toMatchObject({ status: 402, body: { error: { code: "out_of_tokens" } } });
    // The sender learns nothing of the account.
    expect(JSON.stringify(declined.body)).not.toMatch(/balance|available|shortfall/);
    expect((await deliveriesOf(unpaid, poor))[0].error.message).toMatch(/token/);
  });

  it("of more than 256 KB, neither JSON nor a form, or nested too deeply starts no run", async () => {
    const trigger = await newTrigger();
    expect((await deliver(trigger, { text: "x".repeat(262_144) })).status).toBe(413);
    expect((await deliver(trigger, "hello")).body.error).toMatchObject({ code: "invalid_body" });
    expect((await deliver(trigger, `{"a":${"[".repeat(2_000)}${"]".repeat(2_000)}}`)).status).toBe(400);
    expect((await deliver(trigger, { text: "x".repeat(200_000) })).status).toBe(202);
    expect(await deliveriesOf(trigger)).toHaveLength(1);
  });

  it("of Slack's check of the address is answered with its challenge", async () => {
    const trigger = await newTrigger({ verify: "slack" });
    const body = JSON.stringify({ type: "url_verification", challenge: "3eZbrw1aB" });
    const timestamp = String(Math.floor(Date.now() / 1_000));
    const signature = `v0=${hexHmac(trigger.secret, `v0:${timestamp}:${body}`)}`;
    const answer = await postHook(trigger.url, body, {
      "x-slack-signature": signature,
      "x-slack-request-timestamp": timestamp,
    });
    expect(answer).toMatchObject({ status: 200, body: { challenge: "3eZbrw1aB" } });
    expect(await deliveriesOf(trigger)).toEqual([]);
  });
});

describe("a delivery that must not start a run", () => {
  it("without a valid signature is 401, costs nothing and is counted with its reason", async () => {
    const trigger = await newTrigger();
    const forged = [
      await postHook(trigger.url, "{}"),
      await postHook(trigger.url, "{}", { "x-hub-signature-256": "sha256=00" }),
      await deliver({ ...trigger, secret: "another secret" }, { n: 1 }),
      await postHook(trigger.url, "{}", { authorization: `Bearer ${user.key}` }),
    ];
    expect(forged.map(({ status }) => status)).toEqual([401, 401, 401, 401]);
    expect(forged[2]?.body.error).toMatchObject({ code: "invalid_signature" });
    expect((await user.get(trigger.path)).body).toMatchObject({
      rejected_count: 4,
      last_rejected_reason: expect.stringContaining("X-Hub-Signature-256"),
    });
    expect(await deliveriesOf(trigger)).toEqual([]);
    expect(lab.upstream.requests).toHaveLength(0);
    expect(await metricsOf(lab.service.url)).toMatch(/^purser_trigger_deliveries_total\{outcome="rejected"\} [1-9]/m);
  });

  it("replayed with its old timestamp is 401, and within it starts no second run", async () => {
    const trigger = await newTrigger({ verify: "stripe" });
    const send = (age_s: number) => {
      const payload = JSON.stringify({ id: "evt_1" });
      const timestamp = Math.floor(Date.now() / 1_000) - age_s;
      const header = Stripe.webhooks.generateTestHeaderString({ payload, secret: trigger.secret, timestamp });
      return postHook(trigger.url, payload, { "stripe-signature": header });
    };
    const late = await send(301);
    expect(late).toMatchObject({ status: 401, body: { error: { code: "invalid_signature" } } });
    expect(late.body.error.message).toMatch(/tolerance of 5 minutes: it is 2\S+Z, and the server's time is 2\S+Z\./);
    expect(late.body.error.message).not.toMatch(/secret/);
    const first = await send(200);
    expect((await send(0)).body).toEqual(first.body);
    expect(await deliveriesOf(trigger)).toHaveLength(1);
  });

  it("in another order than it was sent is a run of its own", async () => {
    const trigger = await newTrigger();
    const later = await deliver(trigger, { action: "closed", number: 2 });
    const earlier = await deliver(trigger, { action: "opened", number: 1 });
    expect((await ended(later.body.run_id)).input).toMatchObject({ number: 2 });
    expect((await ended(earlier.body.run_id)).input).toMatchObject({ number: 1 });
  });

  it("to a deleted trigger, a deleted agent or an unknown address is 404", async () => {
    const agent = await newAgent();
    const [one, other] = [await newTrigger({}, agent), await newTrigger({ name: "b" }, agent)];
    await user.request("DELETE", one.path);
    expect((await deliver(one, { n: 1 })).status).toBe(404);
    await user.request("DELETE", agent);
    expect((await deliver(other, { n: 1 })).status).toBe(404);
    for (const id of [randomUUID(), "x", "%00"]) {
      expect((await deliver({ ...one, url: `${lab.service.url}/hooks/${id}` }, { n: 1 })).status).toBe(
        id === "%00" ? 400 : 404,
      );
    }
  });

  it("of a suspended user is 403 and listed", async () => {
    const trigger = await newTrigger();
    await lab.service.admin.post(`/api/v1/admin/users/${user.user_id}/suspend`);
    expect((await deliver(trigger, { n: 1 })).status).toBe(403);
    await lab.service.admin.post(`/api/v1/admin/users/${user.user_id}/resume`);
    expect((await deliver(trigger, { n: 1 })).status).toBe(202);
  });

  it("counts against the API key that wrote the trigger, and stops with it", async () => {
    const made = await user.post("/api/v1/api-keys", { name: "hooks", budget_tokens: 1_000_000 });
    const of_key = { ...user, ...lab.service.as(made.body.key) };
    const trigger = await newTrigger({}, undefined, of_key);
    const { body } = await deliver(trigger, { n: 1 });
    await ended(body.run_id);
    const [found] = (await user.get("/api/v1/runs?trigger=webhook")).body.runs;
    expect(found.api_key_id).toBe(made.body.id);
    await user.request("DELETE", `/api/v1/api-keys/${made.body.id}`);
    expect((await deliver(trigger, { n: 2 })).body.error).toMatchObject({ code: "trigger_key_ended" });
    await user.request("PATCH", trigger.path, { filter: {} });
    expect((await deliver(trigger, { n: 2 })).status).toBe(202);
  });
});
