import type { SpanAttributes, SpanStart } from "./tracing.ts";

/** A span that has ended. Times are milliseconds since 1970. */
export interface FinishedSpan {
  trace_id: string;
  span_id: string;
  /** Null: the first span of its trace. */
  parent_id: string | null;
  start: SpanStart;
  start_ms: number;
  end_ms: number;
  /** Attributes that were set after the start (`encodeAttributes`). */
  more: string;
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
export function encodeSpan({
  trace_id,
  span_id,
  parent_id,
  start,
  start_ms,
  end_ms,
  more,
  error,
}: FinishedSpan): string {
  const parent = parent_id === null ? "" : `"parentSpanId":"${parent_id}",`;
  const times = `"startTimeUnixNano":"${nanosOf(start_ms)}","endTimeUnixNano":"${nanosOf(end_ms)}"`;
  const begun = encodedStart(start);
  const late = error === null ? more : more + encodeAttribute("error.type", error);
  const attributes = begun.endsWith("[") ? late.slice(1) : late;
  const status = error === null ? "{}" : `{"code":${FAILED}}`;
  return `{"traceId":"${trace_id}","spanId":"${span_id}",${parent}${times},${begun}${attributes}],"status":${status}}`;
}

/** The text before and after the spans of an export. */
export function envelopeOf(resource: SpanAttributes, version: string): { head: string; tail: string } {
  const scope = JSON.stringify({ name: "purser", version });
  const attributes = encodeAttributes(resource).slice(1);
  const head = `{"resourceSpans":[{"resource":{"attributes":[${attributes}]},"scopeSpans":[{"scope":${scope},"spans":[`;
  return { head, tail: "]}]}]}" };
}

const encoded_starts = new WeakMap<SpanStart, string>();

/** The name, the kind and the attributes, whose list is open for more. */
function encodedStart(start: SpanStart): string {
  let text = encoded_starts.get(start);
  if (text === undefined) {
    text = `"name":${JSON.stringify(start.name)},"kind":${KINDS[start.kind]},"attributes":[${encodeAttributes(start.attributes).slice(1)}`;
    encoded_starts.set(start, text);
  }
  return text;
}

/** Attributes as JSON, a comma before each. Names need no escapes: the code or the configuration chose them. */
export function encodeAttributes(attributes: SpanAttributes): string {
  let text = "";
  for (const key in attributes) {
    const value = attributes[key];
    if (value !== undefined) text += encodeAttribute(key, value);
  }
  return text;
}

type Value = Exclude<SpanAttributes[string], undefined>;

/** Empty for infinite numbers: JSON has none, and a collector rejects a whole batch for one. */
function encodeAttribute(key: string, value: Value): string {
  return typeof value === "number" && !Number.isFinite(value)
    ? ""
    : `,{"key":"${key}","value":{${encodedValue(value)}}}`;
}

function encodedValue(value: Value): string {
  if (typeof value === "string") return `"stringValue":${JSON.stringify(value)}`;
  if (typeof value === "boolean") return `"boolValue":${value}`;
  if (typeof value === "number") return `"${Number.isSafeInteger(value) ? "intValue" : "doubleValue"}":${value}`;
  return `"arrayValue":{"values":[${value.map((each) => `{${encodedValue(each)}}`).join(",")}]}`;
}

const MICROS = 1_000_000;
let last_second = { s: 0, text: "0" };

/** Nanoseconds as decimal digits, which are too many for a number. Small numbers become text much faster. */
function nanosOf(ms: number): string {
  const s = Math.floor(ms / 1_000);
  if (s !== last_second.s) last_second = { s, text: String(s) };
  const micros = Math.floor((ms - s * 1_000) * 1_000);
  return `${last_second.text}${String(MICROS + micros).slice(1)}000`;
}
