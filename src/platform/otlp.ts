import type { SpanAttributes, SpanStart } from "./tracing.ts";

/** A span that has ended. Times are milliseconds since 1970. */
export interface FinishedSpan extends SpanStart {
  trace_id: string;
  span_id: string;
  /** Null: the first span of its trace. */
  parent_id: string | null;
  start_ms: number;
  end_ms: number;
  /** Attributes that were set after the start. */
  more: SpanAttributes | null;
  /** The code or the kind of the error. */
  error: string | null;
}

/** The numbers of OTLP's SpanKind and StatusCode. */
const KINDS = { internal: 1, server: 2, client: 3 } as const;
const FAILED = 2;

/**
 * OpenTelemetry's protocol in JSON (opentelemetry.io/docs/specs/otlp). The text is put together here, because objects
 * for JSON.stringify would cost three times as much.
 */
export function encodeSpan(span: FinishedSpan): string {
  const { trace_id, span_id, parent_id, name, kind, more, error } = span;
  const parent = parent_id === null ? "" : `"parentSpanId":"${parent_id}",`;
  let attributes = encodedStart(span.attributes);
  if (more !== null) attributes = listed(attributes, encodedAttributes(more));
  if (error !== null) attributes = listed(attributes, encodedAttribute("error.type", error));
  const times = `"startTimeUnixNano":"${nanosOf(span.start_ms)}","endTimeUnixNano":"${nanosOf(span.end_ms)}"`;
  const status = error === null ? "{}" : `{"code":${FAILED}}`;
  return `{"traceId":"${trace_id}","spanId":"${span_id}",${parent}"name":${JSON.stringify(name)},"kind":${KINDS[kind]},${times},"attributes":[${attributes}],"status":${status}}`;
}

/** The text before and after the spans of an export. */
export function envelopeOf(resource: SpanAttributes, version: string): { head: string; tail: string } {
  const scope = JSON.stringify({ name: "purser", version });
  const head = `{"resourceSpans":[{"resource":{"attributes":[${encodedAttributes(resource)}]},"scopeSpans":[{"scope":${scope},"spans":[`;
  return { head, tail: "]}]}]}" };
}

/** Most spans begin with attributes that are constants of the code or of a model. */
const encoded_starts = new WeakMap<SpanAttributes, string>();

function encodedStart(attributes: SpanAttributes): string {
  let text = encoded_starts.get(attributes);
  if (text === undefined) {
    text = encodedAttributes(attributes);
    encoded_starts.set(attributes, text);
  }
  return text;
}

/** Names of attributes need no escapes: the code or the configuration chose them. */
function encodedAttributes(attributes: SpanAttributes): string {
  let text = "";
  for (const key in attributes) {
    const value = attributes[key];
    if (value !== undefined) text = listed(text, encodedAttribute(key, value));
  }
  return text;
}

function listed(list: string, more: string): string {
  if (list === "" || more === "") return list + more;
  return `${list},${more}`;
}

type Value = Exclude<SpanAttributes[string], undefined>;

function encodedAttribute(key: string, value: Value): string {
  return isSendable(value) ? `{"key":"${key}","value":${encodedValue(value)}}` : "";
}

/** JSON has no infinite numbers, and a collector rejects a whole batch for one. */
function isSendable(value: Value): boolean {
  return typeof value !== "number" || Number.isFinite(value);
}

function encodedValue(value: Value): string {
  if (typeof value === "string") return `{"stringValue":${JSON.stringify(value)}}`;
  if (typeof value === "boolean") return `{"boolValue":${value}}`;
  if (typeof value === "number") return `{"${Number.isSafeInteger(value) ? "intValue" : "doubleValue"}":${value}}`;
  return `{"arrayValue":{"values":[${value.map(encodedValue).join(",")}]}}`;
}

/** Nanoseconds as decimal digits: they are too large for a number. */
function nanosOf(ms: number): string {
  const whole = Math.floor(ms);
  return `${whole}${String(Math.floor((ms - whole) * 1e6)).padStart(6, "0")}`;
}
