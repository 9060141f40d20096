import { setTimeout as delay } from "node:timers/promises";
import { type Context, type Span as OtelSpan, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  RandomIdGenerator,
  type Sampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import { RELEASE } from "../lib/release.ts";
import type { Log } from "./log.ts";
import { getParent, type Span, type SpanStart, type Tracer, type TracingSettings } from "./tracing.ts";

const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL };
const SAMPLED = 1;
/** Timeout for the last spans at a shutdown. */
const CLOSE_MS = 3_000;

/** Records spans with OpenTelemetry's SDK, and sends them to a collector. Loaded only where an endpoint is set. */
export function createTracer(settings: TracingSettings, { log, role }: { log: Log; role: string }): Tracer {
  const { url, headers, timeout_ms, resource } = settings;
  const ids = createIds();
  const exporter = withLog(new OTLPTraceExporter({ url, headers: { ...headers }, timeoutMillis: timeout_ms }), log);
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      "service.name": "purser",
      "service.version": RELEASE,
      "purser.role": role,
      ...resource,
    }),
    sampler: createSampler(settings),
    idGenerator: ids,
    spanProcessors: [new BatchSpanProcessor({ exporter })],
  });
  const tracer = provider.getTracer("purser", RELEASE);

  function begin({ name, kind, attributes }: SpanStart, context: Context): Span {
    const span = tracer.startSpan(name, { kind: KINDS[kind], attributes: { ...attributes } }, context);
    return spanOver(span, (start) => begin(start, trace.setSpan(ROOT_CONTEXT, span)));
  }

  return {
    begin(start, { traceparent, trace_id }) {
      const parent = getParent(traceparent);
      if (parent === null) return ids.withTraceId(trace_id, () => begin(start, ROOT_CONTEXT));
      const { is_sampled, span_id } = parent;
      const caller = {
        traceId: parent.trace_id,
        spanId: span_id,
        traceFlags: is_sampled ? SAMPLED : 0,
        isRemote: true,
      };
      return begin(start, trace.setSpanContext(ROOT_CONTEXT, caller));
    },
    async close() {
      const closed = provider.shutdown().catch(() => {});
      await Promise.race([closed, delay(CLOSE_MS, undefined, { ref: false })]);
    },
  };
}

function spanOver(span: OtelSpan, begin: (start: SpanStart) => Span): Span {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return {
    trace_id: traceId,
    traceparent: `00-${traceId}-${spanId}-0${traceFlags}`,
    is_recorded: span.isRecording(),
    begin,
    set: (attributes) => void span.setAttributes({ ...attributes }),
    describe: ({ name, attributes }) => void span.updateName(name).setAttributes({ ...attributes }),
    end(error) {
      if (error !== undefined) span.setAttribute("error.type", error).setStatus({ code: SpanStatusCode.ERROR });
      span.end();
    },
  };
}

/** OTEL_TRACES_SAMPLER. */
export function createSampler({ sampler, ratio }: Pick<TracingSettings, "sampler" | "ratio">): Sampler {
  const root = sampler.endsWith("always_off")
    ? new AlwaysOffSampler()
    : sampler.endsWith("always_on")
      ? new AlwaysOnSampler()
      : new TraceIdRatioBasedSampler(ratio);
  return sampler.startsWith("parentbased_") ? new ParentBasedSampler({ root }) : root;
}

/** Random ids, except where a run begins the trace that its request has told. */
function createIds() {
  const random = new RandomIdGenerator();
  let wanted: string | undefined;
  return {
    generateTraceId: () => wanted ?? random.generateTraceId(),
    generateSpanId: () => random.generateSpanId(),
    withTraceId(trace_id: string | undefined, work: () => Span): Span {
      wanted = trace_id;
      try {
        return work();
      } finally {
        wanted = undefined;
      }
    },
  };
}

/** Logs the first failure of the exporter, and the first success after it. */
function withLog(exporter: OTLPTraceExporter, log: Log): SpanExporter {
  let is_failing = false;
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        const { error } = result;
        if ((error !== undefined) !== is_failing) {
          is_failing = !is_failing;
          if (is_failing) log.warn({ error }, "traces cannot be sent: check OTEL_EXPORTER_OTLP_ENDPOINT");
          else log.info("traces are sent again");
        }
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: () => exporter.forceFlush(),
  };
}
