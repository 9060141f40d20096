import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { newWebhookSecret } from "../../src/platform/net/standard-webhooks.ts";
import { leaksIn } from "../support/encodings.ts";
import { expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import { type McpServerProcess, startMcpServer } from "../support/mcp-server.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import type { Client } from "../support/service.ts";
import { type Site, startSite } from "../support/sites.ts";
import { calling, completion, fetching } from "../support/upstream.ts";

// Secrets in an agent's tools: contract 7. Hostile servers are in test/attacks/secrets-*.

const VALUE = "sk_live_tools_9fZq77KdwE3x";
const SIGNING = newWebhookSecret();

let lab: Lab;
let site: Site;
let receiver: Receiver;
let mcp: McpServerProcess;
let user: Client;

beforeAll(async () => {
  receiver = await startReceiver();
  mcp = await startMcpServer();
  site = await startSite({
    "/data": { body: "<p>The berth costs 38 euros.</p>" },
    "/echo": (request, response) => response.end(`<p>You sent ${request.headers.authorization}</p>`),
  });
  lab = await startLab(undefined, { env: { PURSER_EGRESS_ALLOW: `${receiver.host},${site.host},${mcp.host}` } });
});
beforeEach(async () => {
  receiver.received.length = 0;
  site.requests.length = 0;
  lab.upstream.requests.length = 0;
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  await store("API", VALUE);
  await store("SIGNING", SIGNING);
});
afterAll(async () => {
  await expectCleanAudit(lab.service);
  await lab.stop();
  await Promise.all([receiver.close(), site.close(), mcp.stop()]);
});

async function store(name: string, value: string): Promise<string> {
  const made = await user.post("/api/v1/secrets", { name, value });
  expect(made.status).toBe(201);
  return `/api/v1/secrets/${made.body.id}`;
}
const inject = { type: "bearer" };
const toolsConfig = () => ({
  web_fetch: { enabled: true, auth: [{ secret: "API", hosts: [site.host], inject }] },
  send_webhook: { enabled: true, urls: [`${receiver.url}/hook`], secret: "SIGNING" },
  mcp: { enabled: true, servers: [{ name: "every", url: mcp.url, auth: { secret: "API", inject }, effects: "none" }] },
});
const create = (tools_config: unknown = toolsConfig()) =>
  user.post("/api/v1/agents", { name: "Clerk", model_id: "lab/plain", run_prompt: "Work.", tools_config });
async function run(agent: string) {
  return (await user.post(`/api/v1/agents/${agent}/runs`, undefined, { Prefer: "wait=30" })).body;
}

test("a run uses its secrets where they are bound, and neither its record nor the model has a value", async () => {
  lab.upstream.answer(
    fetching(`${site.url}/data`),
    calling("every__get-sum", { a: 2, b: 3 }),
    calling("send_webhook", { url: `${receiver.url}/hook`, payload: { n: 1 } }),
    completion("Done."),
  );
  const agent = (await create()).body;
  expect(agent.secrets_used).toEqual(["API", "SIGNING"]);
  const done = await run(agent.id);
  expect(done).toMatchObject({ status: "succeeded", output: "Done." });
  expect(site.requests[0]?.headers.authorization).toBe(`Bearer ${VALUE}`);
  expect(done.steps[3].result).toContain("The sum of 2 and 3 is 5.");
  const [delivery] = receiver.received;
  expect(new Webhook(SIGNING).verify(delivery?.body ?? "", delivery?.headers ?? {})).toEqual({ n: 1 });
  const [fetch_tool] = lab.upstream.requests[0]?.body.tools ?? [];
  expect(fetch_tool.function.description).toContain(`API at ${site.host}`);
  const shown = JSON.stringify([agent, done, lab.upstream.requests]);
  expect(leaksIn(Buffer.from(shown), [VALUE, SIGNING, SIGNING.slice("whsec_".length)])).toEqual([]);
});

test("an echo ends the run, disables the secret until its value changes, and is reported", async () => {
  const secret = await store("ECHOED", VALUE);
  const auth = [{ secret: "ECHOED", hosts: [site.host], inject }];
  const agent = (await create({ web_fetch: { enabled: true, auth } })).body.id;
  lab.upstream.answer(fetching(`${site.url}/echo`), completion("Never said."));
  const stopped = await run(agent);
  expect(stopped).toMatchObject({ status: "failed", error: { code: "secret_reflected" }, steps_count: 2 });
  expect(stopped.error.message).toContain("ECHOED");
  expect(leaksIn(Buffer.from(JSON.stringify(stopped)), [VALUE])).toEqual([]);
  expect((await user.get(secret)).body.reflected_at).not.toBeNull();
  const { notices } = (await user.get("/api/v1/notices?event=secret.reflected")).body;
  expect(notices).toMatchObject([{ data: { secret_name: "ECHOED", run_id: stopped.id } }]);

  lab.upstream.answer(fetching(`${site.url}/data`), completion("Did without."));
  expect((await run(agent)).steps[1]).toMatchObject({ status: "failed", error: { code: "secret_refused" } });
  await user.request("PATCH", secret, { value: `${VALUE}-new` });
  lab.upstream.answer(fetching(`${site.url}/data`), completion("Done."));
  expect((await run(agent)).steps[1]).toMatchObject({ status: "succeeded" });
  expect(site.requests.at(-1)?.headers.authorization).toBe(`Bearer ${VALUE}-new`);
});

test("an agent names a secret in any case and keeps the secret's own spelling, also of one that was stored again", async () => {
  const name = "Prüf-Schlüssel der API";
  const secret = await store(name, VALUE);
  const named = (spelled: string) => ({
    web_fetch: { enabled: true, auth: [{ secret: spelled, hosts: [site.host], inject }] },
  });
  const agent = (await create(named(name.toUpperCase()))).body;
  expect(agent).toMatchObject({ tools_config: named(name), secrets_used: [name] });
  const path = `/api/v1/agents/${agent.id}`;
  const changed = await user.request("PUT", path, { tools_config: named(`${name.toLowerCase()} `) });
  expect(changed).toMatchObject({ status: 200, body: { version: 1, tools_config: named(name) } });
  const fetched = async () => {
    lab.upstream.answer(fetching(`${site.url}/data`), completion("Done."));
    await run(agent.id);
    return site.requests.at(-1)?.headers.authorization;
  };
  expect(await fetched()).toBe(`Bearer ${VALUE}`);
  await user.request("DELETE", secret);
  await store(name.toLowerCase(), `${VALUE}-new`);
  expect(await fetched()).toBe(`Bearer ${VALUE}-new`);
});

test("a missing secret is reported when the agent is saved, and by the run's step if it was deleted later", async () => {
  const config = toolsConfig();
  const cases = [
    [
      { web_fetch: { ...config.web_fetch, auth: [{ ...config.web_fetch.auth[0], secret: "NONE" }] } },
      "web_fetch.auth[0].secret",
    ],
    [{ send_webhook: { ...config.send_webhook, secret: "NONE" } }, "send_webhook.secret"],
    [
      { mcp: { ...config.mcp, servers: [{ ...config.mcp.servers[0], auth: { secret: "NONE", inject } }] } },
      "mcp.servers[0].auth.secret",
    ],
  ] as const;
  const agent = (await create()).body;
  for (const [tools_config, param] of cases) {
    const error = { code: "invalid_value", param: `tools_config.${param}` };
    expect(await create(tools_config)).toMatchObject({ status: 400, body: { error } });
    const changed = await user.request("PUT", `/api/v1/agents/${agent.id}`, { tools_config });
    expect(changed).toMatchObject({ status: 400, body: { error } });
  }
  const stranger = await lab.service.newUser();
  const theirs = await stranger.post("/api/v1/agents", { name: "Thief", model_id: "lab/plain", tools_config: config });
  expect(theirs).toMatchObject({ status: 400 });

  const { secrets } = (await user.get("/api/v1/secrets")).body;
  for (const { id } of secrets) await user.request("DELETE", `/api/v1/secrets/${id}`);
  lab.upstream.answer(
    fetching(`${site.url}/data`),
    calling("send_webhook", { url: `${receiver.url}/hook`, payload: 1 }),
    completion("Could not."),
  );
  const { steps } = await run(agent.id);
  expect(steps[0]).toMatchObject({ type: "tool", name: "every", error: { code: "secret_missing" } });
  expect(steps[2].error).toMatchObject({ code: "secret_missing", message: expect.stringContaining("API") });
  expect(steps[4].error).toMatchObject({ code: "secret_missing", message: expect.stringContaining("SIGNING") });
  expect([site.requests, receiver.received]).toEqual([[], []]);
});

test("a secret is sent to no host outside its allowed_hosts, also if an agent binds it there (n8n#29082)", async () => {
  const made = await user.post("/api/v1/secrets", { name: "NARROW", value: VALUE });
  const auth = [{ secret: "NARROW", hosts: [site.host], inject }];
  const agent = (await create({ web_fetch: { enabled: true, auth } })).body.id;
  await user.request("PATCH", `/api/v1/secrets/${made.body.id}`, { allowed_hosts: ["api.example.com"] });
  lab.upstream.answer(fetching(`${site.url}/data`), completion("Refused."));
  expect((await run(agent)).steps[1]).toMatchObject({ status: "failed", error: { code: "secret_refused" } });
  expect(site.requests).toEqual([]);
  const path = `/api/v1/secrets/${made.body.id}`;
  expect((await user.request("PATCH", path, { allowed_hosts: [site.host] })).status).toBe(400);
  const { uses } = (await user.get(`${path}/uses`)).body;
  expect(uses).toMatchObject([{ host: site.host, outcome: "host_refused", tool: "web_fetch" }]);
});
