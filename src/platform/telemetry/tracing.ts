import { AsyncLocalStorage } from "node:async_hooks";

export type SpanAttributes = Readonly<Record<string, string | number | boolean | string[] | undefined>>;

/**
 * A span to begin. Its attributes contain ids, names on offer and figures, and no text of users or models.
 */
export interface SpanStart {
  name: string;
  kind: "server" | "client" | "internal";
  attributes: SpanAttributes;
}

/** One operation of a trace. */
export interface Span {
  readonly trace_id: string;
  /** The `traceparent` header of requests that belong to this span. Null: this node records no traces. */
  readonly traceparent: string | null;
  /** False: its operations need no spans of their own. */
  readonly is_recorded: boolean;
  begin(start: SpanStart): Span;
  /** Adds attributes. Each name may be set once. */
  set(attributes: SpanAttributes): void;
  /** Replaces the start, for spans whose name is known at their end. */
  describe(start: SpanStart): void;
  /** `error`: the code or the kind of the error, never its message. A second call does nothing. */
  end(error?: string): void;
}

/** Begins traces. `otel.ts` makes it if OTEL_EXPORTER_OTLP_ENDPOINT is set. */
export interface Tracer {
  /** The first span of this node in a trace: the caller's (`traceparent`), that of `trace_id`, or a new one. */
  begin(start: SpanStart, trace: { traceparent?: string | undefined; trace_id?: string }): Span;
  /** Sends the spans that are left. */
  close(): Promise<void>;
}

/** The `tracing` of the configuration. */
export interface TracingSettings {
  /** The address that spans are sent to. */
  url: string;
  sampler: (typeof SAMPLERS)[number];
  /** The share of the traces that are recorded, for samplers with `traceidratio`. */
  ratio: number;
  /** Headers of each export, such as a collector's key. */
  headers: Readonly<Record<string, string>>;
  timeout_ms: number;
  /** Attributes of this process. */
  resource: Readonly<Record<string, string>>;
}

/** Values of OTEL_TRACES_SAMPLER. */
export const SAMPLERS = [
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio",
  "always_on",
  "always_off",
  "traceidratio",
] as const;

/** W3C Trace Context. Ids of zeros only, and the version ff, are invalid. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;
const ERROR_TYPE = /^[\w.-]{1,64}$/;

/** The parts of a `traceparent` header; null if it is absent or invalid. */
export function getParent(traceparent: string | undefined) {
  if (traceparent === undefined) return null;
  const [, trace_id, span_id, flags] = TRACEPARENT.exec(traceparent) ?? [];
  if (trace_id === undefined || span_id === undefined || flags === undefined) return null;
  return { trace_id, span_id, is_sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/** A span that is not recorded. It gives its trace id to the log lines. */
export function unrecorded(trace_id: string, traceparent: string | null = null): Span {
  const span: Span = {
    trace_id,
    traceparent,
    is_recorded: false,
    begin: () => span,
    set() {},
    describe() {},
    end() {},
  };
  return span;
}

const NO_SPAN = unrecorded("");
const active = new AsyncLocalStorage<Span | null>();

/** The span of the current request or run; null outside of them, or if nothing is traced. */
export function activeSpan(): Span | null {
  return active.getStore() ?? null;
}

/** Runs `work` in `span`. Null: outside of any span, for work that several callers share. */
export function within<T>(span: Span | null, work: () => T): T {
  return activeSpan() === span ? work() : active.run(span, work);
}

/** `work` in the span that is active now, for callbacks that another part of the process calls. */
export function bound<T>(work: () => T): () => T {
  const span = activeSpan();
  return span === null ? work : () => active.run(span, work);
}

/** Runs `work` as an operation of the active span. Costs one look-up if nothing is traced. */
export function traced<T>(start: () => SpanStart, work: (span: Span) => Promise<T>): Promise<T> {
  const parent = active.getStore();
  if (parent == null || !parent.is_recorded) return work(NO_SPAN);
  return inSpan(parent.begin(start()), work);
}

/** `traced` for work without operations of its own. Entering a span costs as much as recording it. */
export function tracedAlone<T>(start: SpanStart, work: () => Promise<T>): Promise<T> {
  const parent = active.getStore();
  if (parent == null || !parent.is_recorded) return work();
  return ended(parent.begin(start), work());
}

/** Runs `work` in `span`, and ends it. */
export function inSpan<T>(span: Span, work: (span: Span) => Promise<T>): Promise<T> {
  return ended(
    span,
    active.run(span, () => work(span)),
  );
}

/** Ends the span when `done` settles, without delaying its readers. */
function ended<T>(span: Span, done: Promise<T>): Promise<T> {
  done.then(
    () => span.end(),
    (error: unknown) => span.end(errorType(error)),
  );
  return done;
}

/** The error's code or kind. Messages may quote what a user wrote. */
export function errorType(error: unknown): string {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown };
  return [code, name].find((text): text is string => typeof text === "string" && ERROR_TYPE.test(text)) ?? "_OTHER";
}
