import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { ROOT_CONTEXT, SpanKind, trace } from "@opentelemetry/api";
import { SamplingDecision } from "@opentelemetry/sdk-trace";
import { expect, test } from "vitest";
import { createLog } from "../../../src/platform/telemetry/log.ts";
import { createSampler, createTracer } from "../../../src/platform/telemetry/otel.ts";
import type { SAMPLERS } from "../../../src/platform/telemetry/tracing.ts";

const TRACE = "4bf92f3577b34da6a000000000000fff";

test.each<[(typeof SAMPLERS)[number], ratio: number, parent: boolean | null, expected: boolean]>([
  ["parentbased_always_on", 1, null, true],
  ["parentbased_always_on", 1, false, false],
  ["parentbased_always_off", 1, true, true],
  ["parentbased_always_off", 1, null, false],
  ["parentbased_traceidratio", 0, null, false],
  ["parentbased_traceidratio", 1, null, true],
  ["parentbased_traceidratio", 0, true, true],
  ["traceidratio", 0, true, false],
  ["traceidratio", 1, false, true],
  ["always_on", 1, false, true],
  ["always_off", 1, true, false],
])(
  "the sampler %s with the share %s records a trace whose caller recorded it (%s): %s",
  (sampler, ratio, parent, expected) => {
    const caller = { traceId: TRACE, spanId: "1".repeat(16), traceFlags: parent === true ? 1 : 0, isRemote: true };
    const context = parent === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, caller);
    const { decision } = createSampler({ sampler, ratio }).shouldSample(context, TRACE, "a", SpanKind.SERVER, {}, []);
    expect(decision === SamplingDecision.RECORD_AND_SAMPLED).toBe(expected);
  },
);

test("a collector that is away delays nothing, has one log line, and gets the spans that are left at the end", async () => {
  const [received, logged]: [string[], string[]] = [[], []];
  const server = createServer(async (request, response) => {
    received.push(await text(request));
    response.end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const log = createLog("info", null, { write: (line) => void logged.push(JSON.parse(line).msg) });
  const settings = { sampler: "always_on", ratio: 1, headers: {}, timeout_ms: 1_000, resource: {} } as const;
  const start = { name: "work", kind: "internal", attributes: { count: 3, none: undefined } } as const;
  const reached = createTracer({ ...settings, url: `http://127.0.0.1:${port}` }, { log, role: "all" });
  const span = reached.begin(start, { trace_id: TRACE });
  span.begin(start).end("timeout");
  span.end();
  await reached.close();
  server.close();
  const [{ resource, scopeSpans }] = JSON.parse(received.join("")).resourceSpans;
  expect(resource.attributes).toContainEqual({ key: "purser.role", value: { stringValue: "all" } });
  expect(scopeSpans[0].spans).toMatchObject([
    { traceId: TRACE, parentSpanId: expect.any(String), kind: 1, status: { code: 2 } },
    { traceId: TRACE, name: "work", attributes: [{ key: "count", value: { intValue: 3 } }] },
  ]);
  const away = createTracer({ ...settings, url: "http://127.0.0.1:9" }, { log, role: "all" });
  away.begin(start, {}).end();
  await away.close();
  expect(logged).toEqual(["traces cannot be sent: check OTEL_EXPORTER_OTLP_ENDPOINT"]);
});
