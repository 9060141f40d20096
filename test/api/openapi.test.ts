import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
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

describe("the examples of the document", () => {
  const JSON_TYPE = "application/json";

  it("are there for each JSON body and each answer that succeeded, and conform to their schemas", async () => {
    const document = await readDocument(lab.service.url);
    const { faultIn } = createDeclared(document);
    const faults: unknown[] = [];
    let count = 0;
    const check = (keys: string[], media: { example?: unknown } | undefined) => {
      if (media === undefined) return;
      count += 1;
      const fault = media.example === undefined ? "no example" : faultIn([...keys, JSON_TYPE, "schema"], media.example);
      if (fault !== null) faults.push([keys.join(" "), fault]);
    };
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const [method, { requestBody, responses }] of Object.entries(methods)) {
        const place = ["paths", path, method];
        check([...place, "requestBody", "content"], requestBody?.content[JSON_TYPE]);
        for (const [status, { content }] of Object.entries(responses)) {
          if (status.startsWith("2")) check([...place, "responses", status, "content"], content?.[JSON_TYPE]);
        }
      }
    }
    for (const [type, { post }] of Object.entries(document.webhooks)) {
      check(["webhooks", type, "post", "requestBody", "content"], post.requestBody?.content[JSON_TYPE]);
    }
    expect(faults).toEqual([]);
    expect(count).toBeGreaterThan(180);
  });

  it("of requests are accepted by the service, where the path names nothing that must be there before", async () => {
    const { paths } = await readDocument(lab.service.url);
    const answers: [string, number, unknown][] = [];
    for (const [path, { post: operation }] of Object.entries(paths)) {
      const example = operation?.requestBody?.content[JSON_TYPE]?.example;
      const caller = path.startsWith("/api/v1/admin/") ? lab.service.admin : user;
      if (example === undefined || path.includes("{") || path.startsWith("/api/v1/auth/")) continue;
      const { status, body } = await caller.post(path, example);
      answers.push([operation?.operationId ?? "", status, body?.error]);
    }
    expect(answers.filter(([, status]) => [400, 413, 415, 422, 500].includes(status))).toEqual([]);
    expect(answers.length).toBeGreaterThan(15);
  });
});

it("each section of the document has a description, and each operation is in one of them", async () => {
  const { tags, paths } = await readDocument(lab.service.url);
  const used = Object.values(paths).flatMap((methods) => Object.values(methods).flatMap((each) => each.tags));
  expect(tags.map(({ name }) => name).toSorted()).toEqual([...new Set(used)].toSorted());
  expect(tags.filter(({ description }) => description === "")).toEqual([]);
});

it("a 401, a 429 and a success have the headers that the document declares", async () => {
  const { paths } = await readDocument(lab.service.url);
  const declared = paths["/api/v1/users/me"]?.get?.responses ?? {};
  const answer = await user.get("/api/v1/users/me");
  const refused = await fetch(`${lab.service.url}/api/v1/users/me`);
  for (const name of Object.keys(declared[200]?.headers ?? {})) expect(answer.headers.get(name), name).not.toBeNull();
  for (const name of Object.keys(declared[401]?.headers ?? {})) expect(refused.headers.get(name), name).not.toBeNull();
  expect(Object.keys(declared[429]?.headers ?? {})).toEqual([
    "X-Request-Id",
    "RateLimit",
    "RateLimit-Policy",
    "Retry-After",
  ]);
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
