import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { AgentDelivery, ResultDelivery } from "../../src/api/contract/deliveries.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { freePort } from "../support/cell-router.ts";
import { createDeclared, readDocument } from "../support/declared.ts";
import { expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import { type MailServer, startMailServer } from "../support/mail-server.ts";
import { makeDue } from "../support/notices.ts";
import { type Received, type Receiver, startReceiver } from "../support/receiver.ts";
import type { Client } from "../support/service.ts";
import { newPersonByMail } from "../support/sign-up.ts";
import { completion, json } from "../support/upstream.ts";

// Results of runs that are sent to an agent's addresses: contract 6.15.

const PUBLIC_URL = "https://purser.example";

let lab: Lab;
let mails: MailServer;
let receiver: Receiver;
let db: Db;
let user: Client;
beforeAll(async () => {
  mails = await startMailServer();
  receiver = await startReceiver();
  lab = await startLab(undefined, {
    env: {
      PURSER_EGRESS_ALLOW: receiver.host,
      PURSER_PUBLIC_URL: PUBLIC_URL,
      PURSER_TRUSTED_PROXIES: "127.0.0.0/8",
      SMTP_URL: mails.url,
    },
  });
  db = await lab.service.database.open();
});
beforeEach(async () => {
  receiver.received.length = 0;
  receiver.treat(204);
  mails.received.length = 0;
  lab.upstream.answer(completion("All is well."));
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
});
afterAll(async () => {
  await expectCleanAudit(lab.service);
  await db.close();
  await lab.stop();
  await receiver.close();
  await mails.stop();
});

/** A time of day of a schedule that a test makes due now. Within three hours of it, the tick would move the run to it. */
const FAR_TIME = new Date(Date.now() + 12 * 3_600_000).toISOString().slice(11, 16);
const hook = (path = "/results") => receiver.url + path;
type Given = { to: string } & Partial<AgentDelivery>;
const agentWith = async (
  deliveries: Given[],
  { of = user, name = "Harbour watch", output_schema = null as object | null } = {},
): Promise<string> => {
  const agent = { name, model_id: "lab/plain", run_prompt: "Look.", output_schema, deliveries };
  const made = await of.post("/api/v1/agents", agent);
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  return `/api/v1/agents/${made.body.id}`;
};
const runNow = async (agent: string, of = user) => {
  const answer = await of.post(`${agent}/runs`, undefined, { Prefer: "wait=30" });
  expect(answer.status).toBe(200);
  return answer.body;
};
/** A run with its deliveries, once none is pending. */
const settled = async (agent: string, run_id: string, of = user) => {
  const read = async () => (await of.get(`${agent}/runs/${run_id}`)).body;
  await expect
    .poll(async () => (await read()).deliveries.some(({ status }: ResultDelivery) => status === "pending"), {
      interval: 20,
    })
    .toBe(false);
  return read();
};
const runAndSettle = async (agent: string, of = user) => settled(agent, (await runNow(agent, of)).id, of);
const failing = () => lab.upstream.answer(json({ error: { message: "no such model", type: "not_found" } }, 404));
/** A person with a confirmed address and tokens. */
let people = 0;
const newPerson = async (): Promise<{ email: string; person: Client }> => {
  people += 1;
  const email = `reader${people}@example.org`;
  const from = `192.0.2.${people}`;
  return {
    email,
    person: await newPersonByMail(lab.service, mails, { email, origin: PUBLIC_URL, from, tokens: 10_000 }),
  };
};

describe("the deliveries of an agent", () => {
  it("are stored with their defaults, and an empty list turns them off", async () => {
    const agent = await agentWith([
      { to: hook() },
      { to: "https://example.com/b", on: ["failed"], unless: "unchanged" },
    ]);
    const stored = [
      { to: hook(), on: ["succeeded", "failed"], unless: null },
      { to: "https://example.com/b", on: ["failed"], unless: "unchanged" },
    ];
    const { body } = await user.get(agent);
    expect(body.deliveries).toEqual(stored);
    expect((await user.request("PUT", agent, body)).body).toMatchObject({ deliveries: stored, version: 1 });
    expect((await user.get(`${agent}/versions/1`)).body.deliveries).toEqual(stored);
    expect((await user.request("PUT", agent, { deliveries: [] })).body).toMatchObject({ deliveries: [], version: 2 });
    expect((await runNow(agent)).deliveries).toEqual([]);
  });

  const to = "https://example.com/results";
  it.each<[string, unknown, string, string]>([
    [
      "an address of somebody else's mailbox",
      [{ to: "mailto:other@example.org" }],
      "deliveries[0].to",
      "is not confirmed",
    ],
    ["one http address after a good one", [{ to }, { to: "http://example.com/" }], "deliveries[1].to", "must be https"],
    ["a private address", [{ to: "https://192.168.0.1/" }], "deliveries[0].to", "not on the public internet"],
    ["a loopback address", [{ to: "https://127.0.0.1:9443/" }], "deliveries[0].to", "not on the public internet"],
    ["a metadata address", [{ to: "https://169.254.169.254/" }], "deliveries[0].to", "not on the public internet"],
    ["an IPv6 address of its own network", [{ to: "https://[fd00::1]/" }], "deliveries[0].to", "public internet"],
    ["a password in the address", [{ to: "https://a:b@example.com/" }], "deliveries[0].to", "user name or password"],
    ["another scheme", [{ to: "ftp://example.com/" }], "deliveries[0].to", "must be https"],
    ["no URL", [{ to: "example.com" }], "deliveries[0].to", "is not a URL"],
    ["no address", [{ on: ["failed"] }], "deliveries[0].to", "to"],
    ["an unknown end", [{ to, on: ["cancelled"] }], "deliveries[0].on[0]", "on"],
    ["no end", [{ to, on: [] }], "deliveries[0].on", "on"],
    ["an unknown condition", [{ to, unless: "empty" }], "deliveries[0].unless", "unless"],
    ["an unknown field", [{ to, when: "failed" }], "deliveries[0].when", "when"],
    ["an address twice", [{ to }, { to: `https://EXAMPLE.com/results`, on: ["failed"] }], "deliveries[1].to", "once"],
    ["more than five", Array(6).fill({ to }), "deliveries", "5"],
    ["a text", to, "deliveries", "deliveries"],
  ])("cannot have %s", async (_what, deliveries, param, words) => {
    const body = { name: "Watch", model_id: "lab/plain", deliveries };
    const refused = await user.post("/api/v1/agents", body);
    expect([refused.status, refused.body.error.param]).toEqual([400, param]);
    expect(refused.body.error.message).toContain(words);
    expect((await user.get("/api/v1/agents")).body.agents).toEqual([]);
  });

  it("may name the user's confirmed mailbox, and no other user's", async () => {
    const { email, person } = await newPerson();
    const { email: other } = await newPerson();
    const agent = await agentWith([{ to: `MailTo:${email.toUpperCase()}` }], { of: person });
    expect((await person.get(agent)).body.deliveries).toMatchObject([{ to: `mailto:${email}` }]);
    for (const wrong of [`mailto:${other}`, `mailto:${email},${other}`, `mailto:${email}?cc=${other}`]) {
      const refused = await person.request("PUT", agent, { deliveries: [{ to: wrong }] });
      expect([refused.status, refused.body.error.param]).toEqual([400, "deliveries[0].to"]);
      expect(refused.body.error.message).toContain(`give mailto:${email}`);
    }
  });
});

describe("the result of a run", () => {
  it("is posted as run.finished, signed with the agent's key, and its record shows the delivery", async () => {
    const agent = await agentWith([{ to: hook("/a") }, { to: hook("/b"), on: ["failed"] }]);
    const run = await runNow(agent);
    expect(run.deliveries).toMatchObject([{ to: hook("/a") }]);
    const {
      deliveries,
      steps: _,
      decisions: _decisions,
      input_safety: _safety,
      run_prompt: _prompt,
      ...record
    } = await settled(agent, run.id);
    const [received, ...others] = receiver.received;
    expect(others).toEqual([]);
    const { key } = (await user.get(`${agent}/webhook-key`)).body;
    const { type, timestamp, data } = new Webhook(key).verify(received?.body ?? "", received?.headers ?? {}) as never;
    expect({ type, timestamp }).toEqual({ type: "run.finished", timestamp: record.finished_at });
    const declared = ["webhooks", "run.finished", "post", "requestBody", "content", "application/json", "schema"];
    const { faultIn } = createDeclared(await readDocument(lab.service.url));
    expect(faultIn(declared, { type, timestamp, data })).toBeNull();
    expect(data).toEqual({ ...record, agent_name: "Harbour watch", schedule_name: null });
    expect(data).toMatchObject({ output: "All is well.", usage: { cost_tokens: 18 } });
    expect(deliveries).toEqual([
      {
        id: received?.headers["webhook-id"],
        to: hook("/a"),
        status: "delivered",
        attempts: 1,
        last_attempt_at: expect.any(String),
        last_status: 204,
        last_error: null,
        next_attempt_at: null,
        delivered_at: expect.any(String),
      },
    ]);
  });

  it("is read by the program of the developers' guide, once for each id", async () => {
    const agent = await agentWith([{ to: hook() }]);
    await runAndSettle(agent);
    const { key } = (await user.get(`${agent}/webhook-key`)).body;
    const guide = readFileSync("docs/guides/developers.md", "utf8");
    const [example = ""] = /^import \{ createServer \}.*?^```/ms.exec(guide) ?? [];
    const port = await freePort();
    const code = example.replace("```", "").replace("8080", String(port));
    const program = spawn(process.execPath, ["--input-type=module", "-e", code], { env: { WEBHOOK_KEY: key } });
    let printed = "";
    program.stdout.on("data", (chunk) => {
      printed += chunk;
    });
    try {
      const { headers, body } = receiver.received[0] as Received;
      const post = (sent: string) => fetch(`http://127.0.0.1:${port}/`, { method: "POST", headers, body: sent });
      await expect
        .poll(() =>
          post(body).then(
            ({ status }) => status,
            () => null,
          ),
        )
        .toBe(204);
      expect((await post(body)).status).toBe(204);
      expect((await post(body.replace("well", "lost"))).status).toBe(400);
      await expect.poll(() => printed).toBe("Harbour watch succeeded All is well.\n");
    } finally {
      program.kill();
    }
  });

  it("is posted also if the run failed, with its error", async () => {
    failing();
    const agent = await agentWith([{ to: hook("/all") }, { to: hook("/good"), on: ["succeeded"] }]);
    const run = await runAndSettle(agent);
    expect(run.status).toBe("failed");
    expect(receiver.received.map(({ path }) => path)).toEqual(["/all"]);
    const { data } = JSON.parse(receiver.received[0]?.body ?? "");
    expect(data).toMatchObject({ id: run.id, status: "failed", error: run.error, output: null });
  });

  it("of a due run is delivered like that of a run-now", async () => {
    const agent = await agentWith([{ to: hook() }]);
    const schedule = { schedule_enabled: true, schedule_interval: "daily", schedule_time: FAR_TIME };
    expect((await user.request("PUT", agent, schedule)).status).toBe(200);
    await db.query({
      text: "update schedule set next_run_at = clock_timestamp() where user_id = $1",
      values: [user.user_id],
    });
    await receiver.until(1);
    expect(JSON.parse(receiver.received[0]?.body ?? "").data).toMatchObject({ trigger: "schedule" });
  });

  it("of a chat is not delivered, because the caller has it", async () => {
    const agent = await agentWith([{ to: hook() }]);
    const messages = [{ role: "user", content: "Hello" }];
    const { run_id } = (await user.post(`${agent}/chat`, { messages })).body;
    expect((await settled(agent, run_id)).deliveries).toEqual([]);
    expect(receiver.received).toEqual([]);
  });

  it("is tried again under the same id until the address takes it", async () => {
    receiver.treat(500, (response) => response.destroy(), 204);
    const agent = await agentWith([{ to: hook() }]);
    const { id } = await runNow(agent);
    for (const failure of [
      { attempts: 1, last_status: 500, last_error: null },
      { attempts: 2, last_status: null, last_error: "connect_failed" },
    ]) {
      await expect
        .poll(async () => (await user.get(`${agent}/runs/${id}`)).body.deliveries, { interval: 10 })
        .toMatchObject([{ status: "pending", ...failure }]);
      await makeDue(db);
    }
    expect((await settled(agent, id)).deliveries).toMatchObject([{ status: "delivered", attempts: 3 }]);
    expect(new Set(receiver.received.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
    expect(new Set(receiver.received.map(({ body }) => body)).size).toBe(1);
  });

  it.each<[string, number, string]>([
    ["a day of failures", 500, "failed"],
    ["a 410, which disables nothing", 410, "failed"],
  ])("that cannot be delivered after %s is failed in the run's record and in a notice", async (_what, code, status) => {
    receiver.treat(code);
    const agent = await agentWith([{ to: hook() }]);
    const { id } = await runNow(agent);
    if (code === 500) {
      await expect
        .poll(async () => (await user.get(`${agent}/runs/${id}`)).body.deliveries, { interval: 10 })
        .toMatchObject([{ status: "pending", last_status: code }]);
      const text = "update delivery set queued_at = queued_at - interval '1 day' where user_id = $1";
      await db.query({ text, values: [user.user_id] });
      await makeDue(db);
    }
    const [delivery] = (await settled(agent, id)).deliveries;
    expect(delivery).toMatchObject({ status, last_status: code });
    const { notices } = (await user.get("/api/v1/notices")).body;
    const data = { run_id: id, delivery_id: delivery.id, to: hook(), last_status: code, last_error: null };
    expect(notices).toMatchObject([{ event: "delivery.failed", agent_name: "Harbour watch", data }]);
    receiver.treat(204);
    expect((await runAndSettle(agent)).deliveries).toMatchObject([{ status: "delivered" }]);
  });

  it("is not delivered any more when its agent is deleted", async () => {
    receiver.treat(500);
    const agent = await agentWith([{ to: hook() }]);
    const { id } = await runNow(agent);
    await expect
      .poll(async () => (await user.get(`${agent}/runs/${id}`)).body.deliveries, { interval: 10 })
      .toMatchObject([{ last_status: 500 }]);
    await user.request("DELETE", agent);
    await makeDue(db);
    const text = "select status, last_error from delivery where user_id = $1 and run_id = $2";
    await expect
      .poll(() => db.query({ text, values: [user.user_id, id] }))
      .toEqual([{ status: "failed", last_error: "agent_deleted" }]);
    expect(receiver.received).toHaveLength(1);
  });
});

describe("deliveries of a schedule", () => {
  const weekdays = { name: "weekdays", interval: "daily", times: [FAR_TIME] };
  const addSchedule = async (agent: string, fields: object, of = user) => {
    const made = await of.post(`${agent}/schedules`, { ...weekdays, ...fields });
    expect(made.status, JSON.stringify(made.body)).toBe(201);
    return `${agent}/schedules/${made.body.id}`;
  };
  const runOf = async (agent: string, schedule: string, of = user) => {
    const answer = await of.post(`${schedule}/run`, undefined, { Prefer: "wait=30" });
    return settled(agent, answer.body.id, of);
  };

  it("replace those of the agent: with null the agent's apply, with none nothing is sent", async () => {
    const agent = await agentWith([{ to: hook("/agent") }]);
    const schedule = await addSchedule(agent, { deliveries: [{ to: hook("/schedule") }] });
    const stored = [{ to: hook("/schedule"), on: ["succeeded", "failed"], unless: null }];
    expect((await user.get(schedule)).body.deliveries).toEqual(stored);
    const sent = async () => (await runOf(agent, schedule)).deliveries.map(({ to }: ResultDelivery) => to);
    expect(await sent()).toEqual([hook("/schedule")]);
    expect(JSON.parse(receiver.received[0]?.body ?? "").data).toMatchObject({ schedule_name: "weekdays" });
    expect((await user.request("PATCH", schedule, { deliveries: null })).body.deliveries).toBeNull();
    expect(await sent()).toEqual([hook("/agent")]);
    await user.request("PATCH", schedule, { deliveries: [] });
    expect(await sent()).toEqual([]);
    expect((await runAndSettle(agent)).deliveries).toMatchObject([{ to: hook("/agent") }]);
  });

  it("are sent at a due instant, also if the agent itself has none", async () => {
    const agent = await agentWith([]);
    await addSchedule(agent, { deliveries: [{ to: hook() }] });
    await db.query({
      text: "update schedule set next_run_at = clock_timestamp() where user_id = $1 and name = 'weekdays'",
      values: [user.user_id],
    });
    await receiver.until(1);
    expect(JSON.parse(receiver.received[0]?.body ?? "").data).toMatchObject({ trigger: "schedule" });
  });

  it("skip what the same schedule sent last, and not what another schedule or a run-now sent", async () => {
    const agent = await agentWith([{ to: hook(), unless: "unchanged" }]);
    const first = await addSchedule(agent, { name: "first" });
    const second = await addSchedule(agent, { name: "second" });
    const statuses: string[] = [];
    for (const schedule of [first, first, second, second]) {
      statuses.push((await runOf(agent, schedule)).deliveries[0].status);
    }
    statuses.push((await runAndSettle(agent)).deliveries[0].status);
    expect(statuses).toEqual(["delivered", "skipped", "delivered", "skipped", "delivered"]);
  });

  it("are checked like the agent's, and a mail has the schedule's name in its subject", async () => {
    const { email, person } = await newPerson();
    const agent = await agentWith([], { of: person });
    const schedule = await addSchedule(agent, { deliveries: [{ to: `mailto:${email}` }] }, person);
    const wrong = { deliveries: [{ to: `mailto:${email}` }, { to: "http://example.com/" }] };
    for (const refused of [
      await person.request("PATCH", schedule, wrong),
      await person.post(`${agent}/schedules`, { ...weekdays, name: "other", ...wrong }),
    ]) {
      expect([refused.status, refused.body.error.param]).toEqual([400, "deliveries[1].to"]);
    }
    await runOf(agent, schedule, person);
    expect(mails.to(email).map(({ subject }) => subject)).toEqual(["Harbour watch: weekdays"]);
  });
});

describe("unless unchanged", () => {
  const deliveries = (path = "/changes") => [{ to: hook(path), unless: "unchanged" as const }];
  const outcomes = async (agent: string, outputs: readonly (string | null)[]) => {
    const statuses: string[] = [];
    for (const output of outputs) {
      if (output === null) failing();
      else lab.upstream.answer(completion(output));
      statuses.push((await runAndSettle(agent)).deliveries[0].status);
    }
    return statuses;
  };

  it("skips outputs that differ from the last delivered one in white space only, and delivers changes", async () => {
    const agent = await agentWith(deliveries());
    const outputs = ["3 ships", "3 ships", " 3  ships\n", "4 ships", "4 ships", "3 ships"];
    const [first, second, third] = ["delivered", "skipped", "skipped"];
    expect(await outcomes(agent, outputs)).toEqual([first, second, third, "delivered", "skipped", "delivered"]);
    const shown = receiver.received.map(({ body }) => JSON.parse(body).data.output);
    expect(shown).toEqual(["3 ships", "4 ships", "3 ships"]);
  });

  it("compares typed outputs as JSON, in any order of their fields", async () => {
    const output_schema = {
      type: "object",
      properties: { ships: { type: "integer" }, note: { type: "string" } },
      required: ["ships", "note"],
      additionalProperties: false,
    };
    const agent = await agentWith(deliveries(), { output_schema });
    const outputs = ['{"ships": 3, "note": "a b"}', '{"note":"a b","ships":3}', '{"note":"ab","ships":3}'];
    expect(await outcomes(agent, outputs)).toEqual(["delivered", "skipped", "delivered"]);
    const shown = receiver.received.map(({ body }) => JSON.parse(body).data.output_json);
    expect(shown).toEqual([
      { ships: 3, note: "a b" },
      { ships: 3, note: "ab" },
    ]);
  });

  it("shows a skipped delivery with no tries, and compares each address and each agent for itself", async () => {
    const agent = await agentWith([...deliveries(), { to: hook("/all") }]);
    await runAndSettle(agent);
    const { deliveries: second } = await runAndSettle(agent);
    const skipped = { status: "skipped", attempts: 0, last_status: null, last_error: null, next_attempt_at: null };
    expect(second).toMatchObject([skipped, { status: "delivered", to: hook("/all") }]);
    const other = await agentWith(deliveries());
    expect((await runAndSettle(other)).deliveries).toMatchObject([{ status: "delivered" }]);
  });

  it("does not skip a failed run, whose failure is no output to compare with", async () => {
    const agent = await agentWith(deliveries());
    const ends = ["delivered", "delivered", "delivered", "skipped"];
    expect(await outcomes(agent, ["3 ships", null, null, "3 ships"])).toEqual(ends);
  });

  it("compares with what was delivered, not with what was lost", async () => {
    const agent = await agentWith(deliveries());
    receiver.treat(410);
    expect((await runAndSettle(agent)).deliveries).toMatchObject([{ status: "failed" }]);
    receiver.treat(204);
    expect(await outcomes(agent, ["All is well."])).toEqual(["delivered"]);
  });
});

describe("a mailed result", () => {
  const output = [
    "# Harbour",
    "",
    "**3** ships <b>here</b>, [list](https://ships.example/a?b=1&c=2), [bad](javascript:alert(1)).",
    "",
    "| ship | berth |",
    "| --- | --- |",
    "| Möwe | 4 |",
    "",
    "![map](https://tracker.example/pixel.png)",
    '<img src="https://tracker.example/2.png"><script>alert(1)</script>',
  ].join("\n");

  it("has the output as text and HTML, without pictures and HTML of its own, with its cost and a link", async () => {
    lab.upstream.answer(completion(output));
    const { email, person } = await newPerson();
    const agent = await agentWith([{ to: `mailto:${email}` }], { of: person, name: "Möwe <watch>" });
    const run = await runAndSettle(agent, person);
    expect(run.deliveries).toMatchObject([{ status: "delivered", last_status: 250, attempts: 1 }]);
    const [mail, ...others] = mails.to(email);
    expect(others).toEqual([]);
    expect(mail?.subject).toBe("Möwe <watch>");
    const link = `${PUBLIC_URL}/agents/${run.agent_id}/runs/${run.id}`;
    const text = mail?.parts["text/plain"] ?? "";
    expect(text.startsWith(output)).toBe(true);
    expect(text).toContain(`Run of "Möwe <watch>", ${run.finished_at.slice(0, 16).replace("T", " ")} UTC, 18 tokens:`);
    expect(text).toContain(`\n${link}\n`);
    const html = mail?.parts["text/html"] ?? "";
    for (const part of [
      "<h1>Harbour</h1>",
      "<strong>3</strong> ships &lt;b&gt;here&lt;/b&gt;",
      '<a href="https://ships.example/a?b=1&amp;c=2">list</a>',
      '<a href="">bad</a>',
      "<td>Möwe</td>",
      '<a href="https://tracker.example/pixel.png">map</a>',
      "Run of &quot;Möwe &lt;watch&gt;&quot;",
      `<a href="${link}">${link}</a>`,
    ]) {
      expect(html).toContain(part);
    }
    for (const unsafe of ["<img", "<script", "javascript:", "!<a"]) expect(html).not.toContain(unsafe);
  });

  it("shows a typed output as JSON in lines", async () => {
    lab.upstream.answer(completion('{"ship":"<Möwe>"}'));
    const { email, person } = await newPerson();
    const output_schema = { type: "object", properties: { ship: { type: "string" } } };
    const agent = await agentWith([{ to: `mailto:${email}` }], { of: person, output_schema });
    await runAndSettle(agent, person);
    const [mail] = mails.to(email);
    expect(mail?.parts["text/plain"]?.startsWith('{\n  "ship": "<Möwe>"\n}\n')).toBe(true);
    expect(mail?.parts["text/html"]).toContain("<pre>{\n  &quot;ship&quot;: &quot;&lt;Möwe&gt;&quot;\n}</pre>");
  });

  it("of a failed run says so in its subject and tells the error", async () => {
    failing();
    const { email, person } = await newPerson();
    const agent = await agentWith([{ to: `mailto:${email}` }], { of: person });
    const { error } = await runAndSettle(agent, person);
    const [mail] = mails.to(email);
    expect(mail?.subject).toBe("Harbour watch failed");
    expect(mail?.parts["text/plain"]).toContain(`The run failed: ${error.message}`);
    expect(mail?.parts["text/html"]).toContain("<strong>The run failed: ");
  });

  it("counts toward the 20 mails of a day together with notices, and waits beyond them", async () => {
    const { email, person } = await newPerson();
    await person.post("/api/v1/webhook-endpoints", { url: `mailto:${email}`, events: ["run.succeeded"] });
    const agent = await agentWith([{ to: `mailto:${email}` }], { of: person });
    const text = `insert into sent_mail (user_id, delivery_id) select $1, gen_random_uuid() from generate_series(1, 18)`;
    await db.query({ text, values: [person.user_id] });
    await runAndSettle(agent, person);
    await expect.poll(() => mails.to(email).length).toBe(2);
    const { id } = await runNow(agent, person);
    await expect
      .poll(async () => (await person.get(`${agent}/runs/${id}`)).body.deliveries)
      .toMatchObject([{ status: "pending", last_error: "mail_limit" }]);
    expect(mails.to(email)).toHaveLength(2);
  });

  it("fails when the address is no longer the user's", async () => {
    const { email, person } = await newPerson();
    const agent = await agentWith([{ to: `mailto:${email}` }], { of: person });
    const path = `/api/v1/admin/users/${person.user_id}`;
    expect((await lab.service.admin.request("PATCH", path, { email: `new-${email}` })).status).toBe(200);
    expect((await runAndSettle(agent, person)).deliveries).toMatchObject([
      { status: "failed", last_status: 410, last_error: "address_changed" },
    ]);
    expect(mails.to(email)).toEqual([]);
  });
});

describe("run.succeeded", () => {
  const noticesOf = async () => (await user.get("/api/v1/notices?event=run.succeeded")).body.notices;

  it("is a notice only for users with an endpoint for it, and not for chats", async () => {
    const agent = await agentWith([]);
    await runNow(agent);
    expect(await noticesOf()).toEqual([]);
    const made = await user.post("/api/v1/webhook-endpoints", { url: hook("/notices"), events: ["run.succeeded"] });
    expect(made.status).toBe(201);
    await user.post(`${agent}/chat`, { messages: [{ role: "user", content: "Hello" }] });
    const { id: run_id, agent_id } = await runNow(agent);
    await receiver.until(1);
    const data = { agent_id, run_id, trigger: "manual" };
    expect(await noticesOf()).toMatchObject([{ data }]);
    expect(receiver.received.map(({ body }) => JSON.parse(body))).toMatchObject([{ type: "run.succeeded", data }]);
  });
});
