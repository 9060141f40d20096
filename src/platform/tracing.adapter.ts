import { ROOT_CONTEXT, type Span as SdkSpan, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import {
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceNameEnvDetector,
} from "@opentelemetry/resources";
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
import type { Log } from "./log.ts";
import { RELEASE } from "./release.ts";
import { parentOf, type Span, type SpanStart, type Tracer, type TracingSettings, unrecorded } from "./tracing.ts";

/** Spans that wait for the collector. Later ones are dropped. */
const MOST_WAITING = 8_192;
/** Timeout for the last spans at a shutdown. */
const CLOSE_MS = 3_000;
const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL } as const;

const SAMPLER_OF: Record<TracingSettings["sampler"], (ratio: number) => Sampler> = {
  always_on: () => new AlwaysOnSampler(),
  always_off: () => new AlwaysOffSampler(),
  traceidratio: (ratio) => new TraceIdRatioBasedSampler(ratio),
  parentbased_always_on: () => new ParentBasedSampler({ root: new AlwaysOnSampler() }),
  parentbased_always_off: () => new ParentBasedSampler({ root: new AlwaysOffSampler() }),
  parentbased_traceidratio: (ratio) => new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) }),
};

/**
 * Sends spans to an OpenTelemetry collector, as JSON over HTTP. The library reads OTEL_EXPORTER_OTLP_HEADERS,
 * OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES from the environment.
 */
export function createTracer(settings: TracingSettings, { log, role }: { log: Log; role: string }): Tracer {
  let wanted_trace_id: string | null = null;
  const random = new RandomIdGenerator();
  const fixed = resourceFromAttributes({ "service.name": "purser", "service.version": RELEASE, "purser.role": role });
  const detectors = [resourceAttributesEnvDetector, serviceNameEnvDetector];
  const provider = new TracerProvider({
    resource: fixed.merge(detectResources({ detectors })),
    sampler: SAMPLER_OF[settings.sampler](settings.ratio),
    idGenerator: {
      generateTraceId: () => wanted_trace_id ?? random.generateTraceId(),
      generateSpanId: () => random.generateSpanId(),
    },
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: reporting(new OTLPTraceExporter({ url: settings.url }), log),
        maxQueueSize: MOST_WAITING,
      }),
    ],
  });
  const tracer = provider.getTracer("purser", RELEASE);

  function started({ name, kind, attributes }: SpanStart, context = ROOT_CONTEXT): Span {
    return spanOf(tracer.startSpan(name, { kind: KINDS[kind], attributes }, context));
  }
  function spanOf(span: SdkSpan): Span {
    const { traceId, spanId, traceFlags } = span.spanContext();
    const traceparent = `00-${traceId}-${spanId}-0${traceFlags & 1}`;
    // Its operations are not recorded either, with every sampler.
    if (!span.isRecording()) return unrecorded(traceId, traceparent);
    return {
      trace_id: traceId,
      traceparent,
      is_recorded: true,
      begin: (start) => started(start, trace.setSpan(ROOT_CONTEXT, span)),
      set: (attributes) => void span.setAttributes(attributes),
      rename: (name) => void span.updateName(name),
      end(error) {
        if (!span.isRecording()) return;
        if (error !== undefined) span.setAttribute("error.type", error).setStatus({ code: SpanStatusCode.ERROR });
        span.end();
      },
    };
  }
  return {
    begin(start, { traceparent, trace_id }) {
      const parent = parentOf(traceparent);
      if (parent === null) {
        wanted_trace_id = trace_id ?? null;
        const span = started(start);
        wanted_trace_id = null;
        return span;
      }
      const remote = { traceId: parent.trace_id, spanId: parent.span_id, traceFlags: Number(parent.is_sampled) };
      return started(start, trace.setSpanContext(ROOT_CONTEXT, { ...remote, isRemote: true }));
    },
    async close() {
      const timeout = new Promise<void>((resolve) => setTimeout(resolve, CLOSE_MS).unref());
      await Promise.race([provider.shutdown().catch(() => {}), timeout]);
    },
  };
}

/** Logs the first export that fails, and the first that succeeds after it. */
function reporting(exporter: SpanExporter, log: Log): SpanExporter {
  let is_failing = false;
  return {
    export(spans, answer) {
      exporter.export(spans, (result) => {
        const has_failed = result.code !== 0;
        if (has_failed !== is_failing) {
          is_failing = has_failed;
          if (has_failed) log.warn({ error: result.error }, "traces cannot be sent: check OTEL_EXPORTER_OTLP_ENDPOINT");
          else log.info("traces are sent again");
        }
        // The processor would report a failure to a global handler.
        answer({ code: 0 });
      });
    },
    shutdown: () => exporter.shutdown(),
  };
}
