import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { createLog } from "../../../src/platform/telemetry/log.ts";
import { encodeAttributes, encodeSpan, type FinishedSpan } from "../../../src/platform/telemetry/otlp.ts";
import { createSpanExport } from "../../../src/platform/telemetry/span-export.ts";
import { isSampled } from "../../../src/platform/telemetry/span-recorder.ts";
import type { SAMPLERS } from "../../../src/platform/telemetry/tracing.ts";

const LOW = "4bf92f3577b34da6a0000000000000ff";
const HIGH = "4bf92f3577b34da6afffffffffffffff";
const SPAN: FinishedSpan = {
  trace_id: LOW,
  span_id: "00f067aa0ba902b7",
  parent_id: null,
  start_ms: 1_790_000_000_000,
  end_ms: 1_790_000_000_001.5,
  more: "",
  error: null,
  start: {
    name: 'chat "x"',
    kind: "client",
    attributes: { "gen_ai.request.model": 'a"\\\u2028ä', count: 3, share: 0.5, is_stream: true, none: undefined },
  },
};

test.each<[(typeof SAMPLERS)[number], string, boolean | null, boolean]>([
  ["parentbased_always_on", LOW, null, true],
  ["parentbased_always_on", LOW, false, false],
  ["parentbased_always_off", LOW, true, true],
  ["parentbased_traceidratio", LOW, null, true],
  ["parentbased_traceidratio", HIGH, null, false],
  ["parentbased_traceidratio", HIGH, true, true],
  ["traceidratio", HIGH, true, false],
  ["traceidratio", LOW, false, true],
  ["always_on", HIGH, false, true],
  ["always_off", LOW, true, false],
])("%s with a tenth, trace %s, parent sampled %s: %s", (sampler, trace_id, parent, expected) => {
  expect(isSampled({ sampler, ratio: 0.1 }, trace_id, parent === null ? null : { is_sampled: parent })).toBe(expected);
});

test("a span is valid OTLP JSON, with any characters in its names", () => {
  const span = JSON.parse(
    encodeSpan({ ...SPAN, parent_id: "1".repeat(16), error: "timeout", more: encodeAttributes({ late: ["a", "b"] }) }),
  );
  expect(span).toEqual({
    traceId: LOW,
    spanId: SPAN.span_id,
    parentSpanId: "1".repeat(16),
    name: SPAN.start.name,
    kind: 3,
    startTimeUnixNano: "1790000000000000000",
    endTimeUnixNano: "1790000000001500000",
    status: { code: 2 },
    attributes: [
      { key: "gen_ai.request.model", value: { stringValue: 'a"\\\u2028ä' } },
      { key: "count", value: { intValue: 3 } },
      { key: "share", value: { doubleValue: 0.5 } },
      { key: "is_stream", value: { boolValue: true } },
      { key: "late", value: { arrayValue: { values: [{ stringValue: "a" }, { stringValue: "b" }] } } },
      { key: "error.type", value: { stringValue: "timeout" } },
    ],
  });
});

test("a span can have no attributes, or only some that were set after its start", () => {
  const start = { ...SPAN.start, attributes: {} };
  const late = (more: string, error: string | null = null) =>
    JSON.parse(encodeSpan({ ...SPAN, start, more, error })).attributes.map(({ key }: { key: string }) => key);
  expect(late("")).toEqual([]);
  expect(late(encodeAttributes({ a: 1, b: 2 }))).toEqual(["a", "b"]);
  expect(late("", "timeout")).toEqual(["error.type"]);
});

test("times keep their microseconds with all zeros", () => {
  const { startTimeUnixNano, endTimeUnixNano } = JSON.parse(
    encodeSpan({ ...SPAN, start_ms: 1_790_000_000_999.9375, end_ms: 1_790_000_001_000.0625 }),
  );
  expect([startTimeUnixNano, endTimeUnixNano]).toEqual(["1790000000999937000", "1790000001000062000"]);
});

test("only safe integers are integers, and a number that JSON does not have is omitted", () => {
  const numbers = {
    safe: 2 ** 53 - 1,
    unsafe: 2 ** 53,
    huge: 1e21,
    none: Number.NaN,
    endless: Number.POSITIVE_INFINITY,
  };
  const more = encodeAttributes({ late: Number.NEGATIVE_INFINITY });
  const span = JSON.parse(encodeSpan({ ...SPAN, start: { ...SPAN.start, attributes: numbers }, more }));
  expect(span.attributes).toEqual([
    { key: "safe", value: { intValue: 2 ** 53 - 1 } },
    { key: "unsafe", value: { doubleValue: 2 ** 53 } },
    { key: "huge", value: { doubleValue: 1e21 } },
  ]);
});

test("a collector that fails has one log line, and one when it accepts spans again; no accepted span is lost or repeated", async () => {
  const [received, logged]: [string[], string[]] = [[], []];
  const statuses = [400, 400, 200];
  const server = createServer(async (request, response) => {
    const body = await text(request);
    response.statusCode = statuses.shift() ?? 200;
    if (response.statusCode === 200) received.push(...JSON.parse(body).resourceSpans[0].scopeSpans[0].spans);
    response.end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const log = createLog("info", null, { write: (line) => void logged.push(JSON.parse(line).msg) });
  const spans = createSpanExport({ url, headers: {}, timeout_ms: 5_000, resource: {}, log });
  // A batch is full after 17 spans.
  const add = (nth: number) => spans.add(JSON.stringify({ nth, padding: "x".repeat(16_000) }));
  for (let nth = 0; nth < 17 * 4; nth += 1) add(nth);
  await spans.close();
  server.close();
  expect(received.map((span) => (span as unknown as { nth: number }).nth)).toEqual(
    Array.from({ length: 17 * 2 }, (_, nth) => nth + 17 * 2),
  );
  expect(logged).toEqual(["traces cannot be sent: check OTEL_EXPORTER_OTLP_ENDPOINT", "traces are sent again"]);
});
