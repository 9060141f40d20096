import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type Browser, openBrowser } from "../support/browser.ts";
import { leaksIn } from "../support/encodings.ts";
import { expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import { CLIENT_SECRET, type OAuthServer, startOAuthServer } from "../support/oauth-server.ts";
import type { Client } from "../support/service.ts";
import { signUp } from "../support/sign-up.ts";
import { calling, completion, type Reply } from "../support/upstream.ts";

// Secrets of type oauth: contract 7. Hostile servers are in test/attacks/oauth-servers.test.ts.

let lab: Lab;
let server: OAuthServer;
/** Another authorization server, which an MCP server may name. */
let other: OAuthServer;
let user: Client;
beforeAll(async () => {
  server = await startOAuthServer();
  other = await startOAuthServer();
  lab = await startLab(undefined, { env: { PURSER_EGRESS_ALLOW: `${server.site.host},${other.site.host}` } });
});
beforeEach(async () => {
  server.reset();
  other.reset();
  lab.upstream.requests.length = 0;
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
});
afterAll(async () => {
  await expectCleanAudit(lab.service);
  await lab.stop();
  await server.site.close();
  await other.site.close();
});

const ROBOT = { grant: "client_credentials", client_id: "robot", client_secret: CLIENT_SECRET };
const store = (oauth: object, name = "BERTHS") =>
  user.post("/api/v1/secrets", { name, type: "oauth", oauth: { server: server.mcp, ...oauth } });
const berth = calling("harbour__berth", {});

/** A run of an agent that uses the server. The model gives these answers. */
async function run(...replies: Reply[]) {
  const auth = { secret: "BERTHS", inject: { type: "bearer" } };
  const servers = [{ name: "harbour", url: server.mcp, effects: "none", auth }];
  const agent = {
    name: "Pilot",
    model_id: "lab/plain",
    run_prompt: "Work.",
    tools_config: { mcp: { enabled: true, servers } },
  };
  const { id } = (await user.post("/api/v1/agents", agent)).body;
  lab.upstream.answer(...replies);
  return (await user.post(`/api/v1/agents/${id}/runs`, undefined, { Prefer: "wait=30" })).body;
}
const toolSteps = (done: { steps: { type: string }[] }) => done.steps.filter(({ type }) => type === "tool");
const shown = async () => (await user.get("/api/v1/secrets")).body.secrets[0];

test("client credentials: the server's authorization server is discovered, and its token is used until it expires", async () => {
  const made = await store(ROBOT);
  expect(made).toMatchObject({
    status: 201,
    body: {
      type: "oauth",
      masked_value: "••••••••",
      allowed_hosts: [server.site.host],
      oauth: { server: server.mcp, client_id: "robot", status: "not_connected", expires_at: null, error: null },
    },
  });
  const done = await run(berth, berth, completion("Done."));
  expect(done).toMatchObject({ status: "succeeded", output: "Done." });
  expect(server.asked.map((form) => Object.fromEntries(form))).toEqual([
    { grant_type: "client_credentials", scope: "berths", resource: server.mcp },
  ]);
  expect(await shown()).toMatchObject({
    version: 2,
    oauth: { issuer: server.site.url, scope: "berths", status: "connected", expires_at: expect.any(String) },
  });
  await run(berth, completion("Again."));
  expect(server.asked).toHaveLength(1);
  const seen = JSON.stringify([made, done, await shown(), lab.upstream.requests, lab.service.noted("")]);
  expect(leaksIn(Buffer.from(seen), [CLIENT_SECRET, ...server.tokens()])).toEqual([]);
});

test("servers that write null for absent fields of their metadata and tokens can be used", async () => {
  server.conduct.metadata = { scopes_supported: null, revocation_endpoint: null, service_documentation: null };
  server.conduct.resource = { scopes_supported: null, resource_name: null };
  server.conduct.onGrant = () => ({ refresh_token: null, scope: null, id_token: null });
  await store(ROBOT);
  expect(await run(berth, completion("Done."))).toMatchObject({ status: "succeeded", output: "Done." });
});

test("a token that expires during a run is refreshed once, and the call is repeated once", async () => {
  await store(ROBOT);
  // Its arguments look like a notification, which would not be repeated.
  const odd = calling("harbour__berth", { method: "notifications/none" });
  const expired: Reply = (response, request) => {
    server.expire();
    return odd(response, request);
  };
  const done = await run(berth, expired, completion("Done."));
  expect(toolSteps(done)).toMatchObject([{ status: "succeeded" }, { status: "succeeded" }]);
  expect(server.asked).toHaveLength(2);
  expect(new Set(server.calls).size).toBe(2);
});

test("a token is refreshed before it expires, and only once more if the server rejects every token", async () => {
  server.conduct.expires_in = 20;
  await store(ROBOT);
  await run(berth, completion("Done."));
  expect(server.calls).toHaveLength(1);
  const asked = server.asked.length;
  expect(asked).toBeGreaterThan(1);
  server.conduct.onToken = (_request, response) =>
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ access_token: "never-accepted-012345", token_type: "Bearer", expires_in: 3600 }));
  const [step] = toolSteps(await run(berth, completion("Without.")));
  expect(step).toMatchObject({ status: "failed", error: { code: "mcp_failed" } });
  expect((step as unknown as { error: { message: string } }).error.message).toContain("its owner has to connect again");
});

test("wrong credentials: the secret is revoked, the step and one notice say so, and new credentials make it work again", async () => {
  const { id } = (await store({ ...ROBOT, client_secret: "wrong-secret-0123456789" })).body;
  const [step] = toolSteps(await run(berth, completion("Without.")));
  expect(step).toMatchObject({ status: "failed", error: { code: "secret_refused" } });
  expect(await shown()).toMatchObject({ oauth: { status: "revoked", error: "it refuses (invalid_client)" } });
  await run(berth, completion("Without."));
  expect(server.asked).toHaveLength(1);
  const { notices } = (await user.get("/api/v1/notices?event=secret.disconnected")).body;
  expect(notices).toMatchObject([{ data: { secret_id: id, secret_name: "BERTHS", server: server.mcp } }]);
  const oauth = { client_secret: CLIENT_SECRET };
  expect(await user.request("PATCH", `/api/v1/secrets/${id}`, { oauth })).toMatchObject({
    body: { oauth: { status: "not_connected", client_id: "robot" } },
  });
  expect(toolSteps(await run(berth, completion("Done.")))).toMatchObject([{ status: "succeeded" }]);
});

test.each([
  ["the scope", { scope: "berths tides" }, false],
  ["nothing", {}, false],
  ["the client", { client_id: "robot", client_secret: CLIENT_SECRET }, true],
])(
  "after a change of %s, only a client that was stored again goes to another authorization server",
  async (_, change, goes) => {
    const { id } = (await store(ROBOT)).body;
    await run(berth, completion("Done."));
    expect(server.asked).toHaveLength(1);
    server.conduct.resource = { authorization_servers: [other.site.url] };
    expect((await user.request("PATCH", `/api/v1/secrets/${id}`, { oauth: change })).status).toBe(200);
    await run(berth, completion("Done."));
    expect(other.asked.length > 0).toBe(goes);
  },
);

test("after a change of the scope, a sign-in at another authorization server is an error", async () => {
  const person = { client_id: "robot", client_secret: CLIENT_SECRET };
  const { id } = (await store(person)).body;
  const connect = () => user.post(`/api/v1/secrets/${id}/oauth/connect`);
  const { authorization_url } = (await connect()).body;
  const callback = (await fetch(authorization_url, { redirect: "manual" })).headers.get("location") ?? "";
  const { pathname, search } = new URL(callback);
  await user.get(pathname + search);
  expect(await shown()).toMatchObject({ oauth: { status: "connected" } });
  server.conduct.resource = { authorization_servers: [other.site.url] };
  expect((await user.request("PATCH", `/api/v1/secrets/${id}`, { oauth: { scope: "tides" } })).status).toBe(200);
  const refused = await connect();
  expect([refused.status, refused.body.error?.code]).toEqual([502, "oauth_failed"]);
  expect(refused.body.error.message).toContain("another one than before");
  expect(other.asked).toEqual([]);
});

test("no other tool, server or path gets the token: an agent that binds it is 400, and a stored one fails at the call", async () => {
  const { id: value_id } = (await user.post("/api/v1/secrets", { name: "BERTHS", value: "a value" })).body;
  const auth = [{ secret: "BERTHS", hosts: [server.site.host], inject: { type: "bearer" } }];
  const agent = {
    name: "Thief",
    model_id: "lab/plain",
    run_prompt: "Go.",
    tools_config: { web_fetch: { enabled: true, auth } },
  };
  const { id } = (await user.post("/api/v1/agents", agent)).body;
  await user.request("DELETE", `/api/v1/secrets/${value_id}`);
  await store(ROBOT);
  const { status, body } = await user.post("/api/v1/agents", agent);
  expect([status, body.error.param]).toEqual([400, "tools_config.web_fetch.auth[0].secret"]);
  expect(body.error.message).toContain("type oauth");
  lab.upstream.answer(calling("web_fetch", { url: server.mcp }), completion("No."));
  const done = (await user.post(`/api/v1/agents/${id}/runs`, undefined, { Prefer: "wait=30" })).body;
  expect(toolSteps(done)).toMatchObject([{ status: "failed", error: { code: "secret_refused" } }]);
  expect(server.site.requests).toEqual([]);
});

test("the token does not follow a redirect to another path or query of the same server", async () => {
  await store(ROBOT);
  expect(toolSteps(await run(berth, completion("Done.")))).toMatchObject([{ status: "succeeded" }]);
  for (const redirect of ["/logs", "/mcp?as=another"]) {
    server.conduct.redirect = redirect;
    server.site.requests.length = 0;
    await run(berth, completion("Without."));
    const landed = server.site.requests.filter(({ path }) => path === redirect);
    expect(landed.length).toBeGreaterThan(0);
    expect(landed.filter(({ headers }) => headers.authorization !== undefined)).toEqual([]);
  }
});

test("an oauth secret rejects a value and hosts, and a secret with a value rejects credentials", async () => {
  const { id } = (await store(ROBOT)).body;
  const oauth = { server: server.mcp };
  const cases: [object, string, string][] = [
    [{ name: "A", type: "oauth" }, "missing_field", "oauth"],
    [{ name: "A", type: "oauth", oauth, value: "x" }, "invalid_value", "value"],
    [{ name: "A", type: "oauth", oauth, allowed_hosts: [] }, "invalid_value", "allowed_hosts"],
    [{ name: "A", value: "x", oauth }, "invalid_value", "oauth"],
    [{ name: "A" }, "missing_field", "value"],
    [
      { name: "A", type: "oauth", oauth: { ...oauth, grant: "client_credentials" } },
      "missing_field",
      "oauth.client_id",
    ],
    [
      { name: "A", type: "oauth", oauth: { ...oauth, ...ROBOT, private_key: "x" } },
      "invalid_value",
      "oauth.private_key",
    ],
  ];
  for (const [body, code, param] of cases) {
    expect(await user.post("/api/v1/secrets", body), JSON.stringify(body)).toMatchObject({
      status: 400,
      body: { error: { code, param } },
    });
  }
  for (const change of [{ value: "x" }, { allowed_hosts: null }]) {
    expect((await user.request("PATCH", `/api/v1/secrets/${id}`, change)).status).toBe(400);
  }
  expect((await user.post(`/api/v1/secrets/${id}/oauth/connect`)).body.error.code).toBe("not_connectable");
});

/** A person's session, whose secrets `user` also sees. */
async function signedIn(): Promise<Browser> {
  const browser = openBrowser(lab.service.url);
  await signUp(
    lab.service,
    { email: `${crypto.randomUUID()}@example.com`, password: "correct horse battery" },
    browser,
  );
  return browser;
}
/** Follows the authorization server's redirect like the person's browser. */
async function approve(authorization_url: string): Promise<URL> {
  const answer = await fetch(authorization_url, { redirect: "manual" });
  return new URL(answer.headers.get("location") ?? "");
}
const call = (browser: Browser, { pathname, search }: URL) =>
  fetch(`${lab.service.url}${pathname}${search}`, {
    redirect: "manual",
    headers: { Cookie: browser.cookie(), "Sec-Fetch-Site": "cross-site" },
  });
test("Connect: a client is registered, the sign-in is bound to the session by PKCE and state, and can be used once", async () => {
  const [browser, other] = [await signedIn(), await signedIn()];
  const oauth = { server: server.mcp };
  const { id } = (await browser.post("/secrets", { name: "BERTHS", type: "oauth", oauth })).body;
  const begun = await browser.post(`/secrets/${id}/oauth/connect`);
  const url = new URL(begun.body.authorization_url);
  expect(Object.fromEntries(url.searchParams)).toMatchObject({
    response_type: "code",
    client_id: "registered",
    code_challenge_method: "S256",
    scope: "berths",
    resource: server.mcp,
    redirect_uri: `${lab.service.url}/api/v1/secrets/oauth/callback`,
  });
  const back = await approve(url.href);
  const forged = new URL(back);
  forged.searchParams.set("state", `${id}.${"A".repeat(43)}`);
  for (const [who, where] of [
    [other, back],
    [browser, forged],
  ] as const) {
    expect((await call(who, where)).headers.get("location")).toBe("/vault?connect_error=expired");
  }
  expect(server.asked).toHaveLength(0);
  const ended = await call(browser, back);
  expect([ended.status, ended.headers.get("location")]).toEqual([303, "/vault?connected=BERTHS"]);
  expect((await call(browser, back)).headers.get("location")).toBe("/vault?connect_error=expired");
  expect((await browser.get(`/secrets/${id}`)).body.oauth).toMatchObject({
    status: "connected",
    client_id: "registered",
  });

  const mixed = await approve((await browser.post(`/secrets/${id}/oauth/connect`)).body.authorization_url);
  mixed.searchParams.set("iss", "https://other.example");
  expect((await call(browser, mixed)).headers.get("location")).toBe("/vault?connect_error=failed");
  const page = await fetch(`${lab.service.url}/api/v1/secrets/oauth/client-metadata`);
  expect(await page.json()).toMatchObject({ client_id: page.url, token_endpoint_auth_method: "none" });
});

test("a refresh token is stored and rotated; once it is revoked, the step says to connect again, which works", async () => {
  const { id } = (await store({})).body;
  const connect = async () => {
    const { authorization_url } = (await user.post(`/api/v1/secrets/${id}/oauth/connect`)).body;
    const { pathname, search } = await approve(authorization_url);
    const headers = { Authorization: `Bearer ${user.key}` };
    return fetch(`${lab.service.url}${pathname}${search}`, { redirect: "manual", headers });
  };
  const [unconnected] = toolSteps(await run(berth, completion("Without.")));
  expect(JSON.stringify(unconnected)).toContain("it is not connected");
  expect((await connect()).headers.get("location")).toBe("/vault?connected=BERTHS");
  for (const _ of [1, 2]) {
    server.expire();
    expect(toolSteps(await run(berth, completion("Done.")))).toMatchObject([{ status: "succeeded" }]);
  }
  expect(server.asked.map((form) => form.get("grant_type"))).toEqual([
    "authorization_code",
    "refresh_token",
    "refresh_token",
  ]);
  server.revoke();
  const [step] = toolSteps(await run(berth, completion("Without.")));
  expect(JSON.stringify(step)).toContain("its owner has to connect again");
  expect(await shown()).toMatchObject({ oauth: { status: "revoked" } });
  expect((await user.get("/api/v1/notices?event=secret.disconnected")).body.notices).toHaveLength(1);
  await connect();
  expect(toolSteps(await run(berth, completion("Done.")))).toMatchObject([{ status: "succeeded" }]);
});

/** Everything that a person, a model or a reader of the database can see, without sealed values. */
async function seenOf(done: unknown) {
  const db = await lab.service.database.open();
  const rows = await db.query({ text: "select oauth from secret" }).finally(() => db.close());
  return Buffer.from(JSON.stringify([done, await shown(), rows, lab.upstream.requests, lab.service.noted("")]));
}

test.each(["client secret", "refresh token"])(
  "a server that returns the %s: the run ends, and the secret is disabled",
  async (what) => {
    const sent: string[] = [];
    server.conduct.onGrant = () => ({ refresh_token: "kept-refresh-token-0123456789" });
    server.conduct.onCall = () => {
      sent.push(what === "client secret" ? CLIENT_SECRET : "kept-refresh-token-0123456789");
      return Buffer.from(`Berth ${sent.at(-1)}`).toString("base64");
    };
    await store(ROBOT);
    const done = await run(berth, completion("Done."));
    expect(sent).toHaveLength(1);
    expect(done).toMatchObject({ status: "failed", error: { code: "secret_reflected" } });
    expect(await shown()).toMatchObject({ reflected_at: expect.any(String) });
    expect(leaksIn(await seenOf(done), [...sent, CLIENT_SECRET])).toEqual([]);
  },
);

test("a scope that contains the credentials is neither shown nor stored in plain text", async () => {
  server.conduct.onGrant = (token) => ({ scope: `read ${CLIENT_SECRET} ${token}` });
  await store(ROBOT);
  const done = await run(berth, completion("Done."));
  expect(done).toMatchObject({ status: "succeeded" });
  expect(await shown()).toMatchObject({ oauth: { status: "connected", scope: "berths" } });
  expect(leaksIn(await seenOf(done), [CLIENT_SECRET, ...server.tokens()])).toEqual([]);
});

test("an issuer whose address contains the client secret is not shown", async () => {
  server.conduct.metadata = { token_endpoint: `${server.site.url}/token?${CLIENT_SECRET}` };
  await store(ROBOT);
  const done = await run(berth, completion("Done."));
  expect(done).toMatchObject({ status: "succeeded" });
  expect(await shown()).toMatchObject({ oauth: { status: "connected", token_endpoint: null } });
  expect(leaksIn(await seenOf(done), [CLIENT_SECRET])).toEqual([]);
});
