import { isDeepStrictEqual } from "node:util";
import type { Caller } from "../../api/contract/caller.ts";
import { isWithinHosts } from "../../api/contract/hosts.ts";
import { findNamed, type NamedSecret } from "../../api/contract/secrets.ts";
import {
  type ShownToolsConfig,
  secretBindings,
  secretsReferred,
  type ToolSecretBinding,
  type ToolsConfig,
} from "../../api/contract/tools.ts";
import { paramOf } from "../../api/contract/validation.ts";
import { httpErrors } from "../../api/http/errors.ts";
import { errors } from "../../kernel/errors.ts";
import { stableJson } from "../../platform/lib/json.ts";

/** Which bindings of secrets a caller may see, keep and write in an agent's tools_config, and which can work: contract 3, 7. */

type Scopes = Pick<Caller, "scopes">;

/**
 * `given` with each null replaced by the stored name. Throws 403 if `caller` adds or widens a binding of `before`
 * without `secrets:write`, and 400 if a null matches no binding of `before`.
 */
export function permittedTools({ scopes }: Scopes, given: ShownToolsConfig, before: ToolsConfig): ToolsConfig {
  const may_bind = scopes.includes("secrets:write");
  const deny = (path: readonly PropertyKey[]) =>
    httpErrors.insufficientScope("secrets:write", paramOf(["tools_config", ...path]));
  const kept = withKeptNames(given, before, (path) => (may_bind ? unknownBinding(path) : deny(path)));
  const widened = may_bind ? null : firstWidened(kept, before);
  if (widened !== null) throw deny(widened);
  return kept;
}

/** An agent, or a version of one, as `caller` may see it: the names of secrets need `secrets:read`. */
export function shownTo<Shown extends { tools_config: ShownToolsConfig; secrets_used?: string[] }>(
  { scopes }: Scopes,
  shown: Shown,
): Shown {
  if (scopes.includes("secrets:read")) return shown;
  const hidden = { ...shown, tools_config: withoutNames(shown.tools_config) };
  return shown.secrets_used === undefined ? hidden : { ...hidden, secrets_used: [] };
}

/** `config` with each secret's name in its own spelling. Throws 400 for a secret that its tool cannot use. */
export function withUsableSecrets(config: ShownToolsConfig, secrets: readonly NamedSecret[]): ShownToolsConfig {
  const names = secretsReferred(config).map(({ name, path, hosts }) => {
    const secret = findNamed(secrets, name);
    const param = paramOf(["tools_config", ...path]);
    if (secret === undefined) {
      throw errors.invalidValue(param, `${param}: you have no secret named ${name}. POST /api/v1/secrets stores one.`);
    }
    const why = unusableBecause(secret, { tool: path[0], hosts });
    if (why !== null) throw errors.invalidValue(param, `${param}: ${why}.`);
    return { path, secret: secret.name };
  });
  return withNames(config, names);
}

function unusableBecause(
  { name, only_tool, allowed_hosts }: NamedSecret,
  { tool, hosts }: { tool: PropertyKey | undefined; hosts: readonly string[] | null },
): string | null {
  if (only_tool !== null && only_tool !== tool) {
    return `${name} is a secret of type oauth, which only the tool ${only_tool} can use. Name a secret of type value`;
  }
  if (allowed_hosts === null || hosts === null) return null;
  const outside = hosts.find((host) => !isWithinHosts([host], allowed_hosts));
  if (outside === undefined) return null;
  const allowed = allowed_hosts.length === 0 ? "nowhere" : `only to ${allowed_hosts.join(", ")}`;
  return `${name} may be sent ${allowed} (its allowed_hosts), not to ${outside}. Bind it to an allowed host, or change the secret's allowed_hosts`;
}

function unknownBinding(path: readonly PropertyKey[]): Error {
  const param = paramOf(["tools_config", ...path]);
  return errors.invalidValue(
    param,
    `${param}: null keeps a binding that is otherwise unchanged, and this one is new or changed. Name its secret.`,
  );
}

/**
 * The path of the first binding that `before` does not allow, as written or as limited by the tools' other settings.
 */
function firstWidened(after: ToolsConfig, before: ToolsConfig): readonly PropertyKey[] | null {
  return (
    uncovered(secretBindings(after), secretBindings(before)) ?? uncovered(usableBindings(after), usableBindings(before))
  );
}

function uncovered(after: ToolSecretBinding[], before: ToolSecretBinding[]): readonly PropertyKey[] | null {
  return after.find((binding) => !before.some((each) => covers(each, binding)))?.path ?? null;
}

/** Whether `wide` allows every use of the secret that `narrow` allows. */
function covers(wide: ToolSecretBinding, narrow: ToolSecretBinding): boolean {
  return (
    wide.tool === narrow.tool &&
    wide.secret === narrow.secret &&
    isDeepStrictEqual(wide.inject, narrow.inject) &&
    isSubset(narrow.urls, wide.urls) &&
    isWithinHosts(narrow.hosts, wide.hosts) &&
    isSubset(narrow.methods, wide.methods) &&
    isSubset(narrow.paths, wide.paths) &&
    isSubset(narrow.tools, wide.tools)
  );
}

function isSubset(narrow: readonly string[] | null, wide: readonly string[] | null): boolean {
  if (wide === null) return true;
  const allowed = new Set(wide);
  return narrow?.every((each) => allowed.has(each)) ?? false;
}

/** The bindings of enabled tools, reduced to the requests that the tool's other settings allow to carry the secret. */
function usableBindings(config: ToolsConfig): ToolSecretBinding[] {
  return secretBindings(config).flatMap((binding) => {
    if (!binding.is_enabled) return [];
    const usable = { ...binding, ...binding.usable?.() };
    return usable.hosts?.length === 0 || usable.methods?.length === 0 ? [] : usable;
  });
}

/** `given` with each null replaced by the stored name. Throws the error of `refuse` for a null without a match. */
function withKeptNames(
  given: ShownToolsConfig,
  before: ToolsConfig,
  refuse: (path: readonly PropertyKey[]) => Error,
): ToolsConfig {
  const bindings = secretBindings(given);
  const kept = keptNames(bindings, secretBindings(before));
  const names = bindings.map(({ path }, index) => {
    const secret = kept[index] ?? null;
    if (secret === null) throw refuse(path);
    return { path, secret };
  });
  return withNames(given, names) as ToolsConfig;
}

/**
 * The names of `given`. A null keeps the name of the stored binding with the same other settings. Several secrets with
 * the same settings are matched by their order, so all of them must be present. Null: unknown.
 */
function keptNames(given: readonly ToolSecretBinding[], stored: readonly ToolSecretBinding[]): (string | null)[] {
  // A number for each different text, because long texts are slow to compare pair by pair.
  const numbers = new Map<string, number>();
  const getSettings = ({ tool, kept_with }: ToolSecretBinding) => {
    const text = stableJson([tool, kept_with]);
    const number = numbers.get(text) ?? numbers.size;
    numbers.set(text, number);
    return number;
  };
  const given_settings = given.map(getSettings);
  const stored_settings = stored.map(getSettings);
  return given.map((binding, index) => {
    if (binding.secret !== null) return binding.secret;
    const isAlike = (settings: number | undefined) => settings === given_settings[index];
    const names = stored.filter((_, at) => isAlike(stored_settings[at])).map(({ secret }) => secret);
    const [name = null, ...others] = new Set(names);
    if (others.length === 0) return name;
    const alike = given.filter((_, at) => isAlike(given_settings[at]));
    const is_complete = alike.length === names.length;
    const is_in_order = alike.every(({ secret }, at) => secret === null || secret === names[at]);
    return is_complete && is_in_order ? (names[alike.indexOf(binding)] ?? null) : null;
  });
}

function withoutNames(config: ShownToolsConfig): ShownToolsConfig {
  const names = secretBindings(config).map(({ path }) => ({ path, secret: null }));
  return withNames(config, names);
}

/** A copy of `config` with different secret names at the given paths. */
function withNames(
  config: ShownToolsConfig,
  names: readonly { path: readonly PropertyKey[]; secret: string | null }[],
): ShownToolsConfig {
  const copy = structuredClone(config);
  for (const { path, secret } of names) {
    let settings = copy as Record<PropertyKey, unknown>;
    for (const key of path.slice(0, -1)) settings = settings[key] as Record<PropertyKey, unknown>;
    settings[path.at(-1) ?? ""] = secret;
  }
  return copy;
}
