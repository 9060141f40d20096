import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { expectCleanAudit, LAB_KEY, type Lab, startLab } from "../support/lab.ts";
import { answerAsMcp, mcpTool } from "../support/mcp-messages.ts";
import { type Receiver, startReceiver, type Treatment } from "../support/receiver.ts";
import type { Client } from "../support/service.ts";
import { type Site, startSite } from "../support/sites.ts";
import { calling, completion, delta, event, events, fetching, json, type Reply } from "../support/upstream.ts";

// Runs tell what failed in them: contract 6.5.2, 6.6 and 7.5.5.

const SECRET = "secret-value-0123456789";
const MODELS = [
  { id: "lab/plain", input_rate: 1, output_rate: 2 },
  { id: "lab/dear", input_rate: 5, output_rate: 20 },
];
let lab: Lab;
let receiver: Receiver;
let site: Site;
let user: Client;
beforeAll(async () => {
  receiver = await startReceiver();
  site = await startSite({
    "/": { body: "<h1>Berth 7</h1>" },
    "/gone": { status: 410, body: "<title>Moved</title><p>The berth   list\nhas moved.</p><script>track()</script>" },
    "/picture": { status: 503, headers: { "content-type": "image/png" }, body: "no text" },
    "/long": { status: 500, headers: { "content-type": "text/plain" }, body: "no ".repeat(10_000) },
    "/mcp": (_request, response) =>
      answerAsMcp(response, site.requests.at(-1)?.body ?? "", {
        tools: [mcpTool("book")],
        onCall: (answer) => answer({ content: [{ type: "text", text: "Berth 7 is taken." }], isError: true }),
      }),
    "/mcp-down": { status: 503, headers: { "content-type": "text/plain" }, body: "The quay is closed until 9." },
  });
  const env = { PURSER_EGRESS_ALLOW: `${receiver.host},${site.host}` };
  lab = await startLab(MODELS, { env });
});
beforeEach(async () => {
  receiver.received.length = 0;
  receiver.treat(204);
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
});
afterAll(async () => {
  await expectCleanAudit(lab.service);
  await lab.stop();
  await receiver.close();
  await site.close();
});

const saying =
  (status: number, text: string): Treatment =>
  (response) =>
    response.writeHead(status, { "content-type": "text/plain" }).end(text);

async function createAgent(tools_config: object, more: object = {}): Promise<string> {
  const agent = { name: "Herald", model_id: "lab/plain", run_prompt: `Tell ${site.url}.`, tools_config, ...more };
  const { status, body } = await user.post("/api/v1/agents", agent);
  expect({ status, body }).toMatchObject({ status: 201 });
  return `/api/v1/agents/${body.id}`;
}
async function runNow(agent: string, ...replies: Reply[]) {
  lab.upstream.answer(...replies);
  const { body } = await user.post(`${agent}/runs`, undefined, { Prefer: "wait=60" });
  return body;
}
const webhook = (more: object = {}) => ({ send_webhook: { enabled: true, urls: [`${receiver.url}/hook`], ...more } });
const sending = () => calling("send_webhook", { url: `${receiver.url}/hook`, payload: { n: 1 } });
const noticesOf = async (event: string) => (await user.get(`/api/v1/notices?event=${event}`)).body.notices;
const listed = async (agent: string, query: string) =>
  (await user.get(`${agent}/runs?${query}`)).body.runs.map(({ id }: { id: string }) => id);

test("a run whose webhook answers 500 after its last try fails, and says so with the receiver's words", async () => {
  receiver.treat(saying(500, "The ledger is\nlocked."));
  const agent = await createAgent(webhook());
  const run = await runNow(agent, sending(), completion("Told."));
  expect(receiver.received).toHaveLength(4);
  const outside = { status: 500, text: "The ledger is locked." };
  expect(run).toMatchObject({ status: "failed", failed_steps: 1, has_errors: true, output: null });
  expect(run.error).toMatchObject({ code: "tool_failed", outside });
  for (const word of ["send_webhook", "500", "4 tries", "The ledger is locked."])
    expect(run.error.message).toContain(word);
  expect(run.steps.at(-1)).toMatchObject({ name: "send_webhook", status: "failed", error: { outside } });
  expect(run.steps).toHaveLength(2);
  expect(await noticesOf("run.failed")).toMatchObject([{ data: { run_id: run.id, error_code: "tool_failed" } }]);
  expect(await noticesOf("run.has_errors")).toEqual([]);
  expect((await user.get(agent)).body).toMatchObject({ consecutive_failures: 1 });
});

describe("an answer that is", () => {
  const said = (content: string, finish_reason: string) =>
    events(event({ choices: [{ index: 0, delta: { content }, finish_reason }] }), "data: [DONE]\n\n");
  test.each<[string, Reply, string, string]>([
    ["filtered, without text", said("", "SAFETY"), "answer_filtered", ""],
    ["filtered, with a part of its text", said("Berth", "content_filter"), "answer_filtered", "Berth"],
    ["cut off", said("Berth", "length"), "answer_cut_off", "Berth"],
    ["cut off before its text", said("", "length"), "answer_cut_off", ""],
    ["empty", said(" ", "stop"), "answer_empty", " "],
    ["nothing at all", events("data: [DONE]\n\n"), "answer_empty", ""],
  ])("%s is a failed step of a run that succeeded, and its owner gets a notice", async (_, reply, code, output) => {
    const agent = await createAgent({});
    const run = await runNow(agent, reply, completion("Not asked for."));
    expect(run).toMatchObject({ status: "succeeded", output, has_errors: true, failed_steps: 1, error: null });
    expect(run.steps).toMatchObject([{ type: "model", status: "failed", error: { code } }]);
    expect(await listed(agent, "has_errors=true")).toEqual([run.id]);
    expect(await noticesOf("run.has_errors")).toMatchObject([{ data: { run_id: run.id, error_code: code } }]);
    expect((await user.get(agent)).body).toMatchObject({ consecutive_failures: 0, last_run: { has_errors: true } });
  });

  test("cut off in a thread stays in its conversation", async () => {
    const agent = await createAgent({});
    const chat = (content: string) =>
      user.post(`${agent}/chat`, { messages: [{ role: "user", content }], thread_id: "t1" });
    lab.upstream.answer(said("Berth", "length"), completion("7"));
    await chat("Where?");
    await chat("Go on.");
    expect(lab.upstream.requests.at(-1)?.body.messages.slice(-3)).toMatchObject([
      { role: "user", content: "Where?" },
      { role: "assistant", content: "Berth" },
      { role: "user", content: "Go on." },
    ]);
  });
});

describe("a failed call", () => {
  const at = (path: string) => fetching(`${site.url}${path}`);
  const server = (path: string) => ({ servers: [{ name: "port", url: `${site.url}${path}` }] });
  test.each<[what: string, tools: () => object, call: () => Reply[], code: string, outside: unknown]>([
    ["of send_webhook", () => webhook(), () => [sending()], "http_error", { status: 422, text: "No field x." }],
    [
      "of web_fetch, whose page is shown as its reader sees it",
      () => ({ web_fetch: { enabled: true } }),
      () => [at("/gone")],
      "http_error",
      { status: 410, text: "Moved The berth list has moved." },
    ],
    [
      "of web_fetch, for something without text",
      () => ({ web_fetch: { enabled: true } }),
      () => [at("/picture")],
      "unsupported_content",
      { status: 503, text: null },
    ],
    [
      "of web_fetch, with a long text",
      () => ({ web_fetch: { enabled: true } }),
      () => [at("/long")],
      "http_error",
      { status: 500, text: "no ".repeat(167).slice(0, 500) },
    ],
    [
      "of an MCP server's tool",
      () => ({ mcp: { enabled: true, ...server("/mcp") } }),
      () => [calling("port__book", {})],
      "mcp_failed",
      { status: null, text: "Berth 7 is taken." },
    ],
    [
      "of an MCP server that cannot be used",
      () => ({ mcp: { enabled: true, ...server("/mcp-down") } }),
      () => [],
      "mcp_failed",
      { status: 503, text: "The quay is closed until 9." },
    ],
  ])(
    "%s: the run goes on with errors, or fails, as on_tool_failure says",
    async (_what, tools, calls, code, outside) => {
      receiver.treat(saying(422, "No field x."));
      const [[name, settings] = ["", {}]] = Object.entries(tools());
      const agent = await createAgent({ [name]: { ...settings, on_tool_failure: "continue" } });
      const run = await runNow(agent, ...calls(), completion("Done."));
      expect(run).toMatchObject({
        status: "succeeded",
        output: "Done.",
        failed_steps: 1,
        has_errors: true,
        error: null,
      });
      const failed = run.steps.find(({ status }: { status: string }) => status === "failed");
      expect(failed.error).toMatchObject({ code, outside });
      const data = { run_id: run.id, trigger: "manual", failed_steps: 1, tool: failed.name, error_code: code };
      expect(await noticesOf("run.has_errors")).toMatchObject([{ event: "run.has_errors", data }]);
      expect(await noticesOf("run.failed")).toEqual([]);

      await user.request("PUT", agent, { tools_config: { [name]: { ...settings, on_tool_failure: "fail" } } });
      const broken = await runNow(agent, ...calls(), completion("Done."));
      expect(broken).toMatchObject({ status: "failed", error: { code: "tool_failed", outside }, has_errors: true });
      expect(broken.error.message).toContain(failed.name);
      expect(broken.steps.at(-1)).toMatchObject({ type: "tool", status: "failed", error: { code, outside } });
    },
  );

  test("continues by default for web_fetch and mcp", async () => {
    const web = await runNow(await createAgent({ web_fetch: { enabled: true } }), at("/gone"), completion());
    const mcp = await runNow(await createAgent({ mcp: { enabled: true, ...server("/mcp-down") } }), completion());
    for (const run of [web, mcp]) expect(run).toMatchObject({ status: "succeeded", has_errors: true });
  });

  test("whose secret is gone makes a run with errors, and with send_webhook a failed one", async () => {
    const { body: secret } = await user.post("/api/v1/secrets", { name: "KEY", value: SECRET });
    const auth = [{ secret: "KEY", hosts: [site.host], inject: { type: "bearer" } }];
    const reading = await createAgent({ web_fetch: { enabled: true, auth } });
    const telling = await createAgent(webhook({ secret: "KEY" }));
    await user.request("DELETE", `/api/v1/secrets/${secret.id}`);
    const read = await runNow(reading, at("/"), completion("Nothing."));
    expect(read).toMatchObject({ status: "succeeded", has_errors: true, failed_steps: 1 });
    expect(read.steps[1].error).toEqual({ code: "secret_missing", message: expect.stringContaining("KEY") });
    const told = await runNow(telling, sending(), completion("Told."));
    expect(told).toMatchObject({ status: "failed", error: { code: "tool_failed" } });
    expect(told.error.message).toContain("KEY");
  });

  test("that is the model's own mistake never fails the run, which has errors", async () => {
    const agent = await createAgent(webhook({ max_calls: 2 }));
    const bad = calling("send_webhook", { url: `${receiver.url}/hook` });
    const elsewhere = calling("send_webhook", { url: `${receiver.url}/other`, payload: 1 });
    const run = await runNow(agent, bad, elsewhere, sending(), calling("nothing", {}), completion("Told."));
    expect(run).toMatchObject({ status: "succeeded", failed_steps: 4, has_errors: true });
    const codes = run.steps.flatMap(({ error }: { error: { code: string } | null }) => error?.code ?? []);
    expect(codes).toEqual(["invalid_arguments", "egress_refused", "max_calls_reached", "unknown_tool"]);
    expect(receiver.received).toEqual([]);
  });
});

test.each([{ on_tool_failure: "stop" }, { on_tool_failure: null }, { on_tool_failure: true }])(
  "the settings %j of a tool are 400 and name the field",
  async (more) => {
    const agent = { name: "Herald", model_id: "lab/plain", tools_config: webhook(more) };
    const { status, body } = await user.post("/api/v1/agents", agent);
    expect({ status, param: body.error.param }).toEqual({
      status: 400,
      param: "tools_config.send_webhook.on_tool_failure",
    });
  },
);

test("lists show and filter runs with errors, for the owner and the operator", async () => {
  const agent = await createAgent(webhook({ on_tool_failure: "continue" }));
  const good = await runNow(agent, sending(), completion("Told."));
  receiver.treat(400);
  const troubled = await runNow(agent, sending(), completion("Told."));
  const failed = await runNow(agent, json({ error: { message: "no" } }, 400));
  expect(good).toMatchObject({ status: "succeeded", failed_steps: 0, has_errors: false });
  expect(failed).toMatchObject({ status: "failed", failed_steps: 1, has_errors: true });
  expect(await listed(agent, "has_errors=true")).toEqual([failed.id, troubled.id]);
  expect(await listed(agent, "has_errors=false")).toEqual([good.id]);
  expect(await listed(agent, "has_errors=true&status=succeeded")).toEqual([troubled.id]);
  const { runs } = (await user.get(`${agent}/runs`)).body;
  expect(runs.map((run: object) => [Reflect.get(run, "failed_steps"), Reflect.get(run, "has_errors")])).toEqual([
    [1, true],
    [1, true],
    [0, false],
  ]);
  expect((await user.get(`${agent}/runs?has_errors=yes`)).body.error).toMatchObject({ param: "has_errors" });
  const of_operator = (query: string) =>
    lab.service.admin.get(`/api/v1/admin/runs?agent_id=${failed.agent_id}${query}`);
  const ids = async (query: string) => (await of_operator(query)).body.runs.map(({ id }: { id: string }) => id);
  expect(await ids("&has_errors=true")).toEqual([failed.id, troubled.id]);
  expect(await ids("&has_errors=false")).toEqual([good.id]);
  expect(await ids("&error_code=model_unavailable")).toEqual([failed.id]);
  const groups = await lab.service.admin.get(`/api/v1/admin/run-failures?user_id=${user.user_id}`);
  expect(groups.body.failures.filter((group: { agent_id: string }) => group.agent_id === failed.agent_id)).toEqual([
    expect.objectContaining({
      user_id: user.user_id,
      user_email: expect.stringContaining("@"),
      error_code: "model_unavailable",
      runs: 1,
      last_run_id: failed.id,
      last_message: failed.error.message,
    }),
  ]);
  expect((await user.get(agent)).body.last_run).toMatchObject({ id: failed.id, has_errors: true });
});

describe("a failed model step", () => {
  test("keeps its provider's words without keys, and a repeated call with success is no error of the run", async () => {
    const agent = await createAgent({});
    const overloaded = json({ error: { message: `Overloaded for ${LAB_KEY}, sorry` } }, 503);
    const run = await runNow(agent, overloaded, completion("Done."));
    expect(run).toMatchObject({ status: "succeeded", failed_steps: 1, has_errors: false, steps_count: 2 });
    expect(run.steps[0].error).toEqual({
      code: "model_unavailable",
      message: expect.any(String),
      outside: { status: 503, text: "Overloaded for [redacted], sorry" },
    });
    expect(await noticesOf("run.has_errors")).toEqual([]);
  });

  test("keeps the words of an error within the stream, also after a part of the answer", async () => {
    const error = `data: ${JSON.stringify({ error: { message: `GPU lost by ${LAB_KEY}`, code: "gpu_lost" } })}\n\n`;
    const outside = { status: 200, text: "GPU lost by [redacted]" };
    const agent = await createAgent({});
    const before = await runNow(agent, events(error), completion("Done."));
    expect(before.steps[0].error).toMatchObject({ code: "model_unavailable", outside });
    const amid = await runNow(agent, events(delta("Ber"), delta("th"), error), completion("Done."));
    expect(amid.steps[0]).toMatchObject({ status: "failed", error: { code: "model_unavailable", outside } });
    expect(amid.steps[0].result.content).toBe("Berth");
  });
});

test("the first step of a routed run has the name of the model that is called, also when it fails", async () => {
  const agent = await createAgent({}, { model_id: null, auto_route: true });
  const run = await runNow(agent, completion("Done."));
  expect(run.steps.map(({ name }: { name: string }) => name)).toEqual(["lab/plain"]);
  const refused = await runNow(agent, json({ error: { message: "no" } }, 400));
  expect(refused.status).toBe("failed");
  expect(refused.steps.map(({ name }: { name: string }) => name)).toEqual(["lab/plain"]);
});
