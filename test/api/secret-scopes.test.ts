import { afterAll, beforeAll, expect, test } from "vitest";
import { type Client, type Service, startService } from "../support/service.ts";

// contract 3: the limits of a key without secrets:write or secrets:read for the secrets that agents use.

let service: Service;
let user: Client;
beforeAll(async () => {
  service = await startService();
  user = await service.newUser();
  for (const name of ["STRIPE", "OTHER"]) {
    expect((await user.post("/api/v1/secrets", { name, value: `value-of-${name}` })).status).toBe(201);
  }
});
afterAll(() => service.stop());

const binding = { secret: "STRIPE", hosts: ["api.stripe.com"], inject: { type: "bearer" } };
const tools = (changes: object = {}) => ({ web_fetch: { enabled: true, auth: [{ ...binding, ...changes }] } });
const keyWith = async (...scopes: string[]) =>
  service.as((await user.post("/api/v1/api-keys", { name: "narrow", scopes })).body.key);
const newAgent = (caller: Pick<Client, "post">, tools_config: object) =>
  caller.post("/api/v1/agents", { name: "Scout", model_id: "purser/rehearsal", tools_config });
const DENIED = {
  status: 403,
  body: {
    error: {
      type: "permission_error",
      code: "insufficient_scope",
      param: "tools_config.web_fetch.auth[0].secret",
      message: expect.stringContaining("secrets:write"),
    },
  },
};

test("a key with only agents:write cannot bind a secret to its own agent, whether or not the secret exists", async () => {
  const key = await keyWith("agents:read", "agents:write");
  for (const secret of ["STRIPE", "NOT_THERE"]) {
    expect(await newAgent(key, tools({ secret, hosts: ["evil.example"] }))).toMatchObject(DENIED);
  }
  expect((await user.get("/api/v1/agents")).body.agents).toEqual([]);
});

test("such a key cannot widen a binding, restore one of an old version, or copy one to another agent", async () => {
  const { body: agent } = await newAgent(user, tools());
  const path = `/api/v1/agents/${agent.id}`;
  const key = await keyWith("agents:read", "agents:write");
  const put = (tools_config: object) => key.request("PUT", path, { tools_config });
  expect(await put(tools({ hosts: ["api.stripe.com", "evil.example"] }))).toMatchObject(DENIED);
  expect(await put(tools({ secret: "OTHER" }))).toMatchObject(DENIED);
  expect(await put(tools({ secret: null, hosts: ["evil.example"] }))).toMatchObject(DENIED);
  expect(await newAgent(key, (await key.get(path)).body.tools_config)).toMatchObject(DENIED);

  expect((await user.request("PUT", path, { tools_config: {} })).status).toBe(200);
  const old = (await key.get(`${path}/versions/1`)).body.tools_config;
  expect(await put(old)).toMatchObject(DENIED);
  expect(await put(tools())).toMatchObject(DENIED);
  const reader = await keyWith("agents:read", "agents:write", "secrets:read");
  expect(await reader.request("PUT", path, { tools_config: tools() })).toMatchObject(DENIED);
});

test("without secrets:read names are hidden in every answer, and a PUT of the read agent keeps the bindings", async () => {
  const { body: agent } = await newAgent(user, tools());
  const path = `/api/v1/agents/${agent.id}`;
  const key = await keyWith("agents:read", "agents:write");
  const read = (await key.get(path)).body;
  expect(read).toMatchObject({ secrets_used: [], tools_config: tools({ secret: null }) });
  const listed = (await key.get("/api/v1/agents")).body.agents.find(({ id }: { id: string }) => id === agent.id);
  expect(listed).toEqual(read);
  expect((await key.get(`${path}/versions/1`)).body.tools_config).toEqual(tools({ secret: null }));

  const written = await key.request("PUT", path, { name: "Renamed", tools_config: read.tools_config });
  expect(written).toMatchObject({ status: 200, body: { secrets_used: [], tools_config: tools({ secret: null }) } });
  expect((await user.get(path)).body).toMatchObject({
    name: "Renamed",
    secrets_used: ["STRIPE"],
    tools_config: tools(),
  });
  const reader = await keyWith("agents:read", "secrets:read");
  expect((await reader.get(path)).body).toMatchObject({ secrets_used: ["STRIPE"], tools_config: tools() });
});

test("a null keeps a binding whose secret was deleted, and its name is hidden without secrets:read", async () => {
  const { id } = (await user.post("/api/v1/secrets", { name: "GONE", value: "value-of-GONE" })).body;
  const { body: agent } = await newAgent(user, tools({ secret: "GONE" }));
  await user.request("DELETE", `/api/v1/secrets/${id}`);
  const key = await keyWith("agents:write");
  const kept = await key.request("PUT", `/api/v1/agents/${agent.id}`, { tools_config: tools({ secret: null }) });
  expect(kept.status).toBe(200);
  expect(JSON.stringify(kept.body)).not.toContain("GONE");
});

test("a key with secrets:write and agents:write can bind a secret by its name", async () => {
  const key = await keyWith("agents:write", "secrets:write");
  const made = await newAgent(key, tools({ hosts: ["own.example"] }));
  expect(made).toMatchObject({ status: 201, body: { secrets_used: [] } });
  const unnamed = await newAgent(key, tools({ secret: null }));
  expect(unnamed).toMatchObject({
    status: 400,
    body: { error: { code: "invalid_value", param: "tools_config.web_fetch.auth[0].secret" } },
  });
});
