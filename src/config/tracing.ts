import { SAMPLERS, type TracingSettings } from "../platform/telemetry/tracing.ts";
import { type Env, parseBaseUrl, parseOneOf, parseWhole, read } from "./values.ts";

const TIMEOUT_MS = { default: 10_000, most: 600_000 };
/** An entry of OTEL_EXPORTER_OTLP_HEADERS or OTEL_RESOURCE_ATTRIBUTES; values are percent-encoded. */
const ENTRY = /^\s*([\w.!#$&*/-]+)\s*=\s*([\x20-\x7e]*?)\s*$/;

/** The settings of traces, by the names of OpenTelemetry. Null without an endpoint, or with OTEL_SDK_DISABLED=true. */
export function readTracing(env: Env): TracingSettings | null {
  const address = "an http or https address, such as http://127.0.0.1:4318";
  const base = read(env, "OTEL_EXPORTER_OTLP_ENDPOINT", parseBaseUrl, address);
  const of_traces = read(env, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", parseBaseUrl, address);
  const sampler = read(env, "OTEL_TRACES_SAMPLER", parseOneOf(SAMPLERS), SAMPLERS.join(", ")) ?? SAMPLERS[0];
  const ratio = read(env, "OTEL_TRACES_SAMPLER_ARG", parseRatio, "a share of the traces from 0 to 1") ?? 1;
  // A client for gRPC is not included. Each collector takes JSON at the port for HTTP.
  const protocols = ["http/json", "http/protobuf"] as const;
  const accepted = "http/json; http/protobuf is sent as JSON too. Use the collector's port for HTTP (4318)";
  read(env, "OTEL_EXPORTER_OTLP_PROTOCOL", parseOneOf(protocols), accepted);
  const url = of_traces ?? (base === undefined ? null : `${base}/v1/traces`);
  if (url === null || env.OTEL_SDK_DISABLED?.toLowerCase() === "true") return null;
  return { url, sampler, ratio, ...readExport(env) };
}

function readExport(env: Env): Pick<TracingSettings, "headers" | "timeout_ms" | "resource"> {
  const list = "name=value,name=value with values that are percent-encoded";
  const entries = (variable: string) => read(env, variable, parseEntries, list) ?? {};
  const whole = parseWhole(1, TIMEOUT_MS.most);
  const readTimeout = (variable: string) => read(env, variable, whole, `milliseconds from 1 to ${TIMEOUT_MS.most}`);
  const of_traces = readTimeout("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT");
  const service = read(env, "OTEL_SERVICE_NAME", (text) => text, "a name");
  return {
    headers: { ...entries("OTEL_EXPORTER_OTLP_HEADERS"), ...entries("OTEL_EXPORTER_OTLP_TRACES_HEADERS") },
    timeout_ms: of_traces ?? readTimeout("OTEL_EXPORTER_OTLP_TIMEOUT") ?? TIMEOUT_MS.default,
    resource: { ...entries("OTEL_RESOURCE_ATTRIBUTES"), ...(service === undefined ? {} : { "service.name": service }) },
  };
}

/** Its messages do not repeat the text, which may hold a collector's key. */
function parseEntries(text: string): Record<string, string> {
  const parsed = text
    .split(",")
    .filter((entry) => entry.trim() !== "")
    .map((entry) => {
      const [, name, value] = ENTRY.exec(entry) ?? [];
      if (name === undefined || value === undefined) throw new Error("an entry is not name=value");
      try {
        return [name, decodeURIComponent(value)];
      } catch {
        throw new Error("a value is not percent-encoded");
      }
    });
  return Object.fromEntries(parsed);
}

function parseRatio(text: string): number {
  const ratio = /^\d{1,3}(\.\d{1,9})?$/.test(text) ? Number(text) : Number.NaN;
  if (ratio >= 0 && ratio <= 1) return ratio;
  throw new Error("it is not one");
}
