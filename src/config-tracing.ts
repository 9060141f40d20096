import { type Env, parseBaseUrl, parseOneOf, read } from "./config-values.ts";
import { SAMPLERS, type TracingSettings } from "./platform/tracing.ts";

/**
 * The settings of traces, by the names of OpenTelemetry. The adapter's library reads the others itself. Null without an
 * endpoint, or with OTEL_SDK_DISABLED=true.
 */
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
  return { url, sampler, ratio };
}

function parseRatio(text: string): number {
  const ratio = /^\d{1,3}(\.\d{1,9})?$/.test(text) ? Number(text) : Number.NaN;
  if (ratio >= 0 && ratio <= 1) return ratio;
  throw new Error("it is not one");
}
