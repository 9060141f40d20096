import type { SettingVariable } from "../api/contract/admin-service.ts";
import type { Env } from "./values.ts";

/** What an operator may see of the settings. Pure. */

/**
 * The variables whose values an operator may see, with the setting that is in force where the variable is not set; null:
 * then there is none. All others may be secrets: only whether they are set is shown.
 */
const SHOWN: Readonly<Record<string, string | null>> = {
  HOST: "host",
  PORT: "port",
  PURSER_CONFIG: null,
  PURSER_ROLE: "role",
  PURSER_MODE: null,
  PURSER_METRICS_ADDRESS: null,
  PURSER_ROUTING_BUCKETS: null,
  PURSER_DB_WAIT_SECONDS: "db_wait_seconds",
  PURSER_DRAIN_SECONDS: "drain_seconds",
  PURSER_LAME_DUCK_SECONDS: "lame_duck_seconds",
  DATA_DIR: "data_dir",
  PURSER_TEST_CLOCK: null,
  PURSER_PAYMENTS: "payments",
  STRIPE_API_BASE: null,
  PURSER_PUBLIC_URL: null,
  PURSER_TRUSTED_PROXIES: null,
  MAIL_FROM: null,
  PURSER_EGRESS_ALLOW: null,
  PURSER_CORS_ORIGINS: null,
  PURSER_SAFETY_OFF: "safety_off",
  PURSER_KEEP_RUNS_DAYS: null,
  PURSER_KEEP_RESPONSES_DAYS: "keep_responses_days",
  PURSER_SIGNUP: "signup",
  OTEL_EXPORTER_OTLP_ENDPOINT: null,
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: null,
  OTEL_TRACES_SAMPLER: null,
  OTEL_TRACES_SAMPLER_ARG: null,
  OTEL_SDK_DISABLED: null,
  OTEL_SERVICE_NAME: null,
  LOG_LEVEL: "log_level",
};

/** The variables `names`, in their order. `values`: `env` with the texts of files. */
export function describeVariables(
  env: Env,
  { names, values, settings }: { names: ReadonlySet<string>; values: Env; settings: Readonly<Record<string, unknown>> },
): SettingVariable[] {
  return [...names].map((name) => {
    const text = values[name] || null;
    const setting = SHOWN[name];
    const is_secret = setting === undefined;
    const in_force = text ?? (setting == null ? null : settings[setting]) ?? null;
    return {
      name,
      is_secret,
      is_set: text !== null,
      from: text === null ? "default" : env[name] ? "environment" : "file",
      value: is_secret || in_force === null ? null : String(withoutCredentials(in_force)),
    };
  });
}

/** An address may have a password before its host, or a key in its query. */
export function withoutCredentials(value: unknown): unknown {
  if (typeof value !== "string" || !/^https?:\/\//i.test(value)) return value;
  return value.replace(/^(https?:\/\/)[^/?#]*@/i, "$1").replace(/\?.*$/, "?…");
}
