import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Notice } from "../../src/api/contract/notices.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { createSystemClock } from "../../src/platform/lib/clock.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createMailer } from "../../src/platform/net/mail.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { type Browser, openBrowser } from "../support/browser.ts";
import { createTestDatabase } from "../support/database.ts";
import { type MailServer, startMailServer } from "../support/mail-server.ts";
import { failedRun, makeDue, noticesNode } from "../support/notices.ts";
import { type Service, startService } from "../support/service.ts";
import { signUpByMail, tokenOf } from "../support/sign-up.ts";

const PUBLIC_URL = "https://purser.example";
const ENDPOINTS = "/webhook-endpoints";
const EVENTS = ["run.failed", "schedule.paused"];

let mails: MailServer;
let service: Service;
let db: Db;
beforeAll(async () => {
  mails = await startMailServer();
  service = await startService({
    env: { PURSER_PUBLIC_URL: PUBLIC_URL, PURSER_TRUSTED_PROXIES: "127.0.0.0/8", SMTP_URL: mails.url },
  });
  db = await service.database.open();
});
afterAll(async () => {
  await db.close();
  await service.stop();
  await mails.stop();
});
afterEach(() => void mails.received.splice(0));

let sequence = 0;
/** A person who has confirmed their address, and the mails of their notices. */
async function newPerson(): Promise<{ email: string; person: Browser }> {
  sequence += 1;
  const email = `person${sequence}@example.org`;
  const from = `192.0.2.${sequence}`;
  return { email, person: await signUpByMail(service, mails, { email, origin: PUBLIC_URL, from }) };
}
/** The same, with mails about failed runs. */
async function newMailedPerson(): Promise<{ email: string; person: Browser }> {
  const { email, person } = await newPerson();
  await person.post(ENDPOINTS, { url: `mailto:${email}`, events: ["run.failed"] });
  return { email, person };
}
/** An agent whose runs all fail, because they may cost less than its prompt. */
const newAgent = async (person: Browser, fields: object = {}): Promise<string> => {
  const limits = { max_cost_tokens_per_run: 1, max_consecutive_failures: 1 };
  const agent = {
    name: "Harbour watch",
    model_id: "purser/rehearsal",
    run_prompt: "Say hello to all",
    limits,
    ...fields,
  };
  return (await person.post("/agents", agent)).body.id;
};
const run = async (person: Browser, agent_id: string): Promise<string> =>
  (await person.post(`/agents/${agent_id}/runs`)).body.id;
const latest = async (person: Browser): Promise<Notice> =>
  (await person.get("/notices?event=run.failed&limit=1")).body.notices[0];
const lastDelivery = async (person: Browser) => (await latest(person))?.deliveries[0];

describe("notices by e-mail (contract 5.13.1)", () => {
  it("name the agent and link to the page, without text of the run", async () => {
    const { email, person } = await newPerson();
    const made = await person.post(ENDPOINTS, { url: `MAILTO:${email.toUpperCase()}`, events: EVENTS });
    expect(made.status).toBe(201);
    expect(made.body).toMatchObject({ url: `mailto:${email}`, secret: null, status: "enabled" });
    const schedule = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" };
    const agent_id = await newAgent(person, schedule);
    const run_id = await run(person, agent_id);
    await expect
      .poll(() =>
        mails
          .to(email)
          .map(({ link }) => link)
          .toSorted(),
      )
      .toEqual([`${PUBLIC_URL}/agents/${agent_id}/runs/${run_id}`, `${PUBLIC_URL}/agents/${agent_id}?tab=schedule`]);
    const texts = mails
      .to(email)
      .map(({ text }) => text)
      .join("\n");
    expect(texts.match(/Harbour watch/g)).toHaveLength(2);
    expect(texts).toContain(`${PUBLIC_URL}/notices`);
    const { error_message } = (await latest(person)).data;
    expect(texts).not.toContain(error_message);
    await expect
      .poll(() => lastDelivery(person))
      .toMatchObject({ status: "delivered", last_status: 250, last_error: null });
  });

  it("are sent to the caller's own address only, and only after they have confirmed it", async () => {
    const { email, person } = await newPerson();
    const unconfirmed = await service.newUser();
    const refused = async (
      answer: Promise<{ status: number; body: { error: { message: string; param: string } } }>,
    ) => {
      const { status, body } = await answer;
      expect([status, body.error.param]).toEqual([400, "url"]);
      return body.error.message;
    };
    for (const url of [
      "mailto:other@example.org",
      `mailto:${email},other@example.org`,
      `mailto:${email}?bcc=a@b.example`,
    ]) {
      expect(await refused(person.post(ENDPOINTS, { url, events: EVENTS }))).toContain(`give mailto:${email}`);
    }
    const own = { url: "mailto:user1@example.com", events: EVENTS };
    expect(await refused(unconfirmed.post(`/api/v1${ENDPOINTS}`, own))).toContain("is not confirmed");
  });

  it("do not go to an address whose link was written to the log, because nobody showed that they read its mail", async () => {
    const proxied = { PURSER_PUBLIC_URL: PUBLIC_URL, PURSER_TRUSTED_PROXIES: "127.0.0.0/8" };
    const own = await startService({ env: proxied });
    const email = "logged@example.org";
    const browser = openBrowser(own.url, PUBLIC_URL);
    const headers = { Origin: PUBLIC_URL, "X-Forwarded-For": "192.0.2.250" };
    await browser.post("/auth/sign-up/email", { email }, headers);
    const password = "correct horse battery";
    await browser.post("/auth/verify-email", { token: tokenOf(own.linkTo(email)), password }, headers);
    await browser.post("/auth/request-password-reset", { email }, headers);
    await expect.poll(() => own.linkTo(email)).toContain("reset");
    await browser.post("/auth/reset-password", { token: tokenOf(own.linkTo(email)), new_password: password }, headers);
    const user = own.as((await browser.post("/api-keys", { name: "k" }, headers)).body.key);
    await own.restart({ SMTP_URL: mails.url });
    const answer = await user.post(`/api/v1${ENDPOINTS}`, { url: `mailto:${email}`, events: EVENTS });
    expect([answer.status, answer.body.error?.message]).toEqual([400, expect.stringContaining("is not confirmed")]);
    await own.stop();
  });

  it("end when the operator changes the address, and disable their endpoint", async () => {
    const { email, person } = await newPerson();
    await person.post(ENDPOINTS, { url: `mailto:${email}`, events: EVENTS });
    const agent_id = await newAgent(person);
    const key = (await person.post("/api-keys", { name: "k" })).body.key;
    const user = service.as(key);
    const { id } = (await user.get("/api/v1/users/me")).body;
    await service.admin.request("PATCH", `/api/v1/admin/users/${id}`, { email: `new-${email}` });
    await user.post(`/api/v1/agents/${agent_id}/runs`);
    const endpoints = async () => (await user.get(`/api/v1${ENDPOINTS}`)).body.webhook_endpoints;
    await expect.poll(endpoints).toMatchObject([{ status: "disabled" }]);
    const { notices } = (await user.get("/api/v1/notices?event=run.failed")).body;
    expect(notices[0].deliveries).toMatchObject([{ status: "failed", last_error: "address_changed" }]);
    expect(mails.received).toEqual([]);
    const unproven = await user.post(`/api/v1${ENDPOINTS}`, { url: `mailto:new-${email}`, events: EVENTS });
    expect([unproven.status, unproven.body.error.message]).toEqual([400, expect.stringContaining("is not confirmed")]);
  });

  it("go to one endpoint of the user", async () => {
    const { email, person } = await newPerson();
    const again = () => person.post(ENDPOINTS, { url: `mailto:${email}`, events: EVENTS });
    expect((await again()).status).toBe(201);
    const { status, body } = await again();
    expect([status, body.error.code, body.error.param]).toEqual([409, "endpoint_limit_reached", "url"]);
  });

  it("have an endpoint that takes no URL, because its signing secret was never shown", async () => {
    const { email, person } = await newPerson();
    const { id } = (await person.post(ENDPOINTS, { url: `mailto:${email}`, events: EVENTS })).body;
    const { status, body } = await person.patch(`${ENDPOINTS}/${id}`, { url: "https://example.org/hook" });
    expect([status, body.error.param]).toEqual([400, "url"]);
    expect(body.error.message).toContain("Create an endpoint for the URL");
  });

  it("are not retried after the mail server has refused the mail for good", async () => {
    const { person } = await newMailedPerson();
    mails.refuse(550);
    await run(person, await newAgent(person));
    await expect.poll(() => lastDelivery(person)).toMatchObject({ status: "failed", attempts: 1, last_status: 550 });
  });

  it("are retried with the same Message-ID after a refusal of the mail server", async () => {
    const { email, person } = await newMailedPerson();
    mails.refuse(451);
    await run(person, await newAgent(person));
    await expect.poll(() => lastDelivery(person)).toMatchObject({ status: "pending", attempts: 1, last_status: 451 });
    await makeDue(db);
    await expect.poll(() => mails.to(email).length).toBe(1);
    expect(mails.to(email)[0]?.text).toContain(`Message-ID: <${(await latest(person)).id}@purser>`);
    await expect.poll(() => lastDelivery(person)).toMatchObject({ status: "delivered", attempts: 2 });
  });

  it("keep the endpoint of a user who is suspended, for the time after it", async () => {
    const { person } = await newMailedPerson();
    const { id } = (await person.get("/users/me")).body;
    mails.refuse(451);
    await run(person, await newAgent(person));
    await expect.poll(() => lastDelivery(person)).toMatchObject({ status: "pending", last_status: 451 });
    await service.admin.post(`/api/v1/admin/users/${id}/suspend`);
    await makeDue(db);
    const text = "select attempts from delivery where user_id = $1 and status <> 'pending'";
    await expect.poll(() => db.query({ text, values: [id] })).toEqual([{ attempts: 2 }]);
    await service.admin.post(`/api/v1/admin/users/${id}/resume`);
    expect((await person.get(ENDPOINTS)).body.webhook_endpoints).toMatchObject([{ status: "enabled" }]);
  });

  it("are at most 20 a day, also to another endpoint after the first was deleted; the others wait", async () => {
    const { email, person } = await newPerson();
    const endpoint = async () =>
      (await person.post(ENDPOINTS, { url: `mailto:${email}`, events: ["run.failed"] })).body;
    const { id } = await endpoint();
    const agent_id = await newAgent(person);
    for (let sent = 1; sent <= 20; sent += 1) {
      await run(person, agent_id);
      await expect.poll(() => mails.to(email).length).toBe(sent);
    }
    await service
      .as((await person.post("/api-keys", { name: "k" })).body.key)
      .request("DELETE", `/api/v1${ENDPOINTS}/${id}`);
    await endpoint();
    await run(person, agent_id);
    await expect.poll(() => lastDelivery(person)).toMatchObject({ status: "pending", last_error: "mail_limit" });
    expect(mails.to(email)).toHaveLength(20);
  });

  it("are at most 20 a day, also of several nodes at the same moment", async () => {
    const database = await createTestDatabase();
    const own = await database.open();
    const mailer = createMailer(
      { smtp_url: mails.url, from: "purser@example.org" },
      { log: createLog("silent"), clock: createSystemClock() },
    );
    const mail = { mailer, addressOf: async () => "nodes@example.org" };
    const nodes = [noticesNode(own, { mail }), noticesNode(own, { mail })] as const;
    const user_id = newId();
    await nodes[0].createEndpoint(user_id, { url: "mailto:nodes@example.org", events: ["run.failed"] });
    for (let count = 1; count <= 21; count += 1) await nodes[0].emit(failedRun(user_id));
    await own.query({
      text: `with sent as (
          delete from delivery where id in (select id from notice order by id limit 19) returning user_id, id
        ) insert into sent_mail (user_id, delivery_id) select user_id, id from sent`,
    });
    const answer = mails.hold();
    for (const node of nodes) await node.start();
    const waiting = { text: "select notice_id from delivery where last_error = 'mail_limit'" };
    await expect.poll(() => own.query(waiting)).toHaveLength(1);
    answer();
    await expect.poll(() => mails.to("nodes@example.org").length).toBe(1);
    for (const node of nodes) await node.stop();
    await mailer.close();
    await own.close();
    await database.drop();
  });
});
