import { afterAll, beforeAll, expect, test } from "vitest";
import { ask, expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import type { Client } from "../support/service.ts";
import { calling, completion, delta, events, json } from "../support/upstream.ts";

/** A span as OTLP's JSON has it. */
interface OtlpSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  status: { code: number };
  attributes: { key: string; value: Record<string, unknown> }[];
}

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT = "00f067aa0ba902b7";
const SERVER = 2;
/** Text of the caller and the model. No span may contain it. */
const PRIVATE = "marzipan-of-the-caller";
/** Text of the model instead of a tool's name. */
const MADE_UP = ["marzipan_of_the_model", "marzipan__of_the_model"];
const PRIVATE_URL = "/hook?private=marzipan";

let collector: Receiver;
let hook: Receiver;
let lab: Lab;
let user: Client;
let spans: OtlpSpan[];
let run: { id: string };
let confused: { id: string };
let agent_id: string;
let streamed_id: string;

const attributesOf = ({ attributes }: OtlpSpan) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
const tracedAs = (trace_id: string) => ({ traceparent: `00-${trace_id}-${PARENT}-01` });
const inTrace = (trace_id: string) => spans.filter(({ traceId }) => traceId === trace_id);
const traceOf = (digit: string) => digit.repeat(32);
const spanOf = (trace_id: string, name: string) => {
  const found = inTrace(trace_id).filter((span) => span.name === name);
  expect(
    found,
    inTrace(trace_id)
      .map((span) => span.name)
      .join(),
  ).toHaveLength(1);
  return found[0] as OtlpSpan;
};

/** Makes every call of this file, and stops the service, which sends its last spans. */
beforeAll(async () => {
  [collector, hook] = await Promise.all([startReceiver(), startReceiver()]);
  lab = await startLab(undefined, {
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, PURSER_EGRESS_ALLOW: hook.host },
  });
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const question = { messages: [{ role: "user", content: PRIVATE }] };
  lab.upstream.answer(completion(PRIVATE));
  await user.post("/api/v1/chat/completions", ask("lab/plain", question), tracedAs(TRACE));
  lab.upstream.answer(events(delta(PRIVATE), "data: [DONE]\n\n"));
  const streamed = await user.post(
    "/api/v1/chat/completions",
    ask("lab/plain", { stream: true }),
    tracedAs(traceOf("a")),
  );
  streamed_id = streamed.headers.get("x-request-id") as string;
  lab.upstream.answer(json({ error: { message: PRIVATE } }, 500));
  await user.post("/api/v1/chat/completions", ask("lab/plain"), tracedAs(traceOf("b")));
  await user.post("/api/v1/chat/completions", ask("lab/plain"), { traceparent: `00-${traceOf("c")}-${PARENT}-00` });

  const url = `${hook.url}${PRIVATE_URL}`;
  const tools_config = { send_webhook: { enabled: true, urls: [url] } };
  const fields = { name: PRIVATE, model_id: "lab/plain", run_prompt: PRIVATE, tools_config };
  agent_id = (await user.post("/api/v1/agents", fields)).body.id;
  const answers = [calling("send_webhook", { url, payload: PRIVATE }), completion(PRIVATE)];
  lab.upstream.answer(...answers);
  run = (await user.post(`/api/v1/agents/${agent_id}/runs`, undefined, { Prefer: "wait=30" })).body;
  lab.upstream.answer(...MADE_UP.map((name) => calling(name, {})), completion(PRIVATE));
  confused = (await user.post(`/api/v1/agents/${agent_id}/runs`, undefined, { Prefer: "wait=30" })).body;
  lab.upstream.answer(completion(PRIVATE));
  await user.post(`/api/v1/agents/${agent_id}/chat`, { ...question, thread_id: "harbour" }, tracedAs(traceOf("d")));
  await expectCleanAudit(lab.service);
  await lab.service.restart({ OTEL_EXPORTER_OTLP_ENDPOINT: "" });
  spans = collector.received.flatMap(({ body }) =>
    JSON.parse(body).resourceSpans.flatMap((resource: { scopeSpans: { spans: OtlpSpan[] }[] }) =>
      resource.scopeSpans.flatMap((scope) => scope.spans),
    ),
  );
});
afterAll(async () => {
  await lab.stop();
  await collector.close();
  await hook.close();
});

test("a model call is a trace: the caller's span, the request, the hold, the provider's call and the charge", () => {
  const request = spanOf(TRACE, "POST /api/v1/chat/completions");
  expect(request).toMatchObject({ kind: SERVER, parentSpanId: PARENT });
  expect(attributesOf(request)).toMatchObject({ "http.response.status_code": 200, "user.id": user.user_id });
  const chat = spanOf(TRACE, "chat plain");
  expect(chat.parentSpanId).toBe(request.spanId);
  expect(attributesOf(chat)).toMatchObject({
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "lab",
    "gen_ai.request.model": "plain",
    "gen_ai.response.model": "fake-large",
    "gen_ai.usage.input_tokens": 10,
    "gen_ai.usage.output_tokens": 4,
  });
  for (const name of ["hold", "settle"]) {
    expect(attributesOf(spanOf(TRACE, name))).toMatchObject({ "db.system.name": "postgresql" });
  }
});

test("the provider's request belongs to the span of the call", () => {
  const chat = spanOf(TRACE, "chat plain");
  const sent = lab.upstream.requests.map(({ headers }) => headers.traceparent);
  expect(sent).toContain(`00-${TRACE}-${chat.spanId}-01`);
});

test("a stream's spans end with the stream, with its tokens and its charge", () => {
  const request = spanOf(traceOf("a"), "POST /api/v1/chat/completions");
  expect(attributesOf(request)).toMatchObject({ "purser.request_id": streamed_id });
  expect(attributesOf(spanOf(traceOf("a"), "chat plain"))).toMatchObject({
    "gen_ai.response.model": "fake-large",
    "gen_ai.usage.output_tokens": expect.any(Number),
  });
  spanOf(traceOf("a"), "settle");
});

test("a failed call has the error's code in its spans", () => {
  for (const name of ["chat plain", "POST /api/v1/chat/completions"]) {
    const span = spanOf(traceOf("b"), name);
    expect(span.status.code).toBe(2);
    expect(attributesOf(span)).toMatchObject({ "error.type": "upstream_error" });
  }
});

test("a run is a trace whose id is the run's, with its agent, its model calls and its tools", () => {
  const trace_id = run.id.replaceAll("-", "");
  const invoked = spanOf(trace_id, "invoke_agent");
  expect(attributesOf(invoked)).toMatchObject({
    "gen_ai.operation.name": "invoke_agent",
    "purser.agent.id": agent_id,
    "purser.run.id": run.id,
    "purser.run.status": "succeeded",
  });
  const tool = spanOf(trace_id, "execute_tool send_webhook");
  expect(tool.parentSpanId).toBe(invoked.spanId);
  expect(attributesOf(tool)).toMatchObject({
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.call.id": "call_1",
  });
  const chats = inTrace(trace_id).filter(({ name }) => name === "chat plain");
  expect(chats.map(({ parentSpanId }) => parentSpanId)).toEqual([invoked.spanId, invoked.spanId]);
});

test("a tool call with an invented name is a span without this name", () => {
  const called = inTrace(confused.id.replaceAll("-", "")).filter(({ name }) => name.startsWith("execute_tool"));
  expect(called.map(({ name }) => name)).toEqual(["execute_tool unknown", "execute_tool mcp"]);
  expect(called.map((span) => attributesOf(span)["gen_ai.tool.name"])).toEqual(["unknown", "mcp"]);
});

test("a chat with an agent belongs to the trace of its request", () => {
  const request = spanOf(traceOf("d"), "POST /api/v1/agents/{id}/chat");
  const invoked = spanOf(traceOf("d"), "invoke_agent");
  expect(invoked.parentSpanId).toBe(request.spanId);
  expect(attributesOf(invoked)).toMatchObject({ "gen_ai.conversation.id": "harbour" });
  expect(spanOf(traceOf("d"), "chat plain").parentSpanId).toBe(invoked.spanId);
});

test("a trace that the caller does not sample is not sent", () => {
  expect(inTrace(traceOf("c"))).toEqual([]);
});

test("no span has text of a user or a model, and no webhook gets a trace id", () => {
  expect(spans.length).toBeGreaterThan(20);
  expect(JSON.stringify(spans)).not.toContain("marzipan");
  expect(hook.received).toHaveLength(1);
  expect(hook.received[0]?.headers).not.toHaveProperty("traceparent");
});
