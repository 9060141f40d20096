import { type Config, ConfigError, readConfig } from "../config/config.ts";
import { FILE_SUFFIX } from "../config/values.ts";
import { nearestNames } from "../kernel/nearest.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** Values in the place of required settings with a fault, so that the others are read. Nothing is opened with them. */
const STAND_INS: Env = {
  DATABASE_URL: "postgres://localhost/purser",
  PURSER_KEK: `check:${Buffer.alloc(32).toString("base64")}`,
  STRIPE_SECRET_KEY: "sk_check",
  STRIPE_WEBHOOK_SECRET: "whsec_check",
};
/** Kubernetes sets these for each Service in the namespace, also for purser and purser-postgresql. */
const OF_KUBERNETES = /^PURSER_(SERVICE|PORT)(_|$)|_SERVICE_(HOST|PORT)(_|$)|_PORT_\d+_(TCP|UDP|SCTP)(_|$)/;
const ADDRESS_OF_KUBERNETES = /^(tcp|udp|sctp):\/\//;
/** The guides store a client's API key in the first one, and compose.yaml reads the image from the second one. */
const OF_OTHERS = ["PURSER_KEY", "PURSER_IMAGE"];

/** The settings, and every fault in them as one line. */
export interface CheckedSettings {
  /** Null: too much is wrong. Variables in `replaced` have other values. */
  readonly config: Config | null;
  readonly faults: readonly string[];
  /** Variables with a fault. */
  readonly replaced: ReadonlySet<string>;
}

/** Reads all settings. A variable with a fault is replaced or unset, and the settings are read again. */
export function checkSettings(env: Env): CheckedSettings {
  const left: Record<string, string | undefined> = { ...env };
  const replaced = new Set<string>();
  const faults: string[] = [];
  const { watched, unknown } = watchNames(left);
  for (;;) {
    try {
      const config = readConfig(watched);
      return { config, faults: [...faults, ...unknown(), ...contradictions(config)], replaced };
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      faults.push(error.message, ...error.others);
      const { variable } = error;
      if (replaced.has(variable)) return { config: null, faults, replaced };
      replaced.add(variable);
      left[variable] = STAND_INS[variable];
      delete left[`${variable}${FILE_SUFFIX}`];
    }
  }
}

/** `watched` is `env`. `unknown` has one line for each `PURSER_` variable that was not read from it: misspelt settings. */
export function watchNames(env: Env): { watched: Env; unknown(): string[] } {
  // The names of all settings are the ones that are read.
  const names = new Set<string>();
  const watched = new Proxy(env, {
    get: (target, name) => {
      names.add(String(name));
      return target[String(name)];
    },
  });
  return { watched, unknown: () => unknownNames(env, names) };
}

function unknownNames(env: Env, names: ReadonlySet<string>): string[] {
  const known = [...names].filter((name) => name.startsWith("PURSER_"));
  const unknown = Object.keys(env).filter((name) => /^PURSER_[A-Z]/.test(name) && !names.has(name));
  return unknown
    .filter((name) => !isOfOthers(name, env[name]))
    .map((name) => {
      const without_prefix = name.replace("PURSER_", "");
      const near = names.has(without_prefix) ? without_prefix : nearestNames(name, known)[0];
      const settings = known.filter((each) => !each.endsWith(FILE_SUFFIX));
      const advice = near === undefined ? `remove it; settings are ${settings.join(", ")}` : `did you mean ${near}?`;
      return `${name}: this is no setting, so it has no effect: ${advice}`;
    });
}

function isOfOthers(name: string, value = ""): boolean {
  return OF_KUBERNETES.test(name) || ADDRESS_OF_KUBERNETES.test(value) || OF_OTHERS.includes(name);
}

/** Settings that do not fit together. A start only warns about some of them, or cannot know the intention. */
function contradictions({ public_url, trusted_proxies, warnings }: Config): string[] {
  const is_local = public_url === null || /^https?:\/\/(localhost|127\.|\[::1\])/.test(public_url);
  const found: string[] = [];
  if (trusted_proxies.length > 0 && is_local) {
    const now = public_url === null ? "is not set" : `is ${public_url}`;
    found.push(
      `PURSER_PUBLIC_URL: PURSER_TRUSTED_PROXIES names a proxy, and PURSER_PUBLIC_URL ${now}: people behind the proxy cannot sign in and mailed links lead nowhere. Set it to the address that people open, such as https://purser.example, or remove PURSER_TRUSTED_PROXIES`,
    );
  }
  return [...found, ...warnings.filter((warning) => warning.startsWith("PURSER_TRUSTED_PROXIES"))];
}
