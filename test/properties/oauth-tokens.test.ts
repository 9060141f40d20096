import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createOutbound } from "../../src/platform/net/outbound.ts";
import type { Opening } from "../../src/vault/vault.types.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { leaksIn } from "../support/encodings.ts";
import { CLIENT_SECRET, type OAuthServer, startOAuthServer } from "../support/oauth-server.ts";
import { newMasterKey, OAUTH, vaultNode } from "../support/vault.ts";

// Several nodes use the tokens of one oauth secret at the same time.

const KEK = newMasterKey("k1");
let database: TestDatabase;
let db: Db;
let server: OAuthServer;
let nodes: ReturnType<typeof vaultNode>[];
beforeAll(async () => {
  [database, server] = [await createTestDatabase(), await startOAuthServer()];
  db = await database.open();
  const oauth = { ...OAUTH, outbound: createOutbound({ allow: [server.site.host] }) };
  nodes = [1, 2].map(() => vaultNode(db, KEK, undefined, oauth));
});
afterEach(() => server.reset());
afterAll(async () => {
  await db.close();
  await database.drop();
  await server.site.close();
});

const usage = (refused_version?: number) => ({
  agent_id: null,
  run_id: null,
  tool: "mcp",
  url: new URL(server.mcp),
  refused_version,
});
const tokenOf = (opening: Opening) => (opening.status === "opened" ? opening.secret.value.reveal() : opening.status);
/** Four concurrent opens on each node. */
const openAtOnce = (user: string, refused_version?: number) =>
  Promise.all([0, 1, 2, 3].flatMap(() => nodes.map((node) => node.open(user, "BERTHS", usage(refused_version)))));

/** A person signs in for a secret. Returns the parameters with which the browser comes back. */
async function signIn() {
  const [node] = nodes as [(typeof nodes)[number]];
  const user = newId();
  const oauth = { server: server.mcp, grant: "authorization_code" as const };
  const { id } = await node.create(user, { name: "BERTHS", description: "", allowed_hosts: null, oauth });
  return { node, user, id, answered: await answerOf(node, user, id) };
}

/** Signs in for a stored secret. Returns the parameters with which the browser comes back. */
async function answerOf(node: (typeof nodes)[number], user: string, id: string) {
  const { authorization_url } = await node.connect(user, id, "session");
  const answer = await fetch(authorization_url, { redirect: "manual" });
  const { searchParams } = new URL(answer.headers.get("location") ?? "");
  const given = { state: searchParams.get("state") ?? "", code: searchParams.get("code") ?? "", iss: server.site.url };
  return { ...given, bound_to: "session" };
}

/** A secret that a person has connected. */
async function connectedSecret() {
  const { node, user, id, answered } = await signIn();
  expect(await node.finishConnect(user, answered)).toEqual({ name: "BERTHS", problem: null });
  return { user, id };
}

it("two nodes with eight requests refresh a rejected token once, and all requests get the new one", async () => {
  const { user } = await connectedSecret();
  const before = await openAtOnce(user);
  expect(new Set(before.map(tokenOf)).size).toBe(1);
  const [first] = before;
  const version = first?.status === "opened" ? first.secret.version : 0;
  server.expire();
  const after = await openAtOnce(user, version);
  expect(server.asked.map((form) => form.get("grant_type"))).toEqual(["authorization_code", "refresh_token"]);
  expect(new Set(after.map(tokenOf)).size).toBe(1);
  expect(tokenOf(after[0] as Opening)).not.toBe(tokenOf(first as Opening));
});

it("a node that dies during a refresh delays the others only until its lease ends", async () => {
  const { user, id } = await connectedSecret();
  const version = (await nodes[0]?.get(user, id))?.version ?? 0;
  await db.query({
    text: "update secret set refreshing_version = version, refreshing_until = clock_timestamp() - interval '1 second' where id = $1",
    values: [id],
  });
  server.expire();
  expect((await nodes[1]?.open(user, "BERTHS", usage(version)))?.status).toBe("opened");
});

it("a refresh that fails does not delay the next request", async () => {
  const { user, id } = await connectedSecret();
  const version = (await nodes[0]?.get(user, id))?.version ?? 0;
  server.expire();
  server.conduct.onToken = (_request, response) => response.writeHead(503).end();
  expect((await nodes[0]?.open(user, "BERTHS", usage(version)))?.status).toBe("no_token");
  server.conduct.onToken = null;
  expect((await nodes[1]?.open(user, "BERTHS", usage(version)))?.status).toBe("opened");
});

it("a token that arrives after the owner changed the secret is not stored", async () => {
  const user = newId();
  const [one, other] = nodes as [(typeof nodes)[number], (typeof nodes)[number]];
  const oauth = {
    server: server.mcp,
    grant: "client_credentials" as const,
    client_id: "robot",
    client_secret: CLIENT_SECRET,
  };
  const { id } = await one.create(user, { name: "BERTHS", description: "", allowed_hosts: null, oauth });
  let opened: Promise<Opening> | undefined;
  await new Promise<void>((resolve) => {
    server.conduct.onToken = async (_request, response) => {
      server.conduct.onToken = null;
      await other.update(user, id, { oauth: { client_secret: CLIENT_SECRET } });
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ access_token: "of-former-credentials", token_type: "Bearer", expires_in: 60 }));
      resolve();
    };
    opened = one.open(user, "BERTHS", usage());
  });
  await opened;
  const token = tokenOf(await one.open(user, "BERTHS", usage()));
  expect(token).toMatch(/^access-token/);
});

it("a sign-in is ended only by the session that began it", async () => {
  const { node, user, id, answered } = await signIn();
  expect((await node.finishConnect(user, { ...answered, bound_to: "another session" })).problem).toBe("expired");
  expect((await node.get(user, id)).oauth?.status).toBe("not_connected");
  expect((await node.finishConnect(user, answered)).problem).toBeNull();
});

it("the token goes to the sealed address, also if the row names another one", async () => {
  const { user, id } = await connectedSecret();
  const other = new URL("/other", server.mcp);
  await db.query({
    text: "update secret set oauth = oauth || jsonb_build_object('server', $2::text) where id = $1",
    values: [id, other.href],
  });
  expect((await nodes[0]?.open(user, "BERTHS", { ...usage(), url: other }))?.status).toBe("no_token");
});

it("a secret that a site sent back stays disabled after another description and a begun sign-in", async () => {
  const { user, id } = await connectedSecret();
  const [node] = nodes as [(typeof nodes)[number]];
  const { version } = await node.get(user, id);
  await node.setReflected({ user_id: user, id, version, run_id: null });
  await node.update(user, id, { description: "the berths" });
  expect((await node.get(user, id)).reflected_at).not.toBeNull();
  await node.connect(user, id, "session");
  expect((await node.get(user, id)).reflected_at).not.toBeNull();
});

it("a new sign-in drops the refresh token of the former one", async () => {
  const { user, id } = await connectedSecret();
  const [node] = nodes as [(typeof nodes)[number]];
  server.conduct.onToken = (_request, response) => {
    server.conduct.onToken = null;
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ access_token: "of-the-new-sign-in", token_type: "Bearer", expires_in: 600 }));
  };
  expect((await node.finishConnect(user, await answerOf(node, user, id))).problem).toBeNull();
  const opened = await node.open(user, "BERTHS", usage());
  const version = opened.status === "opened" ? opened.secret.version : 0;
  expect([tokenOf(opened), (await node.open(user, "BERTHS", usage(version))).status]).toEqual([
    "of-the-new-sign-in",
    "no_token",
  ]);
});

it("a sign-in that ends after the owner changed the client stores no token of the former client", async () => {
  const { node, user, id, answered } = await signIn();
  server.conduct.onToken = async (_request, response) => {
    server.conduct.onToken = null;
    await nodes[1]?.update(user, id, { oauth: { client_id: "another" } });
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ access_token: "of-former-client", token_type: "Bearer", expires_in: 60 }));
  };
  expect((await node.finishConnect(user, answered)).problem).toBe("expired");
  expect((await node.get(user, id)).oauth).toMatchObject({ status: "not_connected", client_id: "another" });
});

it("the rows contain no token and no credential, and a sealed token does not open as a value", async () => {
  const { user, id } = await connectedSecret();
  await nodes[0]?.open(user, "BERTHS", usage());
  const rows = await db.query({ text: "select *, encode(sealed, 'escape') as text from secret", values: [] });
  expect(leaksIn(Buffer.from(JSON.stringify(rows)), server.tokens())).toEqual([]);
  await db.query({ text: "update secret set oauth = null where id = $1", values: [id] });
  expect((await nodes[0]?.open(user, "BERTHS", usage()))?.status).toBe("unreadable");
});
