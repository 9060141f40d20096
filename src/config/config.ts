import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { ALL_BUCKETS } from "../account/users/tokens.ts";
import type { SettingVariable } from "../api/contract/admin-service.ts";
import { CATALOGUE, CatalogueError, extendedCatalogue, parseCatalogue } from "../gateway/models/catalogue.ts";
import type { CatalogueEntry, ModelSettings } from "../gateway/models/models.types.ts";
import { BUILT_IN_PROVIDERS, PROVIDER_KEYS } from "../gateway/models/providers.ts";
import { SHUTDOWN_SECONDS, TOKENS_PER_USD } from "../kernel/constants.ts";
import type { Instant } from "../platform/lib/instant.ts";
import { isLoopback } from "../platform/net/address.ts";
import type { JudgeSettings } from "../safety/judge-kinds.ts";
import { KEYRING_FORMAT, parseKeyring } from "../vault/keyring.ts";
import type { Keyring } from "../vault/keyring.types.ts";
import { describeVariables } from "./described-settings.ts";
import type { FileSettings } from "./file.schema.ts";
import { describeFile, parseConfigFile, type WrittenFile } from "./file.ts";
import { readTracing } from "./tracing.ts";
import {
  ConfigError,
  type Env,
  parseBaseUrl,
  parseBuckets,
  parseCidr,
  parseCredential,
  parseDatabaseUrl,
  parseDirectory,
  parseEgressAllowance,
  parseHost,
  parseInstant,
  parseList,
  parseMailbox,
  parseMetricsAddress,
  parseOneOf,
  parseOrigin,
  parsePort,
  parseStandbyUrl,
  parseUrlWithScheme,
  parseWhole,
  read,
  withFiles,
} from "./values.ts";

export { ConfigError };

/** The settings of PURSER_CONFIG, with the catalogue that it names and the keys of its judges. */
export interface ReadFileSettings extends Omit<FileSettings, "catalogue" | "safety"> {
  /** The file as it is written; null: there is none. */
  readonly file: WrittenFile | null;
  readonly catalogue: readonly CatalogueEntry[];
  readonly safety: { readonly judges: readonly JudgeSettings[] };
}

/** All settings of the process, checked. */
export type Config = ReturnType<typeof readSettings> & {
  /** Reads all settings again, for a reload. Throws a ConfigError. */
  readonly reread: () => Config;
  /** Settings that work but are worth a line in the log. */
  readonly warnings: readonly string[];
  /** All variables that are read, as they were set. */
  readonly variables: readonly SettingVariable[];
};

/** contract 1.14 */
export const DRILL =
  "PURSER_MODE is drill: this is a copy for a rehearsal. Schedules do not run, runs that were queued before do not begin, and no webhooks, mails and payments are sent. Unset PURSER_MODE to make it the real service.";
const ROLES = ["all", "api", "worker"] as const;
const LOG_LEVELS = ["silent", "fatal", "error", "warn", "info", "debug", "trace"] as const;
const METRICS_ADDRESS = "host:port, such as 127.0.0.1:9464 or [::1]:9464";
const MAX_KEPT_DAYS = 36_500;
const SHORT_ADMIN_KEY = 16;
/** contract 1.2 */
const DB_WAIT_SECONDS = 60;
const MAX_SECONDS = 3_600;
/**
 * The settings of contract sections 1 and 9 from environment variables and the file that PURSER_CONFIG names. An
 * empty variable counts as unset, and `NAME_FILE` names a file with the value of NAME. Throws a ConfigError for the first invalid one.
 */
export function readConfig(env: Env): Config {
  const names = new Set<string>();
  const values = withFiles(env, names);
  const settings = readSettings(values);
  const warnings = collectWarnings(values, settings);
  const variables = describeVariables(env, { names, values, settings });
  return { ...settings, warnings, variables, reread: () => readConfig(env) };
}

function readSettings(env: Env) {
  const host = read(env, "HOST", parseHost, "an IP address or a host name") ?? "127.0.0.1";
  const database_url =
    read(
      env,
      "DATABASE_URL",
      parseDatabaseUrl,
      "postgres://user:password@host:port/database, with several hosts separated by commas",
    ) ?? null;
  const port = read(env, "PORT", parsePort, "a whole number from 0 to 65535") ?? 3000;
  const admin_key = read(env, "PURSER_ADMIN_KEY", parseCredential, "printable ASCII without spaces") ?? null;
  const file = readFile(env);
  const test_clock =
    read(
      env,
      "PURSER_TEST_CLOCK",
      parseInstant,
      "an ISO 8601 instant from 1970 to 2199, such as 2026-01-31T09:00:00Z",
    ) ?? null;
  const public_url = read(env, "PURSER_PUBLIC_URL", parseOrigin, "http(s)://host[:port] and nothing after it") ?? null;
  const trusted_proxies =
    read(env, "PURSER_TRUSTED_PROXIES", parseList(parseCidr), "CIDRs such as 10.0.0.0/8, separated by commas") ?? [];
  const local = isLocalOnly({ host, public_url, trusted_proxies, database_url });
  const is_drill = read(env, "PURSER_MODE", parseOneOf(["normal", "drill"]), "normal or drill") === "drill";
  const mail = readMail(env, public_url);
  const signup = read(env, "PURSER_SIGNUP", parseOneOf(["open", "closed"]), "open or closed") ?? "open";
  const paying = readPayments(env, { sandbox_by_default: local, test_clock, is_drill });
  return {
    ...file,
    /** What this node does: `api` leaves runs and schedules to others, `worker` serves no API. */
    role: readRole(env, database_url),
    /** A restored copy: it runs no schedules and sends no webhooks, mails and payments. */
    is_drill,
    host,
    /** 0: a free one is picked. */
    port,
    /** The address of health and metrics. Null: the public port. */
    metrics_address: read(env, "PURSER_METRICS_ADDRESS", parseMetricsAddress({ host, port }), METRICS_ADDRESS) ?? null,
    /** null: embedded storage in `data_dir`. */
    database_url,
    ...readServers(env, database_url),
    /** How long a start waits for the database. */
    db_wait_seconds: readSeconds(env, "PURSER_DB_WAIT_SECONDS") ?? DB_WAIT_SECONDS,
    /** Time for calls in flight after SIGTERM. */
    drain_seconds: readSeconds(env, "PURSER_DRAIN_SECONDS") ?? SHUTDOWN_SECONDS.drain,
    /** From SIGTERM, `/readyz` answers 503 for this time before the node closes its listener. */
    lame_duck_seconds: readSeconds(env, "PURSER_LAME_DUCK_SECONDS") ?? 0,
    data_dir: read(env, "DATA_DIR", parseDirectory, "a directory that is there or can be made") ?? "./data",
    /** null: the operator API answers 404. */
    admin_key,
    /** null, on embedded storage only: `loadKeyring(data_dir)` keeps one. */
    keyring: readKeyring(env, database_url),
    /** null: the machine's clock. */
    test_clock,
    ...paying,
    /** An origin, without a slash at its end; null: `http://HOST:PORT` once the port is known. */
    public_url,
    /** CIDRs whose X-Forwarded-* is believed. */
    trusted_proxies,
    /** null: links are written to the log. */
    mail: is_drill ? null : mail,
    egress_allow:
      read(env, "PURSER_EGRESS_ALLOW", parseList(parseEgressAllowance), "host:port or CIDRs, separated by commas") ??
      [],
    /** Browser origins that may call the API with a key. */
    cors_origins:
      read(env, "PURSER_CORS_ORIGINS", parseList(parseOrigin), "http(s)://host[:port], separated by commas") ?? [],
    /** `allowed`: agents may turn the detector off (`safety: off`). */
    safety_off: read(env, "PURSER_SAFETY_OFF", parseOneOf(["refused", "allowed"]), "refused or allowed") ?? "refused",
    /** The days after which finished runs are deleted. Null: never. */
    keep_runs_days:
      read(
        env,
        "PURSER_KEEP_RUNS_DAYS",
        parseWhole(1, MAX_KEPT_DAYS),
        `a whole number of days from 1 to ${MAX_KEPT_DAYS}`,
      ) ?? null,
    /** The days for which a stored response is kept after it was answered or continued. */
    keep_responses_days:
      read(
        env,
        "PURSER_KEEP_RESPONSES_DAYS",
        parseWhole(1, MAX_KEPT_DAYS),
        `a whole number of days from 1 to ${MAX_KEPT_DAYS}`,
      ) ?? 1,
    signup,
    /** Only people on this machine can use the service. A request that came through a proxy contradicts it. */
    local_only: local,
    /** `none`: a sign-up needs no link, because only people on this machine can use the service. */
    verification: mail === null && local ? ("none" as const) : ("link" as const),
    log_level: read(env, "LOG_LEVEL", parseOneOf(LOG_LEVELS), LOG_LEVELS.join(", ")) ?? "info",
    /** Null: no traces are sent. */
    tracing: readTracing(env),
    /** The keys that are set, by the name of their variable; a provider of the file names its own in `api_key_env`. */
    provider_keys: readProviderKeys(env, file.providers),
  };
}

/** Converts an error of listening to a ConfigError if a setting caused it. Returns other errors unchanged. */
export function listeningError(error: NodeJS.ErrnoException, { host, port }: Pick<Config, "host" | "port">): Error {
  const free = "a free port, or 0 for any that is";
  if (error.code === "EADDRINUSE") return new ConfigError("PORT", `${port} is in use on ${host}`, free);
  if (error.code === "EACCES") return new ConfigError("PORT", `${port} may not be used by this user`, free);
  if (error.code === "EADDRNOTAVAIL" || error.code === "ENOTFOUND") {
    return new ConfigError("HOST", `${host} is no address of this machine`, "one of its addresses, such as 127.0.0.1");
  }
  return error;
}

/** Names PURSER_METRICS_ADDRESS in an error of listening there. */
export function metricsListeningError(
  error: NodeJS.ErrnoException,
  { host, port }: NonNullable<Config["metrics_address"]>,
): Error {
  const found = listeningError(error, { host, port });
  if (found === error) return error;
  const fault = {
    EADDRINUSE: `port ${port} is in use on ${host}`,
    EACCES: `port ${port} may not be used by this user`,
  };
  return new ConfigError(
    "PURSER_METRICS_ADDRESS",
    fault[error.code as keyof typeof fault] ?? `${host} is no address of this machine`,
    "an address of this machine and a free port, such as 127.0.0.1:9464",
  );
}

function collectWarnings(env: Env, settings: ReturnType<typeof readSettings>): string[] {
  const { admin_key, providers, public_url } = settings;
  const hidden = providers.filter(({ api_key_env }) => api_key_env !== null && !env[api_key_env]);
  const warnings = hidden.map(
    ({ name, api_key_env }) => `The provider ${name} and its models are hidden: its key ${api_key_env} is not set.`,
  );
  if (settings.is_drill) warnings.unshift(DRILL);
  if (admin_key !== null && admin_key.length < SHORT_ADMIN_KEY) {
    warnings.push(
      `PURSER_ADMIN_KEY is shorter than ${SHORT_ADMIN_KEY} characters: it opens every account, make it long and random.`,
    );
  }
  if (public_url === null && !isLoopback(settings.host)) {
    warnings.push(
      "PURSER_PUBLIC_URL is not set: people can sign in to the console at http://HOST:PORT only. Set it to the address that they open.",
    );
  }
  if (settings.payments === "sandbox" && isReachable(settings)) {
    warnings.push(
      "PURSER_PAYMENTS is sandbox and other machines can reach this service: every user can buy any number of tokens without money, and your providers charge you for their use. Set PURSER_PAYMENTS=none or stripe, except for a trial installation.",
    );
  }
  if (isBehindUnnamedProxy(settings)) {
    warnings.push(
      "PURSER_TRUSTED_PROXIES is not set, and PURSER_PUBLIC_URL shows that a proxy forwards the requests: all clients count as one address in the sign-in limits, so one of them can lock out the others. Set it to the proxy's CIDR, such as 127.0.0.1/32.",
    );
  }
  if (settings.trusted_proxies.some((cidr) => cidr.endsWith("/0"))) {
    warnings.push(
      "PURSER_TRUSTED_PROXIES names every address as a proxy: any client can then pretend to have another address. Name your proxy's, such as 10.0.0.5/32.",
    );
  }
  return [...warnings, ...priceWarnings(settings)];
}

/** Prices that work, and that an operator can hardly mean. */
function priceWarnings({ models, margin }: Pick<Config, "models" | "margin">): string[] {
  const warnings = models
    .filter(isBelowCost)
    .map(
      ({ id }) => `The model ${id} is sold below its upstream price in PURSER_CONFIG: each of its calls loses money.`,
    );
  if (margin < 1) {
    warnings.push(
      `The margin in PURSER_CONFIG is ${margin}: the models of the catalogue are sold below their price. 1.2 adds 20%.`,
    );
  }
  if (margin > 2) {
    warnings.push(
      `The margin in PURSER_CONFIG is ${margin}: the models of the catalogue cost ${margin} times the provider's price. It is a factor: 1.2 adds 20%.`,
    );
  }
  return warnings;
}

function isBelowCost({ upstream, routes, ...sold }: ModelSettings): boolean {
  /** A rate in the unit of an upstream price: micro-dollars per million tokens. */
  const computePrice = (rate_micro: number) => (rate_micro / TOKENS_PER_USD) * 1_000_000;
  return [upstream, ...routes.map((route) => route.upstream)].some(
    (cost) =>
      cost !== null &&
      (computePrice(sold.input_rate_micro) < cost.input_rate_micro ||
        computePrice(sold.output_rate_micro) < cost.output_rate_micro),
  );
}

interface ListeningAddress {
  host: string;
  public_url: string | null;
  trusted_proxies: readonly string[];
}

/**
 * True if only people on this machine can use the service (contract 1). Two defaults depend on it: simulated payments,
 * and, without SMTP_URL, sign-ups without a link.
 */
export function isLocalOnly(settings: ListeningAddress & { database_url: string | null }): boolean {
  return settings.database_url === null && !isReachable(settings);
}

/** True if other machines can reach the service, directly or through a proxy on this machine. */
function isReachable({ host, public_url, trusted_proxies }: ListeningAddress): boolean {
  return !isLoopback(host) || isPublic(public_url) || trusted_proxies.length > 0;
}

/** The service itself uses plain HTTP, so a public https address, or one in front of loopback, belongs to a proxy. */
function isBehindUnnamedProxy({ host, public_url, trusted_proxies }: ListeningAddress): boolean {
  if (public_url === null || !isPublic(public_url) || trusted_proxies.length > 0) return false;
  return isLoopback(host) || public_url.startsWith("https:");
}

function isPublic(public_url: string | null): boolean {
  return public_url !== null && !isLoopback(new URL(public_url).hostname);
}

function readSeconds(env: Env, variable: string): number | undefined {
  return read(env, variable, parseWhole(0, MAX_SECONDS), `a whole number of seconds from 0 to ${MAX_SECONDS}`);
}

function readFile(env: Env): ReadFileSettings {
  const path = env.PURSER_CONFIG;
  const is_given = path !== undefined && path !== "";
  const text = is_given ? readText(path, "the path of a YAML or JSON file") : "";
  const settings = parseConfigFile(text, path ?? "");
  const catalogue = is_given ? readCatalogue(settings, path) : CATALOGUE;
  const file = is_given ? describeFile(text, path) : null;
  return { ...settings, catalogue, file, safety: { judges: readJudges(env, settings, catalogue) } };
}

/** The judges with their keys. The models of judges are chat models of the file or of the catalogue. */
function readJudges(
  env: Env,
  { safety, models }: FileSettings,
  catalogue: readonly CatalogueEntry[],
): readonly JudgeSettings[] {
  const offered = new Set(
    [...models, ...catalogue].flatMap(({ id, model_kind }) => (model_kind === "chat" ? [id] : [])),
  );
  const refuse = (at: number, reason: string, accepted: string) =>
    new ConfigError("PURSER_CONFIG", `${env.PURSER_CONFIG}: safety.judges[${at}].${reason}`, accepted);
  return safety.judges.map(({ secret_env, ...judge }, at) => {
    if (judge.model !== null && !offered.has(judge.model)) {
      const reason = `model ${JSON.stringify(judge.model)} is no chat model of this file or of the catalogue`;
      throw refuse(at, reason, "the id of a chat model");
    }
    if (secret_env === null) return { ...judge, secret: null };
    const accepted = "the judge's key: printable ASCII without spaces";
    const secret = read(env, secret_env, parseCredential, accepted);
    if (secret === undefined) {
      throw refuse(at, `secret_env names ${secret_env}, which is not set`, `${secret_env} with the judge's key`);
    }
    return { ...judge, secret };
  });
}

/** The catalogue file's path is relative to the file that PURSER_CONFIG names. */
function readCatalogue({ catalogue, providers }: FileSettings, config_path: string): readonly CatalogueEntry[] {
  if (catalogue === null) return CATALOGUE;
  const path = resolve(dirname(config_path), catalogue.file);
  const accepted = "a catalogue as docs/guides/models.md describes it; npm run catalogue writes one";
  const refuse = (reason: string) => new ConfigError("PURSER_CONFIG", `catalogue ${path}: ${reason}`, accepted);
  const text = readText(path, accepted);
  let entries: CatalogueEntry[];
  try {
    entries = parseCatalogue(text);
  } catch (error) {
    throw error instanceof CatalogueError ? refuse(error.message) : error;
  }
  const names = new Set([...BUILT_IN_PROVIDERS, ...providers].map(({ name }) => name));
  const stray = entries.find(({ provider }) => !names.has(provider));
  if (stray !== undefined) {
    throw refuse(`${stray.id}: ${stray.provider} is neither built in nor among the providers of ${config_path}`);
  }
  return catalogue.mode === "replace" ? entries : extendedCatalogue(CATALOGUE, entries);
}

function readText(path: string, accepted: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ConfigError("PURSER_CONFIG", `${path} cannot be read (${code})`, accepted);
  }
}

function readRole(env: Env, database_url: string | null): (typeof ROLES)[number] {
  const role = read(env, "PURSER_ROLE", parseOneOf(ROLES), ROLES.join(", ")) ?? "all";
  if (role !== "all" && database_url === null) {
    throw new ConfigError("PURSER_ROLE", `it is ${role}, and DATABASE_URL is not set`, "all on embedded storage");
  }
  return role;
}

function readServers(env: Env, database_url: string | null) {
  const standby = parseStandbyUrl(database_url);
  return {
    read_database_url: read(env, "PURSER_READ_DATABASE_URL", standby, "postgres://… of one streaming standby") ?? null,
    routing_buckets: read(env, "PURSER_ROUTING_BUCKETS", parseBuckets, "a range such as 00-Uz") ?? ALL_BUCKETS,
  };
}

function readKeyring(env: Env, database_url: string | null): Keyring | null {
  const keyring = read(env, "PURSER_KEK", (text) => parseKeyring(text, env), KEYRING_FORMAT) ?? null;
  if (keyring === null && database_url !== null) {
    throw new ConfigError(
      "PURSER_KEK",
      "it is not set, and DATABASE_URL is",
      `${KEYRING_FORMAT}; for a first one: k1:$(openssl rand -base64 32)`,
    );
  }
  return keyring;
}

interface Payments {
  payments: "stripe" | "sandbox" | "none";
  stripe: { secret_key: string; webhook_secret: string; api_base: string | null } | null;
}

function readPayments(
  env: Env,
  {
    sandbox_by_default,
    test_clock,
    is_drill,
  }: { sandbox_by_default: boolean; test_clock: Instant | null; is_drill: boolean },
): Payments {
  const secret_key = read(env, "STRIPE_SECRET_KEY", parseCredential, "a secret key of Stripe (sk_…)") ?? null;
  const webhook_secret =
    read(env, "STRIPE_WEBHOOK_SECRET", parseCredential, "a webhook signing secret of Stripe (whsec_…)") ?? null;
  const api_base = read(env, "STRIPE_API_BASE", parseBaseUrl, "an http or https address") ?? null;
  const by_default =
    secret_key !== null || webhook_secret !== null ? "stripe" : sandbox_by_default ? "sandbox" : "none";
  const payments =
    read(env, "PURSER_PAYMENTS", parseOneOf(["stripe", "sandbox", "none"]), "stripe, sandbox or none") ?? by_default;
  if (is_drill) return { payments: "none", stripe: null };
  if (payments !== "stripe") return { payments, stripe: null };
  if (secret_key === null)
    throw new ConfigError(
      "STRIPE_SECRET_KEY",
      "it is not set, and payments go through Stripe",
      "a secret key of Stripe (sk_…)",
    );
  if (webhook_secret === null) {
    throw new ConfigError(
      "STRIPE_WEBHOOK_SECRET",
      "it is not set, and payments go through Stripe",
      "a webhook signing secret of Stripe (whsec_…)",
    );
  }
  // STRIPE_API_BASE moves no real money, so a test double of Stripe works with a test clock.
  if (test_clock !== null && api_base === null) {
    throw new ConfigError(
      "PURSER_TEST_CLOCK",
      "it is set while payments are live",
      "PURSER_PAYMENTS=sandbox or none with it, or STRIPE_API_BASE with a test double of Stripe",
    );
  }
  return { payments, stripe: { secret_key, webhook_secret, api_base } };
}

function readMail(env: Env, public_url: string | null): { smtp_url: string; from: string } | null {
  const smtp_url = read(env, "SMTP_URL", parseUrlWithScheme("smtp", "smtps"), "smtp:// or smtps:// with a host");
  const from = read(env, "MAIL_FROM", parseMailbox, "name@host or Name <name@host>");
  if (smtp_url === undefined) return null;
  const host = public_url === null ? "localhost" : new URL(public_url).hostname;
  return { smtp_url, from: from ?? `Purser <no-reply@${host}>` };
}

function readProviderKeys(env: Env, providers: ReadFileSettings["providers"]): Record<string, string> {
  const names = [...PROVIDER_KEYS, ...providers.flatMap(({ api_key_env }) => api_key_env ?? [])];
  const keys = names.map(
    (name) => [name, read(env, name, parseCredential, "an API key: printable ASCII without spaces")] as const,
  );
  return Object.fromEntries(keys.filter((entry): entry is readonly [string, string] => entry[1] !== undefined));
}
