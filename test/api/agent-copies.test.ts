import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { AgentTemplate, ListedVersion } from "../../src/api/contract/agents.ts";
import { AGENT_LIMITS } from "../../src/kernel/constants.ts";
import { type Lab, startLab } from "../support/lab.ts";
import { type MailServer, startMailServer } from "../support/mail-server.ts";
import type { Client } from "../support/service.ts";
import { signUpByMail } from "../support/sign-up.ts";
import { completion } from "../support/upstream.ts";

// Versions of an agent, copies, and agents to begin with: contract 6.8.4 and 6.8.5.

const PUBLIC_URL = "https://purser.example";
const WAIT = { Prefer: "wait=30" };
const BINDING = { secret: "SHOP", hosts: ["shop.example.com"], inject: { type: "bearer" } };
const READS = { web_fetch: { enabled: true, auth: [BINDING] } };
const DAILY = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "08:30" };

let lab: Lab;
let mails: MailServer;
let user: Client;
beforeAll(async () => {
  mails = await startMailServer();
  const env = { PURSER_PUBLIC_URL: PUBLIC_URL, PURSER_TRUSTED_PROXIES: "127.0.0.0/8", SMTP_URL: mails.url };
  lab = await startLab(undefined, { env });
});
beforeEach(async () => {
  lab.upstream.answer(completion());
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  await user.post("/api/v1/secrets", { name: "SHOP", value: "the-value-of-the-secret" });
  await user.post("/api/v1/secrets", { name: "BANK", value: "the-value-of-another" });
});
afterAll(async () => {
  await lab.stop();
  await mails.stop();
});

async function newAgent(fields: object = {}): Promise<{ path: string; body: Record<string, unknown> }> {
  const agent = { name: "Scout", model_id: "lab/plain", run_prompt: "Go.", ...fields };
  const made = await user.post("/api/v1/agents", agent);
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  return { path: `/api/v1/agents/${made.body.id}`, body: made.body };
}
const put = (path: string, changes: object) => user.request("PUT", path, changes);
const keyWith = async (...scopes: string[]) =>
  lab.service.as((await user.post("/api/v1/api-keys", { name: "narrow", scopes })).body.key);

describe("the versions of an agent", () => {
  test("are listed newest first, each with the fields that it changed", async () => {
    const { path } = await newAgent();
    await put(path, { run_prompt: "Go on.", limits: { max_steps: 7 } });
    await put(path, { tools_config: READS, model_settings: { temperature: 0.5 } });
    await put(path, { ...DAILY, schedule_timezone: "Europe/Berlin" });
    await put(path, { run_prompt: "Go on." });
    const { versions, next_cursor } = (await user.get(`${path}/versions`)).body;
    expect(next_cursor).toBeNull();
    const { created_at } = (await user.get(`${path}/versions/2`)).body;
    expect(versions.map(({ version }: ListedVersion) => version)).toEqual([4, 3, 2, 1]);
    expect(versions[0].changes.map(({ field }: { field: string }) => field)).toEqual([
      "schedule_enabled",
      "schedule_interval",
      "schedule_time",
      "schedule_timezone",
    ]);
    expect(versions[1]).toMatchObject({
      version: 3,
      previous_version: 2,
      changes: [
        { field: "model_settings.temperature", before: null, after: 0.5 },
        { field: "tools_config.web_fetch", before: null, after: READS.web_fetch },
      ],
    });
    expect(versions[2]).toEqual({
      version: 2,
      created_at,
      previous_version: 1,
      changes: [
        { field: "limits.max_steps", before: AGENT_LIMITS.max_steps, after: 7 },
        { field: "run_prompt", before: "Go.", after: "Go on." },
      ],
    });
    expect(versions[3]).toMatchObject({ version: 1, previous_version: null, changes: [] });
    // page by page the same
    const paged: ListedVersion[] = [];
    let cursor = "";
    do {
      const { body } = await user.get(`${path}/versions?limit=1${cursor === "" ? "" : `&cursor=${cursor}`}`);
      paged.push(...body.versions);
      cursor = body.next_cursor ?? "";
    } while (cursor !== "");
    expect(paged).toEqual(versions);
  });

  test("name a changed secret only to a caller with secrets:read, and its value to nobody", async () => {
    const { path } = await newAgent({ tools_config: READS });
    await put(path, { tools_config: { web_fetch: { enabled: true, auth: [{ ...BINDING, secret: "BANK" }] } } });
    const namesFor = async (caller: Pick<Client, "get">) => {
      const { body } = await caller.get(`${path}/versions`);
      expect(JSON.stringify(body)).not.toContain("the-value-of");
      const [change] = body.versions[0].changes;
      return [change.field, change.before.auth[0].secret, change.after.auth[0].secret];
    };
    expect(await namesFor(user)).toEqual(["tools_config.web_fetch", "SHOP", "BANK"]);
    expect(await namesFor(await keyWith("agents:read"))).toEqual(["tools_config.web_fetch", null, null]);
  });

  test("can be restored as a new version; switches and the schedule stay, and the next run follows the restored one", async () => {
    const { path } = await newAgent({ run_prompt: "First.", system_prompt: "Be kind.", tools_config: READS });
    await put(path, { run_prompt: "Second.", system_prompt: null, tools_config: {}, limits: { max_steps: 3 } });
    await put(path, DAILY);
    const restored = await user.post(`${path}/versions/1/restore`);
    expect(restored.status).toBe(200);
    expect(restored.body).toMatchObject({
      version: 4,
      run_prompt: "First.",
      system_prompt: "Be kind.",
      tools_config: READS,
      limits: { max_steps: AGENT_LIMITS.max_steps },
      ...DAILY,
      schedule_status: "active",
    });
    const run = (await user.post(`${path}/runs`, undefined, WAIT)).body;
    expect([run.status, run.agent_version]).toEqual(["succeeded", 4]);
    expect((await user.get(`${path}/runs/${run.id}/prompt`)).body.messages[0].content).toContain("Be kind.");
    // The same again changes nothing.
    expect((await user.post(`${path}/versions/1/restore`)).body.version).toBe(4);
    for (const version of ["9", "0", "first"]) {
      expect((await user.post(`${path}/versions/${version}/restore`)).status).toBe(404);
    }
    const stranger = await lab.service.newUser();
    expect((await stranger.post(`${path}/versions/1/restore`)).status).toBe(404);
    expect((await stranger.get(`${path}/versions`)).status).toBe(404);
  });

  test("are not restored with a secret's binding by a key without secrets:write, or with a secret that is gone", async () => {
    const { path } = await newAgent({ tools_config: READS });
    await put(path, { tools_config: {} });
    const narrow = await keyWith("agents:read", "agents:write");
    expect(await narrow.post(`${path}/versions/1/restore`)).toMatchObject({
      status: 403,
      body: { error: { code: "insufficient_scope", param: "tools_config.web_fetch.auth[0].secret" } },
    });
    const { secrets } = (await user.get("/api/v1/secrets")).body;
    const { id } = secrets.find(({ name }: { name: string }) => name === "SHOP");
    await user.request("DELETE", `/api/v1/secrets/${id}`);
    expect(await user.post(`${path}/versions/1/restore`)).toMatchObject({
      status: 400,
      body: { error: { code: "invalid_value", param: "tools_config.web_fetch.auth[0].secret" } },
    });
    expect((await user.get(path)).body.version).toBe(2);
  });
});

describe("a duplicate of an agent", () => {
  test("has its settings and bindings, its schedule switched off, and a life of its own", async () => {
    const { path, body } = await newAgent({
      ...DAILY,
      schedule_timezone: "Asia/Kolkata",
      tools_config: READS,
      limits: { max_steps: 4 },
      deliveries: [{ to: "https://example.com/results" }],
    });
    const deliveries = [{ to: "https://example.com/evenings", on: ["failed"], unless: null }];
    const evening = { name: "evening", interval: "cron", cron: "0 18 * * 1-5", input: { city: "Pune" }, deliveries };
    expect((await user.post(`${path}/schedules`, evening)).status).toBe(201);
    const made = await user.post(`${path}/duplicate`);
    expect(made.status).toBe(201);
    const { id, name, created_at, updated_at, ...copy } = made.body;
    expect(name).toBe("Scout (copy)");
    expect(id).not.toBe(body.id);
    expect(copy).toMatchObject({
      version: 1,
      run_prompt: "Go.",
      tools_config: READS,
      limits: { max_steps: 4 },
      deliveries: body.deliveries,
      ...DAILY,
      schedule_timezone: "Asia/Kolkata",
      schedule_enabled: false,
      schedule_status: "off",
      next_run_at: null,
      last_run: null,
    });
    const copied = (await user.get(`/api/v1/agents/${id}/schedules`)).body.schedules;
    expect(copied).toMatchObject([
      { name: "default", times: ["08:30"], status: "off" },
      { ...evening, status: "off", enabled: false, next_run_at: null },
    ]);
    expect((await user.get(path)).body).toMatchObject({ name: "Scout", schedule_status: "active", version: 1 });
    const run = (await user.post(`/api/v1/agents/${id}/runs`, undefined, WAIT)).body;
    expect(run).toMatchObject({ status: "succeeded", agent_id: id });
    expect((await user.get(`${path}/runs`)).body.runs).toEqual([]);
    expect((await user.request("PUT", `/api/v1/agents/${id}`, { schedule_enabled: true })).body).toMatchObject({
      schedule_status: "active",
    });
  });

  test("takes a name, and a long one is cut", async () => {
    const { path } = await newAgent({ name: "x".repeat(200) });
    expect((await user.post(`${path}/duplicate`, { name: "Scout of Berlin" })).body.name).toBe("Scout of Berlin");
    expect((await user.post(`${path}/duplicate`)).body.name).toBe(`${"x".repeat(193)} (copy)`);
  });

  test("is not made with a secret's binding by a key without secrets:write, nor of another user's agent", async () => {
    const bound = await newAgent({ tools_config: READS });
    const plain = await newAgent();
    const narrow = await keyWith("agents:read", "agents:write");
    expect(await narrow.post(`${bound.path}/duplicate`)).toMatchObject({
      status: 403,
      body: { error: { code: "insufficient_scope" } },
    });
    expect((await narrow.post(`${plain.path}/duplicate`)).status).toBe(201);
    const stranger = await lab.service.newUser();
    expect((await stranger.post(`${plain.path}/duplicate`)).status).toBe(404);
  });
});

describe("the agents to begin with", () => {
  const filled = ({ agent, blanks }: AgentTemplate, values: Record<string, string>) => {
    const text = blanks.reduce(
      (body, { name, example }) => body.replaceAll(`<${name}>`, values[name] ?? example),
      JSON.stringify(agent),
    );
    expect(text).not.toMatch(/<[A-Z_]+>/);
    return JSON.parse(text);
  };

  test("can each be created once their blanks are filled, and run", async () => {
    const email = "ada@example.org";
    const browser = await signUpByMail(lab.service, mails, { email, origin: PUBLIC_URL, from: "192.0.2.1" });
    const person = lab.service.as((await browser.post("/api-keys", { name: "k" })).body.key);
    const { templates } = (await person.get("/api/v1/agent-templates")).body as { templates: AgentTemplate[] };
    expect(templates.map(({ id }) => id)).toEqual(["page-watcher", "morning-digest", "price-check", "status-report"]);
    for (const template of templates) {
      const body = filled(template, { MAIL: email });
      const made = await person.post("/api/v1/agents", body);
      expect(made.status, `${template.id}: ${JSON.stringify(made.body)}`).toBe(201);
      expect(made.body).toMatchObject({ name: template.name, warnings: [] });
      const answer = { product: "A kettle", price: 17.5, currency: "EUR", in_stock: true };
      lab.upstream.answer(completion(JSON.stringify(answer)));
      const input = body.input_schema === undefined ? null : { url: "https://shop.example.com/kettle" };
      const run = await person.post(`/api/v1/agents/${made.body.id}/runs`, { input }, WAIT);
      expect(run.body, template.id).toMatchObject({ status: "succeeded" });
      expect(run.body.output_json).toEqual(body.output_schema === undefined ? null : answer);
    }
  });
});
