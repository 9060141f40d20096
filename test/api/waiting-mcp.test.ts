import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { newId } from "../../src/platform/lib/ids.ts";
import { approverOf } from "../support/approvals.ts";
import { expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import type { Client as User } from "../support/service.ts";
import { calling, completion } from "../support/upstream.ts";

// Runs that ask a person, behind POST /api/v1/mcp: contract 6.13.1 and 6.13.2. The MCP project's own clients are used.

let lab: Lab;
let receiver: Receiver;
let user: User;
/** A key that may also decide. */
let approving: string;
let id: string;

beforeAll(async () => {
  receiver = await startReceiver();
  relay.listen(0, "127.0.0.1");
  await once(relay, "listening");
  lab = await startLab(undefined, { env: { PURSER_EGRESS_ALLOW: `${receiver.host}, ${relayHost()}` } });
});
beforeEach(async () => {
  receiver.received.length = 0;
  lab.upstream.requests.length = 0;
  lab.upstream.answer(sends({ n: 1 }), completion("Told."));
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const wanted = {
    name: "Desk",
    scopes: ["agents:read", "agents:write", "chat:write", "agents:approve"],
    reason: "a test",
  };
  approving = (await lab.service.admin.post(`/api/v1/admin/users/${user.user_id}/api-keys`, wanted)).body.key;
  const send_webhook = { enabled: true, urls: [hook()], permission_policy: "always_ask" };
  const agent = { name: "Herald", model_id: "lab/plain", run_prompt: "Tell.", tools_config: { send_webhook } };
  id = (await user.post("/api/v1/agents", agent)).body.id;
});
afterAll(async () => {
  await expectCleanAudit(lab.service);
  await lab.stop();
  await receiver.close();
  relay.closeAllConnections();
  relay.close();
});

/** The service at an address that its own agents may reach, which is known before it starts. */
const relay = createServer((incoming, outgoing) => {
  const { method = "POST", headers } = incoming;
  const to = request(`${lab.service.url}${incoming.url}`, { method, headers, agent: false }, (answer) => {
    outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(outgoing);
  });
  to.on("error", () => outgoing.destroy());
  incoming.pipe(to);
});
const relayHost = () => `127.0.0.1:${(relay.address() as AddressInfo).port}`;

const hook = () => `${receiver.url}/hook`;
const sends = (payload: unknown) => calling("send_webhook", { url: hook(), payload });
const runOf = async (run_id: string) => (await user.get(`/api/v1/runs/${run_id}`)).body;
const onlyRun = async () => (await user.get(`/api/v1/agents/${id}/runs`)).body.runs[0];
async function ended(run_id: string) {
  await expect.poll(async () => (await runOf(run_id)).finished_at).not.toBeNull();
  return runOf(run_id);
}
async function decide(run_id: string, decision = "approve") {
  const [action] = (await runOf(run_id)).required_actions;
  const approver = await approverOf(lab.service, user);
  const { status } = await approver.post(`/api/v1/agents/${id}/runs/${run_id}/actions/${action.id}`, { decision });
  expect(status).toBe(200);
}
const textOf = (result: unknown) => (result as { content: { text: string }[] }).content[0]?.text;
type Asked = { message: string; requestedSchema: unknown };
type Action = "accept" | "decline" | "cancel";

/** A connected client, which answers each question with `answer`. Without one it declares no elicitation. */
async function connected(key: string, answer?: Action, mode: "auto" | "legacy" = "auto") {
  const capabilities = answer === undefined ? {} : { elicitation: {} };
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode }, capabilities });
  const asked: Asked[] = [];
  if (answer !== undefined) {
    client.setRequestHandler("elicitation/create", ({ params }) => {
      asked.push(params as Asked);
      return { action: answer, ...(answer === "accept" && { content: {} }) };
    });
  }
  const requestInit = { headers: { Authorization: `Bearer ${key}` } };
  // A restarted service listens at another port.
  const toService = (url: string | URL, init?: RequestInit) =>
    fetch(new URL(new URL(url).pathname, lab.service.url), init);
  const endpoint = new URL(`${lab.service.url}/api/v1/mcp`);
  await client.connect(new StreamableHTTPClientTransport(endpoint, { requestInit, fetch: toService }));
  return { client, asked };
}
const HERALD = { name: "run_herald", arguments: {} };

describe("a call whose run must ask", () => {
  test.each([
    ["a run", HERALD],
    ["a message", { name: "run_herald", arguments: { input: "Tell them." } }],
  ])("asks the user of a client with elicitation, and an accepted call of %s is made as shown", async (_, call) => {
    const { client, asked } = await connected(approving, "accept");
    const result = await client.callTool(call);
    expect(textOf(result)).toBe("Told.");
    expect(asked).toHaveLength(1);
    expect(asked[0]?.message).toContain("send_webhook");
    expect(asked[0]?.message).toContain(`"n": 1`);
    expect(receiver.received.map(({ body }) => JSON.parse(body))).toEqual([{ n: 1 }]);
    const { run_id } = result.structuredContent as { run_id: string };
    expect((await runOf(run_id)).decisions).toMatchObject([
      { decision: "approved", decided_by: { type: "mcp", name: "Desk" } },
    ]);
    expect((await user.get(`/api/v1/agents/${id}/runs`)).body.runs).toHaveLength(1);
    await client.close();
  });

  test("rejects the call that the user declines", async () => {
    lab.upstream.answer(sends({ n: 1 }), completion("Then not."));
    const { client } = await connected(approving, "decline");
    expect(textOf(await client.callTool(HERALD))).toBe("Then not.");
    expect(receiver.received).toEqual([]);
    expect((await runOf((await onlyRun()).id)).decisions).toMatchObject([
      { decision: "rejected", decided_by: { type: "mcp" } },
    ]);
    await client.close();
  });

  test("asks again for the next call of the same run", async () => {
    lab.upstream.answer(sends({ n: 1 }), sends({ n: 2 }), completion("Told both."));
    const { client, asked } = await connected(approving, "accept");
    expect(textOf(await client.callTool(HERALD))).toBe("Told both.");
    expect(asked).toHaveLength(2);
    expect(receiver.received).toHaveLength(2);
    await client.close();
  });

  const CLIENTS: [string, () => string, Action | undefined, "auto" | "legacy"][] = [
    ["a client without elicitation", () => approving, undefined, "auto"],
    ["a client of an earlier version, which no request of its own can ask", () => approving, "accept", "legacy"],
    ["a client whose key may not decide", () => user.key, "accept", "auto"],
    ["a client whose user closes the question", () => approving, "cancel", "auto"],
  ];
  test.each(CLIENTS)(
    "tells %s where to decide, and the run goes on by itself afterwards",
    async (_, key, answer, mode) => {
      const { client, asked } = await connected(key(), answer, mode);
      const result = await client.callTool(HERALD);
      expect(asked).toHaveLength(answer === "cancel" ? 1 : 0);
      const run = await onlyRun();
      expect(run.status).toBe("requires_action");
      const decide_url = `${lab.service.url}/agents/${id}/runs/${run.id}/decide`;
      expect(textOf(result)).toContain(decide_url);
      expect(result).toMatchObject({
        isError: false,
        structuredContent: {
          run_id: run.id,
          status: "requires_action",
          required_actions: [{ tool: "send_webhook" }],
          decide_url,
        },
      });
      await decide(run.id);
      expect(await ended(run.id)).toMatchObject({ status: "succeeded", output: "Told." });
      const read = await client.callTool({ name: "get_run", arguments: { run_id: run.id } });
      expect(read.structuredContent).toMatchObject({ output: "Told." });
      await client.close();
    },
  );

  test("of an agent with a schema of its output says so in a result that its schema need not fit", async () => {
    const output_schema = { type: "object", properties: { done: { type: "boolean" } }, required: ["done"] };
    await user.request("PUT", `/api/v1/agents/${id}`, { output_schema });
    const { client } = await connected(user.key);
    await client.listTools();
    const result = await client.callTool(HERALD);
    expect(result).toMatchObject({ isError: true, structuredContent: { status: "requires_action" } });
    await client.close();
  });

  test("is decided elsewhere while the user is asked, and the late answer changes nothing", async () => {
    const { client } = await connected(approving, "accept");
    client.setRequestHandler("elicitation/create", async () => {
      await decide((await onlyRun()).id, "reject");
      return { action: "accept", content: {} };
    });
    lab.upstream.answer(sends({ n: 1 }), completion("Then not."));
    expect(textOf(await client.callTool(HERALD))).toBe("Then not.");
    expect(receiver.received).toEqual([]);
    await client.close();
  });

  test("waits through a restart of the service while its user is asked", async () => {
    const { client } = await connected(approving, "accept");
    client.setRequestHandler("elicitation/create", async () => {
      await lab.service.restart();
      return { action: "accept", content: {} };
    });
    expect(textOf(await client.callTool(HERALD))).toBe("Told.");
    expect(receiver.received).toHaveLength(1);
    await client.close();
  });
});

describe("a run as a task", () => {
  const META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
  };
  const declared = (extensions: object, elicitation?: object) => ({
    ...META,
    "io.modelcontextprotocol/clientCapabilities": { extensions, ...(elicitation && { elicitation }) },
  });
  const TASKS = { "io.modelcontextprotocol/tasks": {} };
  /** One message, as a client of 2026-07-28 sends it. */
  async function send(key: string, method: string, params: Record<string, unknown>, _meta: object = declared(TASKS)) {
    const response = await fetch(`${lab.service.url}/api/v1/mcp`, {
      method: "POST",
      headers: {
        Authorization: `Bearer ${key}`,
        "Content-Type": "application/json",
        Accept: "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
        "Mcp-Name": String(params.name ?? params.taskId ?? ""),
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method,
        params: { ...params, _meta: { ...(params._meta as object), ..._meta } },
      }),
    });
    return response.json();
  }
  /** The extension's own client, over a connected one. */
  async function taskSession(key: string, answer?: Action) {
    const { client } = await connected(key);
    const asked: Asked[] = [];
    const session = createTaskSessionFromClient(client, {
      endpointId: "purser",
      v2RequestFraming: {
        protocolVersion: "2026-07-28",
        clientInfo: { name: "test", version: "1" },
        clientCapabilities: answer === undefined ? {} : { elicitation: {} },
      },
      async rawDispatch(request) {
        const { method, params } = request as { method: string; params: Record<string, unknown> };
        const { result, error } = await send(key, method, params, params._meta as object);
        return error === undefined ? { kind: "result", result } : { kind: "error", error };
      },
      ...(answer !== undefined && {
        // biome-ignore lint/suspicious/noExplicitAny: the type depends on the request
        onInputRequest: async ({ params }: any): Promise<any> => {
          asked.push(params);
          return { action: answer, ...(answer === "accept" && { content: {} }) };
        },
      }),
    });
    const close = async () => {
      await session.close();
      await client.close();
    };
    return { session, asked, close };
  }

  test("is followed by the extension's client, which asks its user and gets the result", async () => {
    const { session, asked, close } = await taskSession(approving, "accept");
    const execution = await session.callTool("run_herald", {});
    expect(execution.kind).toBe("task");
    const statuses: string[] = [];
    const { outcome } = await execution.settle({
      onEvent(event) {
        if (event.type === "task") statuses.push(event.task.status);
      },
    });
    expect(outcome).toMatchObject({ status: "completed", result: { content: [{ text: "Told." }], isError: false } });
    expect(statuses).toContain("input_required");
    expect(asked).toHaveLength(1);
    expect(receiver.received).toHaveLength(1);
    expect((await runOf((await onlyRun()).id)).decisions).toMatchObject([{ decided_by: { type: "mcp" } }]);
    await close();
  });

  test.each([
    ["a run", {}],
    ["a message", { input: "Tell them." }],
  ])("of %s goes through its states, and outlives the request and the node that began it", async (_, given) => {
    const created = await send(user.key, "tools/call", { name: "run_herald", arguments: given });
    const { taskId } = created.result;
    expect(created.result).toMatchObject({ resultType: "task", ttlMs: null, createdAt: expect.any(String) });
    const task = async () => (await send(user.key, "tasks/get", { taskId })).result;
    await expect.poll(async () => (await task()).status).toBe("input_required");
    await lab.service.restart();
    // This key may not decide, so its client asks nobody.
    expect(await task()).toMatchObject({
      resultType: "complete",
      taskId,
      inputRequests: {},
      statusMessage: expect.stringContaining("/decide"),
    });
    await decide(taskId);
    await expect.poll(async () => (await task()).status).toBe("completed");
    expect(await task()).toMatchObject({
      result: { content: [{ text: "Told." }], structuredContent: { run_id: taskId } },
    });
  });

  test("has its questions for a client with elicitation, and tasks/update decides", async () => {
    const meta = declared(TASKS, {});
    const { taskId } = (await send(approving, "tools/call", HERALD, meta)).result;
    const task = async () => (await send(approving, "tasks/get", { taskId }, meta)).result;
    await expect.poll(async () => (await task()).status).toBe("input_required");
    const { inputRequests } = await task();
    const [action_id = "", question] = Object.entries(inputRequests)[0] ?? [];
    expect(question).toMatchObject({
      method: "elicitation/create",
      params: { mode: "form", message: expect.stringContaining("send_webhook") },
    });
    const inputResponses = { [action_id]: { action: "accept" }, [newId()]: { action: "accept" } };
    expect((await send(approving, "tasks/update", { taskId, inputResponses }, meta)).result).toMatchObject({
      resultType: "complete",
    });
    await expect.poll(async () => (await task()).status).toBe("completed");
    expect(receiver.received).toHaveLength(1);
    // A late answer changes nothing.
    expect((await send(approving, "tasks/update", { taskId, inputResponses }, meta)).error).toBeUndefined();
  });

  test("is cancelled by tasks/cancel, and a task that has ended stays as it is", async () => {
    const { taskId } = (await send(user.key, "tools/call", HERALD)).result;
    const status = async () => (await send(user.key, "tasks/get", { taskId })).result.status;
    await expect.poll(status).toBe("input_required");
    expect((await send(user.key, "tasks/cancel", { taskId })).result).toMatchObject({ resultType: "complete" });
    expect(await status()).toBe("cancelled");
    expect((await send(user.key, "tasks/cancel", { taskId })).error).toBeUndefined();
  });

  test("that failed is a completed call with an error, as the protocol has it", async () => {
    lab.upstream.answer((response) => void response.writeHead(400).end("{}"));
    const { taskId } = (await send(user.key, "tools/call", HERALD)).result;
    const task = async () => (await send(user.key, "tasks/get", { taskId })).result;
    await expect.poll(async () => (await task()).status).toBe("completed");
    expect(await task()).toMatchObject({ result: { isError: true } });
  });

  test("is none for a client that does not declare the extension, and for another user", async () => {
    const other = await lab.service.newUser();
    const { taskId } = (await send(user.key, "tools/call", HERALD)).result;
    for (const method of ["tasks/get", "tasks/update", "tasks/cancel"]) {
      const params = { taskId, inputResponses: {} };
      expect((await send(approving, method, params, declared({}))).error, method).toMatchObject({
        code: -32021,
        data: { requiredCapabilities: { extensions: TASKS } },
      });
      if (method === "tasks/update") continue;
      expect((await send(other.key, method, params)).error, method).toMatchObject({ code: -32602 });
      expect((await send(user.key, method, { taskId: "none" })).error, method).toMatchObject({ code: -32602 });
    }
    for (const method of ["tasks/list", "tasks/result"]) {
      expect((await send(user.key, method, { taskId })).error).toMatchObject({ code: -32601 });
    }
  });

  test("is none for a key that could not read it: the call is answered when the run has ended", async () => {
    const runner = (await user.post("/api/v1/api-keys", { name: "runner", scopes: ["agents:write"] })).body.key;
    lab.upstream.answer(completion("Done."));
    const { result } = await send(runner, "tools/call", HERALD);
    expect(result).toMatchObject({ resultType: "complete", content: [{ text: "Done." }] });
  });

  test("is not decided through a key without the scope", async () => {
    const { taskId } = (await send(user.key, "tools/call", HERALD)).result;
    await expect.poll(async () => (await runOf(taskId)).status).toBe("requires_action");
    const [{ id: action_id }] = (await runOf(taskId)).required_actions;
    const inputResponses = { [action_id]: { action: "accept" } };
    const meta = declared(TASKS, {});
    const forbidden = await send(user.key, "tasks/update", { taskId, inputResponses }, meta);
    expect(forbidden.error.code).toBe("insufficient_scope");
    // A forged round of a call is the same.
    const forged = await send(
      user.key,
      "tools/call",
      { ...HERALD, requestState: taskId, inputResponses },
      declared({}, {}),
    );
    expect(forged.result).toMatchObject({
      isError: true,
      structuredContent: { error: { code: "insufficient_scope" } },
    });
    expect(await runOf(taskId)).toMatchObject({ status: "requires_action", decisions: [] });
    expect(receiver.received).toEqual([]);
  });
});

test("an agent that has Purser's own MCP server as a tool approves nothing, even through a key that may", async () => {
  await user.post("/api/v1/secrets", { name: "OWN", value: approving });
  const url = `http://${relayHost()}/api/v1/mcp`;
  const auth = { secret: "OWN", inject: { type: "bearer" } };
  const mcp = { enabled: true, servers: [{ name: "own", url, auth, permission_policy: "always_allow" }] };
  const insider = { name: "Insider", model_id: "lab/plain", run_prompt: "Get it done.", tools_config: { mcp } };
  const made = await user.post("/api/v1/agents", insider);
  expect(made.status).toBe(201);
  const forged = { requestState: "", inputResponses: {}, decision: "approve" };
  lab.upstream.answer(
    calling("own__run_herald", {}),
    sends({ n: 1 }),
    async (response, asked) => {
      const { id: run_id, required_actions } = await onlyRun();
      Object.assign(forged, {
        requestState: run_id,
        inputResponses: { [required_actions[0].id]: { action: "accept" } },
      });
      return calling("own__run_herald", forged)(response, asked);
    },
    completion("I could not."),
  );
  const { body } = await user.post(`/api/v1/agents/${made.body.id}/runs`, undefined, { Prefer: "wait=30" });
  expect(body).toMatchObject({ status: "succeeded", output: "I could not." });
  const answers = body.steps.filter(({ type }: { type: string }) => type === "tool");
  expect(answers[0].result).toContain("Do not call this tool again");
  expect(answers[1]).toMatchObject({ status: "failed" });
  expect(await onlyRun()).toMatchObject({ status: "requires_action" });
  expect(receiver.received).toEqual([]);
});
