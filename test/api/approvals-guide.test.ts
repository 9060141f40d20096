import { request } from "node:http";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, expect, test } from "vitest";
import { approverOf } from "../support/approvals.ts";
import { type Crm, startCrm } from "../support/crm.ts";
import { codeBlocks, runShell } from "../support/guides.ts";
import { expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import { type MailServer, startMailServer } from "../support/mail-server.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import { newPersonByMail } from "../support/sign-up.ts";
import { calling, completion, json, USAGE } from "../support/upstream.ts";

// The guide's examples, unchanged, followed to the new contact. Only the model's answers are scripted.

const PUBLIC_URL = "https://purser.example";
const MAIL = "ada@example.org";

let lab: Lab;
let mails: MailServer;
let crm: Crm;
let receiver: Receiver;
beforeAll(async () => {
  [mails, crm, receiver] = await Promise.all([startMailServer(), startCrm(), startReceiver()]);
  lab = await startLab(undefined, {
    env: {
      PURSER_EGRESS_ALLOW: `${crm.host},${receiver.host}`,
      PURSER_PUBLIC_URL: PUBLIC_URL,
      PURSER_TRUSTED_PROXIES: "127.0.0.0/8",
      SMTP_URL: mails.url,
    },
  });
});
afterAll(async () => {
  await expectCleanAudit(lab.service);
  await lab.stop();
  await crm.close();
  await receiver.close();
  await mails.stop();
});

test("an agent reads mail, asks before it adds a contact, mails its owner, and adds what the owner has edited", async () => {
  const person = { email: MAIL, origin: PUBLIC_URL, from: "192.0.2.1", tokens: 1_000_000 };
  const user = await newPersonByMail(lab.service, mails, person);
  const decider = await approverOf(lab.service, user);
  lab.upstream.answer(
    calling("mail__list_mail", {}),
    calling("crm__find_contact", {}),
    calling("crm__create_contact", { name: "Ada", phone: "0123 456" }),
    completion("Ada Lovelace is new in the CRM."),
  );
  const commands = [...codeBlocks("docs/guides/approvals.md", "sh"), "echo $RUN"];
  const variables = {
    PURSER: lab.service.url,
    KEY: user.key,
    DECIDER: decider.key,
    MODEL: "lab/plain",
    MAIL_MCP: crm.mail_url,
    CRM_MCP: crm.crm_url,
    MAIL,
  };
  const stdout = await runShell(commands, variables);
  const [enabled, tool, server, name, reason, source, decision, RUN = ""] = stdout.trim().split("\n");
  expect([enabled, tool, name, decision]).toEqual(["enabled", "crm__create_contact", "Ada", "edited"]);
  expect([server, reason, source].join("\n")).toContain("mail__list_mail");

  const run = async () => (await user.get(new URL(RUN).pathname)).body;
  await expect.poll(async () => (await run()).status).toBe("succeeded");
  expect(crm.contacts).toEqual([{ name: "Ada Lovelace", phone: "0123 456" }]);
  expect(await run()).toMatchObject({ output: "Ada Lovelace is new in the CRM.", required_actions: [] });
  await expect.poll(() => mails.to(MAIL).length).toBe(1);
  const [mail] = mails.to(MAIL);
  expect(mail?.subject).toBe('"Contact keeper" asks for your decision');
  expect(mail?.link).toBe(`${PUBLIC_URL}${new URL(RUN).pathname.replace("/api/v1", "")}/decide`);
});

test("a run that asks about two calls at once is one notice in the console and one webhook, with both calls", async () => {
  const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const events = ["run.requires_action"];
  const { secret } = (await user.post("/api/v1/webhook-endpoints", { url: `${receiver.url}/asked`, events })).body;
  const call = (id: string, name: string) => {
    const given = JSON.stringify({ name });
    return { id, type: "function", function: { name: "crm__create_contact", arguments: given } };
  };
  const message = { role: "assistant", content: null, tool_calls: [call("one", "Ada"), call("two", "Grace")] };
  const choices = [{ index: 0, message, finish_reason: "tool_calls" }];
  lab.upstream.answer(json({ id: "c", object: "chat.completion", created: 1, model: "plain", choices, usage: USAGE }));
  const servers = [{ name: "crm", url: crm.crm_url, permission_policy: "always_ask" }];
  const tools_config = { mcp: { enabled: true, servers } };
  const agent = { name: "Keeper", model_id: "lab/plain", run_prompt: "Add.", tools_config };
  const { id: agent_id } = (await user.post("/api/v1/agents", agent)).body;
  const { id: run_id } = (await user.post(`/api/v1/agents/${agent_id}/runs`)).body;
  await expect.poll(() => receiver.received.length).toBe(1);
  const [{ body, headers }] = receiver.received as [(typeof receiver.received)[0]];
  const arguments_of = (name: string) => ({
    tool: "crm__create_contact",
    arguments: JSON.stringify({ name }, null, 2),
  });
  const data = {
    agent_id,
    run_id,
    trigger: "manual",
    actions_count: 2,
    actions: [arguments_of("Ada"), arguments_of("Grace")],
  };
  expect(new Webhook(secret).verify(body, headers)).toMatchObject({ type: "run.requires_action", data });
  const { notices } = (await user.get("/api/v1/notices?event=run.requires_action")).body;
  expect(notices).toMatchObject([{ agent_name: "Keeper", data }]);
});

test.each([
  ["Host", { Host: "evil.example" }],
  ["X-Forwarded-Host", { "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https" }],
])(
  "the mail links to the configured address also if the request that starts the run names another host: %s",
  async (header, headers) => {
    const email = `${header.toLowerCase()}@example.org`;
    const from = `192.0.2.${header.length}`;
    const user = await newPersonByMail(lab.service, mails, { email, origin: PUBLIC_URL, from, tokens: 1_000_000 });
    await user.post("/api/v1/webhook-endpoints", { url: `mailto:${email}`, events: ["run.requires_action"] });
    lab.upstream.answer(calling("crm__create_contact", { name: "Ada" }));
    const servers = [{ name: "crm", url: crm.crm_url, permission_policy: "always_ask" }];
    const agent = {
      name: "Keeper",
      model_id: "lab/plain",
      run_prompt: "Add.",
      tools_config: { mcp: { enabled: true, servers } },
    };
    const { id } = (await user.post("/api/v1/agents", agent)).body;
    const started = await new Promise<number | undefined>((resolve, reject) => {
      const options = { method: "POST", headers: { Authorization: `Bearer ${user.key}`, ...headers } };
      const sent = request(`${lab.service.url}/api/v1/agents/${id}/runs`, options, (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      });
      sent.on("error", reject).end();
    });
    expect(started).toBe(202);
    await expect.poll(() => mails.to(email).length).toBe(1);
    const [mail] = mails.to(email);
    const links = mail?.text.match(/https?:\/\/[^/\s]+/g) ?? [];
    expect(new Set(links)).toEqual(new Set([PUBLIC_URL]));
    expect(mail?.text).not.toContain("evil.example");
  },
);
