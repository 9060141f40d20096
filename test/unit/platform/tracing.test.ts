import { describe, expect, test } from "vitest";
import { readTracing } from "../../../src/config/tracing.ts";
import { ConfigError } from "../../../src/config/values.ts";
import { sqlOver } from "../../../src/platform/db/sql-connection.ts";
import {
  activeSpan,
  bound,
  errorType,
  getParent,
  type SpanStart,
  traced,
  unrecorded,
  within,
} from "../../../src/platform/telemetry/tracing.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN = "00f067aa0ba902b7";
const ENDPOINT = "http://127.0.0.1:4318";

test.each([
  ["absent", undefined],
  ["of zeros", `00-${"0".repeat(32)}-${SPAN}-01`],
  ["with a span of zeros", `00-${TRACE}-${"0".repeat(16)}-01`],
  ["of the invalid version ff", `ff-${TRACE}-${SPAN}-01`],
  ["in upper case", `00-${TRACE.toUpperCase()}-${SPAN}-01`],
  ["too short", `00-${TRACE}-01`],
])("a traceparent that is %s is ignored", (_, header) => {
  expect(getParent(header)).toBeNull();
});

test("a traceparent has the trace, the parent and the sampling flag", () => {
  expect(getParent(`00-${TRACE}-${SPAN}-01`)).toEqual({ trace_id: TRACE, span_id: SPAN, is_sampled: true });
  expect(getParent(`00-${TRACE}-${SPAN}-00`)).toMatchObject({ is_sampled: false });
});

test("an error in a span is its code or its kind, never its message", () => {
  expect(errorType(Object.assign(new Error("sk-secret"), { code: "upstream_error" }))).toBe("upstream_error");
  expect(errorType(new TypeError("the caller wrote this"))).toBe("TypeError");
  expect(errorType(Object.assign(new Error("x"), { code: "two words", name: "also two" }))).toBe("_OTHER");
});

test("without a trace, an operation runs without a span, and its start is not computed", async () => {
  const start = () => {
    throw new Error("computed");
  };
  expect(await traced(start, async () => 1)).toBe(1);
  expect(await within(unrecorded(TRACE), () => traced(start, async () => 2))).toBe(2);
});

test.each([
  ["select a from agent where b is not distinct from $1 for update", "select agent"],
  ["insert into thread (a) values ($1) on conflict (a) do update set a = $1", "insert thread"],
  ["update users set email = $2 where id = $1", "update users"],
  ["update payment set a = $1 where id in (select id from bucket for update skip locked)", "update payment"],
  ["delete from session where id = $1", "delete session"],
  ["select pg_notify($1, $2)", "select"],
])("the span of %s has its verb and its table", async (text, name) => {
  const names: string[] = [];
  const begin = (start: SpanStart) => {
    names.push(start.name);
    return unrecorded(TRACE);
  };
  const span = { ...unrecorded(TRACE), is_recorded: true, begin };
  await within(span, () => sqlOver(async () => []).query({ text }));
  expect(names).toEqual([name]);
});

test("a callback keeps the span in which it was bound", () => {
  const span = unrecorded(TRACE);
  const callback = within(span, () => bound(activeSpan));
  expect(activeSpan()).toBeNull();
  expect(callback()).toBe(span);
  expect(within(span, () => within(null, activeSpan))).toBeNull();
});

describe("the settings of traces", () => {
  test("are null without an endpoint or with OTEL_SDK_DISABLED", () => {
    expect(readTracing({})).toBeNull();
    expect(readTracing({ OTEL_EXPORTER_OTLP_ENDPOINT: ENDPOINT, OTEL_SDK_DISABLED: "true" })).toBeNull();
  });

  test("add the path to the general endpoint, but not to that of traces", () => {
    expect(readTracing({ OTEL_EXPORTER_OTLP_ENDPOINT: `${ENDPOINT}/` })).toEqual({
      url: `${ENDPOINT}/v1/traces`,
      sampler: "parentbased_always_on",
      ratio: 1,
      headers: {},
      timeout_ms: 10_000,
      resource: {},
    });
    const url = `${ENDPOINT}/other`;
    expect(readTracing({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: url })).toMatchObject({ url });
  });

  test("read headers and attributes as lists with percent-encoded values", () => {
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: ENDPOINT,
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20abc=, x-team = a",
      OTEL_RESOURCE_ATTRIBUTES: "deployment.environment=test,service.name=other",
      OTEL_SERVICE_NAME: "mine",
    };
    expect(readTracing(env)).toMatchObject({
      headers: { authorization: "Bearer abc=", "x-team": "a" },
      resource: { "deployment.environment": "test", "service.name": "mine" },
    });
  });

  test.each([
    ["OTEL_EXPORTER_OTLP_HEADERS", "sk-a-key-alone"],
    ["OTEL_EXPORTER_OTLP_TIMEOUT", "soon"],
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"],
    ["OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"],
    ["OTEL_TRACES_SAMPLER", "sometimes"],
    ["OTEL_TRACES_SAMPLER_ARG", "2"],
  ])("%s=%s is rejected by its name", (variable, value) => {
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: ENDPOINT, [variable]: value };
    expect(() => readTracing(env)).toThrow(ConfigError);
    expect(() => readTracing(env)).toThrow(variable);
  });
});
