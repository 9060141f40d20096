import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { Client as McpClient, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openStream } from "../support/event-stream.ts";
import { useLab } from "../support/lab.ts";
import { NATIVE_APIS, NATIVE_ENV, NATIVE_KINDS, nativeConfig } from "../support/native-apis/lab.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import { completion, startUpstream, type Upstream } from "../support/upstream.ts";

// contract 6.16: an agent's answer by its output_schema

const SCHEMA = {
  type: "object",
  properties: { berth: { type: "integer" }, free: { type: "boolean" } },
  required: ["berth", "free"],
  additionalProperties: false,
};
/** Not all strict modes have minima, so the service checks these answers itself. */
const BOUNDED = { ...SCHEMA, properties: { ...SCHEMA.properties, berth: { type: "integer", minimum: 1 } } };
const VALID = { berth: 7, free: true };

const lab = useLab([
  { id: "lab/plain", input_rate: 1, output_rate: 2 },
  { id: "lab/lax", input_rate: 1, output_rate: 2, supports: { tools: true } },
  { id: "lab/whole", input_rate: 1, output_rate: 2, supports: { streaming: false } },
]);
let user: Client;
beforeEach(async () => {
  lab.upstream.answer(completion(JSON.stringify(VALID)));
  lab.upstream.requests.length = 0;
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
});

async function create(fields: object = {}, by = user) {
  const agent = { name: "Clerk", model_id: "lab/plain", run_prompt: "Which?", output_schema: SCHEMA, ...fields };
  const made = await by.post("/api/v1/agents", agent);
  expect(made.status).toBe(201);
  return made.body;
}
const runNow = async (id: string, by = user) =>
  (await by.post(`/api/v1/agents/${id}/runs`, undefined, { Prefer: "wait=30" })).body;

describe("a run of an agent with output_schema", () => {
  test("has its answer as output_json, in its record and in its events", async () => {
    const { id } = await create();
    const run = await runNow(id);
    expect(run).toMatchObject({ status: "succeeded", output: JSON.stringify(VALID), output_json: VALID });
    expect((await user.get(`/api/v1/agents/${id}/runs/${run.id}`)).body.output_json).toEqual(VALID);
    const events = await fetch(`${lab.service.url}/api/v1/agents/${id}/runs/${run.id}/events`, {
      headers: { Authorization: `Bearer ${user.key}` },
    });
    const last = (await events.text()).trim().split("\n\n").at(-1) ?? "";
    expect(JSON.parse(/^data: (.*)$/m.exec(last)?.[1] ?? "")).toMatchObject({ output_json: VALID });
  });

  test("of an agent without a schema has none, and neither has one whose answer happens to be JSON", async () => {
    const { id } = await create({ output_schema: null });
    expect(await runNow(id)).toMatchObject({ output: JSON.stringify(VALID), output_json: null });
    expect(lab.upstream.requests[0]?.body).not.toHaveProperty("response_format");
  });

  test.each([
    ["by strict mode", "lab/plain", SCHEMA, true],
    [
      "without further fields also if the schema does not rule them out",
      "lab/plain",
      { ...SCHEMA, additionalProperties: undefined },
      true,
    ],
    ["by the prompt for what strict modes lack", "lab/plain", BOUNDED, false],
    ["by the prompt on a model without strict mode", "lab/lax", SCHEMA, false],
    ["by the prompt on a model without streams", "lab/whole", SCHEMA, false],
  ])("asks %s", async (_what, model_id, output_schema, is_strict) => {
    const { id } = await create({ model_id, output_schema });
    expect(await runNow(id)).toMatchObject({ status: "succeeded", output_json: VALID });
    expect(lab.upstream.requests).toHaveLength(1);
    const { response_format, messages } = lab.upstream.requests[0]?.body ?? {};
    const told = JSON.stringify(messages).includes("valid against this JSON schema");
    expect([response_format?.json_schema ?? null, told]).toEqual(
      is_strict ? [{ name: "output", strict: true, schema: SCHEMA }, false] : [null, true],
    );
  });

  test.each<[string, object, unknown[], unknown]>([
    ["is repaired once", BOUNDED, ['{"berth":0,"free":true}', VALID], VALID],
    ["is repaired once if it is no JSON", BOUNDED, ["Berth 7 is free.", VALID], VALID],
    ["is taken out of its code fence", BOUNDED, [`\`\`\`json\n${JSON.stringify(VALID)}\n\`\`\``], VALID],
  ])("whose answer does not conform %s", async (_what, output_schema, answers, expected) => {
    const texts = answers.map((answer) => (typeof answer === "string" ? answer : JSON.stringify(answer)));
    lab.upstream.answer(...texts.map((text) => completion(text)));
    const { id } = await create({ output_schema });
    expect(await runNow(id)).toMatchObject({ status: "succeeded", output_json: expected });
    expect(lab.upstream.requests).toHaveLength(texts.length);
    if (texts.length === 2 && texts[0]?.startsWith("{")) {
      expect(lab.upstream.requests[1]?.body.messages.at(-1).content).toContain("output.berth must be >= 1");
    }
  });

  test.each([
    ["after its repair", { output_schema: BOUNDED }, "output.berth must be >= 1", 2],
    [
      "of a provider that breaks its strict mode",
      { output_schema: { ...SCHEMA, required: ["berth", "free", "x"], properties: { ...SCHEMA.properties, x: {} } } },
      "output.x is missing",
      1,
    ],
  ])("fails with output_invalid and keeps the text: %s", async (_what, fields, why, calls) => {
    const text = '{"berth":0,"free":true}';
    lab.upstream.answer(completion(text));
    const { id } = await create(fields);
    const run = await runNow(id);
    expect(run).toMatchObject({ status: "failed", output: text, output_json: null, error: { code: "output_invalid" } });
    expect(run.error.message).toContain(why);
    expect(lab.upstream.requests).toHaveLength(calls);
    expect(run.usage.cost_tokens).toBeGreaterThan(0);
  });

  test("conforms with the rehearsal model, which needs no provider", async () => {
    const { id } = await create({ model_id: "purser/rehearsal" });
    expect(await runNow(id)).toMatchObject({ status: "succeeded", output_json: { berth: expect.any(Number) } });
  });
});

describe("each provider's own strict mode", () => {
  let native: Service;
  let upstream: Upstream;
  beforeAll(async () => {
    upstream = await startUpstream();
    native = await startService({ env: NATIVE_ENV, config: nativeConfig(upstream) });
  });
  afterAll(async () => {
    await native.stop();
    await upstream.close();
  });

  test.each(NATIVE_KINDS)("%s gets the schema in its own field, beside the agent's tools", async (kind) => {
    upstream.answer(NATIVE_APIS[kind].create(() => ({ text: JSON.stringify(VALID) })).reply);
    upstream.requests.length = 0;
    const owner = await native.newUser({ trial: false, tokens: 100_000_000 });
    const fields = { model_id: `native/${kind}`, tools_config: { web_fetch: { enabled: true } } };
    const { id } = await create(fields, owner);
    expect(await runNow(id, owner)).toMatchObject({ status: "succeeded", output_json: VALID });
    const sent = upstream.requests[0]?.body;
    const schema = {
      openai: sent.text?.format?.strict === true && sent.text.format.schema,
      anthropic: sent.output_config?.format?.schema,
      google: sent.generationConfig?.responseJsonSchema ?? sent.generationConfig?.responseSchema,
    }[kind];
    expect(schema).toMatchObject({ required: ["berth", "free"] });
  });
});

describe("an agent as a model", () => {
  const asked = (id: string, fields: object = {}) =>
    user.post("/api/v1/chat/completions", {
      model: `agent/${id}`,
      messages: [{ role: "user", content: "Which?" }],
      ...fields,
    });
  const format = (schema: object, strict = true) => ({
    response_format: { type: "json_schema", json_schema: { name: "berth", schema, strict } },
  });

  test("answers by the caller's response_format if it has no schema of its own", async () => {
    const { id } = await create({ output_schema: null });
    const { status, body } = await asked(id, format(SCHEMA));
    expect([status, JSON.parse(body.choices[0].message.content)]).toEqual([200, VALID]);
    expect(lab.upstream.requests[0]?.body.response_format).toEqual(format(SCHEMA).response_format);
    expect((await user.get(`/api/v1/agents/${id}/runs/${body.run_id}`)).body.output_json).toEqual(VALID);
    expect((await asked(id, { response_format: { type: "json_object" } })).status).toBe(200);
  });

  test("answers an answer that does not conform to the caller's format with an error that names the run", async () => {
    lab.upstream.answer(completion("seven"));
    const { id } = await create({ output_schema: null });
    const { status, body } = await asked(id, format(SCHEMA));
    expect([status, body.error.code]).toEqual([409, "output_invalid"]);
    expect((await user.get(`/api/v1/agents/${id}/runs/${body.error.metadata.run_id}`)).body.output).toBe("seven");
  });

  test("streams an answer that is checked only once it is whole and repaired", async () => {
    const { id } = await create({ output_schema: BOUNDED });
    lab.upstream.answer(completion('{"berth":0,"free":true}'), completion(JSON.stringify(VALID)));
    const request = { model: `agent/${id}`, messages: [{ role: "user", content: "Which?" }] };
    const events = await (await openStream(lab.service, user, request)).rest();
    const text = events
      .filter((event) => event !== "[DONE]")
      .map((event) => JSON.parse(event).choices[0]?.delta?.content ?? "")
      .join("");
    expect(JSON.parse(text)).toEqual(VALID);
  });

  test.each([
    ["beside its own schema", SCHEMA, format(SCHEMA), "response_format"],
    [
      "with a schema that cannot be checked",
      null,
      format({ type: "array" }),
      "response_format.json_schema.schema.type",
    ],
  ])("rejects a response_format %s", async (_what, output_schema, fields, param) => {
    const { id } = await create({ output_schema });
    const { status, body } = await asked(id, fields);
    expect([status, body.error.param]).toEqual([400, param]);
  });

  test("is listed with what it takes", async () => {
    const [own, free] = [await create(), await create({ output_schema: null })];
    const { data } = (await user.get("/api/v1/models")).body;
    const takes = (id: string) => data.find((each: { id: string }) => each.id === `agent/${id}`).supports.json_schema;
    expect([takes(own.id), takes(free.id)]).toEqual([false, true]);
  });
});

test("the examples of the developers' guide print the output that the agent's schema says", async () => {
  const guide = readFileSync("docs/guides/developers.md", "utf8");
  const section = guide.slice(guide.indexOf("### Call an agent like a function"), guide.indexOf("### Results of runs"));
  const [shell = "", program = ""] = ["sh", "ts"].map(
    (language) => new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, "m").exec(section)?.[1] ?? "",
  );
  const field = /^field\(\) \{.*?"\$1"; \}$/ms.exec(guide)?.[0] ?? "";
  lab.upstream.answer(completion('{"supplier":"Anchor Ltd","total":40}'));
  const env = { ...process.env, PURSER: lab.service.url, KEY: user.key ?? "" };
  const script = `set -eu\n${field}\n${shell.replace("purser/rehearsal", "lab/plain")}\necho; echo $AGENT`;
  const [run = "", AGENT = ""] = (await promisify(execFile)("bash", ["-c", script], { env })).stdout.trim().split("\n");
  expect(JSON.parse(run)).toMatchObject({
    output_json: { supplier: "Anchor Ltd", total: 40 },
    metadata: { batch: "2026-03" },
  });
  const node = ["--input-type=module-typescript", "-e", program];
  const { stdout } = await promisify(execFile)(process.execPath, node, { env: { ...env, AGENT } });
  expect(stdout).toBe("Anchor Ltd 40\n");
  expect(lab.upstream.requests[1]?.body.messages.at(-1).content).toBe("Read this invoice:\nAnchor Ltd, 2 ropes, 40.00");
});

test("an MCP client gets an agent's schemas and its output as structured content", async () => {
  const input_schema = { type: "object", properties: { quay: { type: "string" } }, required: ["quay"] };
  await create({ name: "Berths", input_schema, run_prompt: "Which berth at {{input.quay}}?" });
  const client = new McpClient({ name: "test", version: "1" });
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${lab.service.url}/api/v1/mcp`), {
      requestInit: { headers: { Authorization: `Bearer ${user.key}` } },
    }),
  );
  const tool = (await client.listTools()).tools.find(({ name }) => name === "run_berths");
  expect([tool?.inputSchema, tool?.outputSchema]).toEqual([input_schema, SCHEMA]);
  const result = await client.callTool({ name: "run_berths", arguments: { quay: "North" } });
  expect(result).toMatchObject({ isError: false, structuredContent: VALID });
  expect(lab.upstream.requests[0]?.body.messages.at(-1).content).toBe("Which berth at North?");
  const wrong = await client.callTool({ name: "run_berths", arguments: {} });
  expect(wrong).toMatchObject({
    isError: true,
    structuredContent: { error: { code: "missing_field", param: "input.quay" } },
  });
  await client.close();
});
