import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createDeclared, dataOf, readDocument } from "../support/declared.ts";
import { type Lab, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { calling, completion, cut, delta, ended, type Reply } from "../support/upstream.ts";

const REDOCLY = join(import.meta.dirname, "../../node_modules/@redocly/cli/bin/cli.js");

let lab: Lab;
let user: Client;
let agent: string;
beforeAll(async () => {
  lab = await startLab();
  user = await lab.service.newUser({ trial: false, tokens: 10_000_000 });
  agent = (await user.post("/api/v1/agents", { name: "Scout", model_id: "lab/plain", run_prompt: "hello" })).body.id;
});
afterAll(() => lab.stop());

const post = async (path: string, body: object) => {
  const headers = { Authorization: `Bearer ${user.key}`, "Content-Type": "application/json" };
  const response = await fetch(`${lab.service.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  return { status: response.status, type: response.headers.get("content-type") ?? "", text: await response.text() };
};

it("redocly lint finds no error in openapi.json", async () => {
  const text = await (await fetch(`${lab.service.url}/openapi.json`)).text();
  const folder = mkdtempSync(join(tmpdir(), "purser-openapi-"));
  const file = join(folder, "openapi.json");
  writeFileSync(file, text);
  const env = { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" };
  const args = [REDOCLY, "lint", file, "--format", "json"];
  const { stdout } = await promisify(execFile)(process.execPath, args, { env });
  rmSync(folder, { recursive: true });
  expect(JSON.parse(stdout.slice(stdout.indexOf("{"))).totals).toMatchObject({ errors: 0, warnings: 0 });
});

it("the document declares 400 for each operation that can have invalid input: a body, a query or an Idempotency-Key", async () => {
  interface Told {
    operationId: string;
    parameters?: { name: string; in: string }[];
    requestBody?: object;
    responses: Record<string, unknown>;
  }
  const { paths } = (await (await fetch(`${lab.service.url}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, Told>>;
  };
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods));
  const callable = operations.filter(
    ({ parameters = [], requestBody }) =>
      requestBody !== undefined || parameters.some((each) => each.in === "query" || each.name === "Idempotency-Key"),
  );
  expect(callable.length).toBeGreaterThan(80);
  expect(callable.filter(({ responses }) => !("400" in responses)).map((each) => each.operationId)).toEqual([]);
});

const messages = [{ role: "user", content: "hello" }];
const parameters = { type: "object", properties: { city: { type: "string" } } };
const STREAMS = [
  ["/api/v1/chat/completions", { model: "lab/plain", messages }],
  ["/api/v1/chat/completions", { model: "lab/plain", messages, stream_options: { include_usage: true } }],
  ["/api/v1/chat/completions", { model: "agent/{id}", messages }],
  ["/api/v1/agents/{id}/chat", { messages, thread_id: "one" }],
  [
    "/api/v1/responses",
    { model: "lab/plain", input: "hello", tools: [{ type: "function", name: "weather", parameters }] },
  ],
  ["/api/v1/responses", { model: "lab/plain", input: "hello", tools: [{ type: "custom", name: "weather" }] }],
  ["/api/v1/messages", { model: "lab/plain", max_tokens: 100, messages }],
] as const;
const thinking: Reply = (response) => {
  const chunk = (fields: object) =>
    `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, finish_reason: null, ...fields }] })}\n\n`;
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(chunk({ delta: { role: "assistant", reasoning_content: "Let me see." } }));
  response.end(
    `${chunk({ delta: { content: "Yes." } })}${chunk({ delta: {}, finish_reason: "stop" })}data: [DONE]\n\n`,
  );
};
const ANSWERS = {
  "a text": completion(),
  "an answer cut off by its limit": ended("hel", "length"),
  reasoning: thinking,
  "a call of a tool": calling("weather", { city: "Oslo", input: "x" }),
  "a stream that breaks off": cut(delta("hel")),
} as const;

it.each(Object.entries(ANSWERS))("every event of every streamed endpoint is as declared: %s", async (_, reply) => {
  const { faultOf } = createDeclared(await (await fetch(`${lab.service.url}/openapi.json`)).json());
  for (const [path, body] of STREAMS) {
    // An agent without tools continues after a call. A second answer ends its run.
    lab.upstream.answer(reply, completion());
    const filled = JSON.parse(JSON.stringify({ ...body, stream: true }).replace("{id}", agent));
    const { status, type, text } = await post(path.replace("{id}", agent), filled);
    expect(faultOf({ method: "post", path, status }, type, text), `${path} ${JSON.stringify(body)}`).toBeNull();
    if (status === 200) expect(dataOf(text).length).toBeGreaterThan(1);
  }
});

it("the document declares 409 for each change of overage that a past-due subscription does not allow", async () => {
  const { paths } = await readDocument(lab.service.url);
  for (const operation of [paths["/api/v1/billing/overage"]?.put, paths["/api/v1/billing/overage/enable"]?.post]) {
    expect(operation?.responses).toHaveProperty("409");
  }
});

it.each([{}, { "anthropic-version": "2023-06-01" }])(
  "a single model is as declared with the headers %o",
  async (shape) => {
    const { faultOf } = createDeclared(await (await fetch(`${lab.service.url}/openapi.json`)).json());
    const headers = { Authorization: `Bearer ${user.key}`, ...shape };
    const response = await fetch(`${lab.service.url}/api/v1/models/lab%2Fplain`, { headers });
    const place = { method: "get", path: "/api/v1/models/{model}", status: response.status };
    const type = response.headers.get("content-type") ?? "";
    expect(faultOf(place, type, await response.text())).toBeNull();
  },
);

it("every event of a run is as declared", async () => {
  lab.upstream.answer(completion());
  const { faultOf } = createDeclared(await (await fetch(`${lab.service.url}/openapi.json`)).json());
  const { id } = (await user.post(`/api/v1/agents/${agent}/runs`, undefined, { Prefer: "wait=30" })).body;
  const headers = { Authorization: `Bearer ${user.key}` };
  const response = await fetch(`${lab.service.url}/api/v1/agents/${agent}/runs/${id}/events`, { headers });
  const text = await response.text();
  const place = { method: "get", path: "/api/v1/agents/{id}/runs/{run_id}/events", status: response.status };
  expect(faultOf(place, response.headers.get("content-type") ?? "", text)).toBeNull();
  expect(dataOf(text).length).toBeGreaterThanOrEqual(5);
});
