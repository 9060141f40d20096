import { setTimeout as delay } from "node:timers/promises";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { newId } from "../../src/platform/lib/ids.ts";
import { expectCleanAudit, type Lab, settledBalance, startLab } from "../support/lab.ts";
import type { Client as User } from "../support/service.ts";
import { completion } from "../support/upstream.ts";

// The MCP project's own client against POST /api/v1/mcp: contract 6.13.

let lab: Lab;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab.stop());

const agentOf = async (user: User, fields: object = {}) =>
  (await user.post("/api/v1/agents", { name: "Daily Report", model_id: "lab/plain", run_prompt: "report", ...fields }))
    .body;

async function connected(key: string, mode: "auto" | "legacy" = "legacy") {
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
  const headers = { Authorization: `Bearer ${key}` };
  const transport = new StreamableHTTPClientTransport(new URL(`${lab.service.url}/api/v1/mcp`), {
    requestInit: { headers },
  });
  await client.connect(transport);
  return client;
}
const textOf = (result: unknown) => (result as { content: { text: string }[] }).content[0]?.text;

describe.each(["legacy", "auto"] as const)("an MCP client (%s)", (mode) => {
  test("lists each active agent of the key as a tool, and no other user's", async () => {
    const [user, other] = await Promise.all([lab.service.newUser(), lab.service.newUser()]);
    await agentOf(user, { description: "Writes the daily report." });
    const doubles = [await agentOf(user, { name: "Späher!" }), await agentOf(user, { name: "spaher" })];
    await agentOf(user, { name: "Asleep", is_active: false });
    await agentOf(other, { name: "Secret" });
    const client = await connected(user.key, mode);
    const { tools } = await client.listTools();
    const suffixed = doubles.map(({ id }) => `run_spaher_${id.slice(-8)}`);
    expect(tools.map(({ name }) => name).sort()).toEqual(
      ["get_run", "list_runs", "run_daily_report", ...suffixed].sort(),
    );
    const descriptionOf = (tool: string | undefined) => tools.find(({ name }) => name === tool)?.description;
    expect(descriptionOf("run_daily_report")).toBe('Runs the agent "Daily Report". Writes the daily report.');
    expect(descriptionOf(suffixed[0])).toBe('Runs the agent "Späher!".');
    await client.close();
  });

  test("runs an agent with its progress, is billed like for any run, and reads the run", async () => {
    const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
    const { id } = await agentOf(user);
    lab.upstream.answer(completion("The report."));
    const client = await connected(user.key, mode);
    const progress: string[] = [];
    const onprogress = ({ message }: { message?: string | undefined }) => progress.push(message ?? "");
    const result = await client.callTool({ name: "run_daily_report" }, { onprogress });
    expect(textOf(result)).toBe("The report.");
    expect(result.isError).toBe(false);
    const { run_id, usage } = result.structuredContent as { run_id: string; usage: { cost_tokens: number } };
    expect(progress).toEqual(expect.arrayContaining(["run started", "step 0: lab/plain", "run finished"]));
    expect(await settledBalance(user)).toBe(1_000_000 - usage.cost_tokens);
    expect((await user.get(`/api/v1/agents/${id}/runs/${run_id}`)).body).toMatchObject({ trigger: "manual" });
    const read = await client.callTool({ name: "get_run", arguments: { run_id } });
    expect(read.structuredContent).toMatchObject({ id: run_id, output: "The report." });
    const listed = await client.callTool({ name: "list_runs", arguments: { agent: "run_daily_report" } });
    expect(listed.structuredContent).toMatchObject({ runs: [{ id: run_id }] });
    await client.close();
    await expectCleanAudit(lab.service);
  });

  test("gives an agent a message: one turn of chat", async () => {
    const user = await lab.service.newUser();
    await agentOf(user);
    lab.upstream.answer(completion("Hello back."));
    const client = await connected(user.key, mode);
    const result = await client.callTool({ name: "run_daily_report", arguments: { input: "hello there" } });
    expect(textOf(result)).toBe("Hello back.");
    expect(JSON.stringify(lab.upstream.requests.at(-1)?.body.messages)).toContain("hello there");
    const { run_id, agent_id } = result.structuredContent as { run_id: string; agent_id: string };
    expect((await user.get(`/api/v1/agents/${agent_id}/runs/${run_id}`)).body.trigger).toBe("chat");
    await client.close();
  });

  test("that cancels its call cancels the run", async () => {
    const user = await lab.service.newUser();
    const { id } = await agentOf(user);
    lab.upstream.answer(async () => {
      await delay(30_000, undefined, { ref: false });
    });
    const client = await connected(user.key, mode);
    const abort = new AbortController();
    const begun = lab.upstream.requests.length;
    const call = client.callTool({ name: "run_daily_report" }, { signal: abort.signal }).catch((error: Error) => error);
    await expect.poll(() => lab.upstream.requests.length).toBeGreaterThan(begun);
    abort.abort();
    expect(await call).toBeInstanceOf(Error);
    const status = async () => (await user.get(`/api/v1/agents/${id}/runs`)).body.runs[0]?.status;
    await expect.poll(status).toBe("cancelled");
    await client.close();
  });
});

describe("a call", () => {
  const post = (user: { post: User["post"] }, message: object, headers = {}) =>
    user.post("/api/v1/mcp", { jsonrpc: "2.0", id: 1, ...message }, { Accept: ACCEPT, ...headers });
  const ACCEPT = "application/json, text/event-stream";
  const running = { method: "tools/call", params: { name: "run_daily_report", arguments: {} } };

  test("gets 401, 402 and 403 like on every endpoint", async () => {
    const poor = await lab.service.newUser({ trial: false });
    await agentOf(poor);
    const out_of_tokens = await post(poor, running);
    expect([out_of_tokens.status, out_of_tokens.body.error.code]).toEqual([402, "out_of_tokens"]);
    const nobody = await post(lab.service.as("purser_live_none"), running);
    expect([nobody.status, nobody.body.error.type]).toEqual([401, "authentication_error"]);
    const key = (await poor.post("/api/v1/api-keys", { name: "reader", scopes: ["agents:read"] })).body.key;
    const reader = await post(lab.service.as(key), running);
    expect([reader.status, reader.body.error.code]).toEqual([403, "insufficient_scope"]);
    const talker = (await poor.post("/api/v1/api-keys", { name: "talker", scopes: ["chat:write"] })).body.key;
    const runner = (await poor.post("/api/v1/api-keys", { name: "runner", scopes: ["agents:write"] })).body.key;
    const talking = { ...running, params: { ...running.params, arguments: { input: "hello" } } };
    for (const [other, message] of [
      [talker, { method: "tools/list" }],
      [talker, running],
      [runner, talking],
    ] as const) {
      const answer = await post(lab.service.as(other), message);
      expect([answer.status, answer.body.error.code]).toEqual([403, "insufficient_scope"]);
    }
  });

  test("is not cancelled by a key that may only read", async () => {
    const user = await lab.service.newUser();
    const { id } = await agentOf(user);
    const reader = (await user.post("/api/v1/api-keys", { name: "reader", scopes: ["agents:read"] })).body.key;
    lab.upstream.answer(async () => {
      await delay(30_000, undefined, { ref: false });
    });
    const session = { "Mcp-Session-Id": newId() };
    const begun = lab.upstream.requests.length;
    const call = post(user, { ...running, id: 7 }, session);
    await expect.poll(() => lab.upstream.requests.length).toBeGreaterThan(begun);
    const cancel = { method: "notifications/cancelled", params: { requestId: 7 }, id: undefined };
    const status = async () => (await user.get(`/api/v1/agents/${id}/runs`)).body.runs[0]?.status;
    await post(lab.service.as(reader), cancel, session);
    expect(await status()).toBe("running");
    await post(user, cancel, session);
    await call;
    expect(await status()).toBe("cancelled");
  });

  test("with a message that no model answers gets an error, and the service goes on", async () => {
    const user = await lab.service.newUser();
    await agentOf(user);
    const client = await connected(user.key);
    lab.upstream.answer((response) => void response.writeHead(400).end("{}"));
    const asked = { name: "run_daily_report", arguments: { input: "hello" } };
    expect((await client.callTool(asked)).isError).toBe(true);
    lab.upstream.answer(completion("Hello back."));
    expect(textOf(await client.callTool(asked))).toBe("Hello back.");
    await client.close();
  });

  test("has the id of its session only if the service can have given it", async () => {
    const user = await lab.service.newUser();
    await agentOf(user);
    lab.upstream.answer(completion("The report."));
    const request_ids = async () =>
      (await user.get("/api/v1/users/me/requests")).body.requests.map(
        (each: { request_id: string }) => each.request_id,
      );
    await post(user, running, { "Mcp-Session-Id": "x".repeat(5_000) });
    const session = newId();
    await post(user, running, { "Mcp-Session-Id": session });
    await expect.poll(request_ids).toEqual([`mcp-${session}-1`, expect.stringMatching(/^[0-9a-f-]{36}$/)]);
  });

  test("cannot read another user's run, and the model gets an error that says so", async () => {
    const [user, other] = await Promise.all([lab.service.newUser(), lab.service.newUser()]);
    const { id } = await agentOf(other);
    lab.upstream.answer(completion("Secret."));
    const run = (await other.post(`/api/v1/agents/${id}/runs`, {}, { Prefer: "wait=20" })).body;
    const client = await connected(user.key);
    for (const given of [
      { name: "get_run", arguments: { run_id: run.id } },
      { name: "list_runs", arguments: { agent: id } },
      { name: "run_daily_report" },
    ]) {
      const result = await client.callTool(given);
      expect(result.isError, given.name).toBe(true);
      expect(result.structuredContent).toMatchObject({ error: { code: "not_found" } });
    }
    await client.close();
  });

  test("lists the latest runs of all agents, also of the oldest of more than fifty agents", async () => {
    const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
    const { id } = await agentOf(user);
    lab.upstream.answer(completion("The report."));
    const run = (await user.post(`/api/v1/agents/${id}/runs`, undefined, { Prefer: "wait=30" })).body;
    const others = Array.from({ length: 51 }, (_, nth) =>
      user.post("/api/v1/agents", { name: `Other ${nth}`, model_id: "lab/plain" }),
    );
    await Promise.all(others);
    const client = await connected(user.key);
    const listed = await client.callTool({ name: "list_runs", arguments: { status: "succeeded" } });
    expect(listed.structuredContent).toMatchObject({ runs: [{ id: run.id, agent_id: id }] });
    const theirs = await (await connected((await lab.service.newUser()).key)).callTool({ name: "list_runs" });
    expect(theirs.structuredContent).toEqual({ runs: [] });
    await client.close();
  });

  test("lists no run of a deleted agent, and the runs before it fill the list", async () => {
    const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
    const [kept, deleted] = [await agentOf(user), await agentOf(user, { name: "Deleted" })];
    lab.upstream.answer(completion("The report."), completion("Gone."));
    const runOf = async (id: string) =>
      (await user.post(`/api/v1/agents/${id}/runs`, undefined, { Prefer: "wait=30" })).body.id;
    const run = await runOf(kept.id);
    const gone = await runOf(deleted.id);
    await user.request("DELETE", `/api/v1/agents/${deleted.id}`);
    const client = await connected(user.key);
    const listed = await client.callTool({ name: "list_runs", arguments: { limit: 1 } });
    expect(listed.structuredContent).toMatchObject({ runs: [{ id: run }] });
    const single = await client.callTool({ name: "get_run", arguments: { run_id: gone } });
    expect(single.isError).toBe(true);
    await client.close();
  });

  test("has one line in the request log, written when its stream ends", async () => {
    const user = await lab.service.newUser();
    await agentOf(user);
    const lines = () => lab.service.noted("request").filter(({ request_id }) => request_id === "mcp-line").length;
    let before_end = -1;
    lab.upstream.answer((response, request) => {
      before_end = lines();
      return completion("The report.")(response, request);
    });
    const answer = await fetch(`${lab.service.url}/api/v1/mcp`, {
      method: "POST",
      headers: {
        Authorization: `Bearer ${user.key}`,
        "Content-Type": "application/json",
        Accept: "application/json, text/event-stream",
        "X-Request-Id": "mcp-line",
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, ...running }),
    });
    expect(answer.headers.get("content-type")).toContain("text/event-stream");
    expect(await answer.text()).toContain("The report.");
    await expect.poll(lines).toBe(1);
    expect(before_end).toBe(0);
  });

  test("in a batch, which would avoid the limit of requests, is rejected, and so is an invalid message", async () => {
    const user = await lab.service.newUser();
    const { id } = await agentOf(user);
    const call = { jsonrpc: "2.0", id: 1, ...running };
    for (const body of [Array.from({ length: 100 }, (_, nth) => ({ ...call, id: nth })), null, 7, '"run"']) {
      const answer = await lab.service.as(user.key).post("/api/v1/mcp", body as never, { Accept: ACCEPT });
      expect([answer.status, answer.body.error.code]).toEqual([400, "invalid_json"]);
    }
    expect((await user.get(`/api/v1/agents/${id}/runs`)).body.runs).toEqual([]);
  });

  test("of a tool whose name is no text gets the protocol's error", async () => {
    const user = await lab.service.newUser();
    await agentOf(user);
    const headers = { Authorization: `Bearer ${user.key}`, Accept: ACCEPT, "Content-Type": "application/json" };
    for (const name of [5, {}, ["run_daily_report"], null]) {
      const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: {} } };
      const sent = { method: "POST", headers, body: JSON.stringify(message) };
      const answer = await fetch(`${lab.service.url}/api/v1/mcp`, sent);
      expect([name, answer.status]).toEqual([name, 200]);
      expect(await answer.text()).toContain('"error":{"code":-32');
    }
  });

  test("with null for absent fields is answered as one without these fields", async () => {
    const user = await lab.service.newUser();
    await agentOf(user);
    for (const message of [
      { method: "tools/list", params: null },
      { method: "tools/list", params: { cursor: null, _meta: null } },
      { method: "tools/call", params: { name: "list_runs", arguments: { agent: "run_daily_report" }, _meta: null } },
      { method: "ping", params: null, result: null, error: null },
    ]) {
      const answer = await post(user, message);
      expect([answer.status, JSON.stringify(answer.body)]).toEqual([200, expect.stringMatching(/\\?"result\\?":\{/)]);
    }
  });

  test("with text that cannot be stored gets an error that names the argument", async () => {
    const user = await lab.service.newUser();
    await agentOf(user);
    const client = await connected(user.key);
    for (const input of ["a\0b", "a\ud800"]) {
      const result = await client.callTool({ name: "run_daily_report", arguments: { input } });
      expect(result.structuredContent).toMatchObject({ error: { code: "invalid_value", param: "input" } });
    }
    await client.close();
  });

  test("with an Idempotency-Key is executed once, and its answer is replayed", async () => {
    const user = await lab.service.newUser();
    await agentOf(user);
    lab.upstream.answer(completion("Once."));
    const begun = lab.upstream.requests.length;
    const raw = () =>
      fetch(`${lab.service.url}/api/v1/mcp`, {
        method: "POST",
        headers: {
          Authorization: `Bearer ${user.key}`,
          Accept: ACCEPT,
          "Content-Type": "application/json",
          "Idempotency-Key": "once",
        },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, ...running }),
      });
    const first = await (await raw()).text();
    const second = await raw();
    expect(second.headers.get("Idempotent-Replayed")).toBe("true");
    expect(await second.text()).toBe(first);
    expect(lab.upstream.requests.length).toBe(begun + 1);
  });

  test("from a page of another origin is rejected (DNS rebinding)", async () => {
    const user = await lab.service.newUser();
    const answer = await post(user, { method: "tools/list" }, { Origin: "https://evil.example" });
    expect([answer.status, answer.body.error.code]).toEqual([403, "origin_refused"]);
  });
});
