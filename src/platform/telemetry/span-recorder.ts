import { monotonicMs, realNowMs } from "../lib/clock.ts";
import { randomHex } from "../lib/ids.ts";
import { RELEASE } from "../lib/release.ts";
import type { Log } from "./log.ts";
import { encodeAttributes, encodeSpan, type FinishedSpan } from "./otlp.ts";
import { createSpanExport } from "./span-export.ts";
import { parentOf, type Span, type SpanStart, type Tracer, type TracingSettings, unrecorded } from "./tracing.ts";

/** Records spans, and sends them to an OpenTelemetry collector in batches, as JSON over HTTP. */
export function createTracer(settings: TracingSettings, { log, role }: { log: Log; role: string }): Tracer {
  const own = { "service.name": "purser", "service.version": RELEASE, "purser.role": role };
  const spans = createSpanExport({ ...settings, resource: { ...own, ...settings.resource }, log });
  const record = (finished: FinishedSpan) => spans.add(encodeSpan(finished));
  return {
    begin(start, { traceparent, trace_id: wanted }) {
      const parent = parentOf(traceparent);
      const trace_id = parent?.trace_id ?? wanted ?? randomHex(16);
      if (!isSampled(settings, trace_id, parent)) return unrecorded(trace_id, `00-${trace_id}-${randomHex(8)}-00`);
      // One reading of the system clock for each trace, so that a correction of it never reorders spans.
      const trace = { trace_id, epoch_ms: realNowMs() - monotonicMs(), record, prefix: randomHex(6), spans: 0 };
      return begin(trace, start, parent?.span_id ?? null);
    },
    close: () => spans.close(),
  };
}

/** OTEL_TRACES_SAMPLER. With a ratio, the trace id decides, so that all services record the same traces. */
export function isSampled(
  { sampler, ratio }: Pick<TracingSettings, "sampler" | "ratio">,
  trace_id: string,
  parent: { is_sampled: boolean } | null,
): boolean {
  if (parent !== null && sampler.startsWith("parentbased_")) return parent.is_sampled;
  if (sampler.endsWith("always_off")) return false;
  return sampler.endsWith("always_on") || Number.parseInt(trace_id.slice(-13), 16) < ratio * 2 ** 52;
}

interface Trace {
  trace_id: string;
  epoch_ms: number;
  record(finished: FinishedSpan): void;
  /** The start of its span ids. */
  prefix: string;
  spans: number;
}

const MOST_COUNTED = 0xffff;

function nextSpanId(trace: Trace): string {
  trace.spans += 1;
  return trace.spans > MOST_COUNTED ? randomHex(8) : trace.prefix + trace.spans.toString(16).padStart(4, "0");
}

function begin(trace: Trace, start: SpanStart, parent_id: string | null): Span {
  const { trace_id, epoch_ms } = trace;
  const span_id = nextSpanId(trace);
  const start_ms = epoch_ms + monotonicMs();
  const span: FinishedSpan = { trace_id, span_id, parent_id, start, start_ms, end_ms: 0, more: "", error: null };
  let is_open = true;
  return {
    trace_id,
    traceparent: `00-${trace_id}-${span_id}-01`,
    is_recorded: true,
    begin: (start) => begin(trace, start, span_id),
    set(more) {
      if (is_open) span.more += encodeAttributes(more);
    },
    describe(start) {
      span.start = start;
    },
    end(error) {
      if (!is_open) return;
      is_open = false;
      span.end_ms = epoch_ms + monotonicMs();
      span.error = error ?? null;
      trace.record(span);
    },
  };
}
