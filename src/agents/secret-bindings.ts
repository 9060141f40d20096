import type { Caller } from "../contract/caller.ts";
import { isWithinHosts } from "../contract/hosts.ts";
import type { ShownToolsConfig, ToolsConfig } from "../contract/tools.ts";
import { paramOf } from "../contract/validation.ts";
import { errors } from "../errors.ts";
import { stableJson } from "../platform/stable-json.ts";

/** Which bindings of secrets a caller may see, keep and write in an agent's tools_config: contract 3. */

type Scopes = Pick<Caller, "scopes">;

/** Where the tools may use a secret, and how. Null: no limit. */
interface SecretBinding {
  readonly tool: "web_fetch" | "send_webhook" | "mcp";
  readonly secret: string;
  /** The path to the secret's name in tools_config. */
  readonly path: readonly PropertyKey[];
  readonly inject: unknown;
  readonly urls: readonly string[];
  readonly hosts: readonly string[] | null;
  readonly methods: readonly string[] | null;
  readonly paths: readonly string[] | null;
  /** The MCP server's tools that may be called with it. */
  readonly tools: readonly string[] | null;
}

/**
 * `given` with the names that its nulls stand for. Throws 403 where `caller` adds or widens a binding of `before`
 * without `secrets:write`, and 400 where a null stands for no binding of `before`.
 */
export function permittedTools({ scopes }: Scopes, given: ShownToolsConfig, before: ToolsConfig): ToolsConfig {
  const may_bind = scopes.includes("secrets:write");
  const deny = (path: readonly PropertyKey[]) =>
    errors.insufficientScope("secrets:write", paramOf(["tools_config", ...path]));
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

function unknownBinding(path: readonly PropertyKey[]): Error {
  const param = paramOf(["tools_config", ...path]);
  return errors.invalidValue(
    param,
    `${param}: null keeps a binding that is otherwise unchanged, and this one is new or changed. Name its secret.`,
  );
}

/** The path of the first binding that `before` does not allow, as written or as far as the tools' settings let it work. */
function firstWidened(after: ToolsConfig, before: ToolsConfig): readonly PropertyKey[] | null {
  return uncovered(bindingsOf(after), bindingsOf(before)) ?? uncovered(usableBindings(after), usableBindings(before));
}

function uncovered(after: SecretBinding[], before: SecretBinding[]): readonly PropertyKey[] | null {
  return after.find((binding) => !before.some((each) => covers(each, binding)))?.path ?? null;
}

/** Whether `wide` allows every use of the secret that `narrow` allows. */
function covers(wide: SecretBinding, narrow: SecretBinding): boolean {
  return (
    wide.tool === narrow.tool &&
    wide.secret === narrow.secret &&
    stableJson(wide.inject) === stableJson(narrow.inject) &&
    isSubset(narrow.urls, wide.urls) &&
    isWithinHosts(narrow.hosts, wide.hosts) &&
    isSubset(narrow.methods, wide.methods) &&
    isSubset(narrow.paths, wide.paths) &&
    isSubset(narrow.tools, wide.tools)
  );
}

function isSubset(narrow: readonly string[] | null, wide: readonly string[] | null): boolean {
  return wide === null || (narrow?.every((each) => wide.includes(each)) ?? false);
}

const UNLIMITED = { hosts: null, methods: null, paths: null, tools: null } as const;

/** Every binding as it is written, also of tools that are off. */
function bindingsOf({ web_fetch, send_webhook, mcp }: ToolsConfig): SecretBinding[] {
  const bindings: SecretBinding[] = (web_fetch?.auth ?? []).map((auth, index) => ({
    ...{ tool: "web_fetch", tools: null, urls: [], path: ["web_fetch", "auth", index, "secret"] },
    ...{ secret: auth.secret, inject: auth.inject, hosts: auth.hosts },
    ...{ methods: auth.methods ?? ["GET"], paths: auth.paths ?? null },
  }));
  if (send_webhook?.secret !== undefined) {
    const { secret, urls = [] } = send_webhook;
    bindings.push({ tool: "send_webhook", secret, path: ["send_webhook", "secret"], inject: null, urls, ...UNLIMITED });
  }
  for (const [index, { url, auth, tools = null }] of (mcp?.servers ?? []).entries()) {
    if (auth === undefined) continue;
    const { secret, inject, hosts = [new URL(url).host], methods = null, paths = null } = auth;
    const path = ["mcp", "servers", index, "auth", "secret"];
    bindings.push({ tool: "mcp", secret, path, inject, urls: [url], hosts, methods, paths, tools });
  }
  return bindings;
}

/** The bindings of tools that are on, as far as the tool's own hosts and methods let requests carry the secret. */
function usableBindings(config: ToolsConfig): SecretBinding[] {
  const { hosts, methods = ["GET"] } = config.web_fetch ?? {};
  return bindingsOf(config).flatMap((binding) => {
    if (!config[binding.tool]?.enabled) return [];
    if (binding.tool !== "web_fetch") return binding;
    const usable = {
      ...binding,
      hosts: commonHosts(binding.hosts ?? [], hosts),
      methods: binding.methods?.filter((method) => methods.some((each) => each === method)) ?? [],
    };
    return usable.hosts.length === 0 || usable.methods.length === 0 ? [] : usable;
  });
}

/** The hosts of both lists; a wildcard and a host that it takes in have that host in common. */
function commonHosts(bound: readonly string[], allowed: readonly string[] | undefined): readonly string[] {
  if (allowed === undefined) return bound;
  return bound.flatMap((host) => {
    if (isWithinHosts([host], allowed)) return host;
    return allowed.filter((each) => isWithinHosts([each], [host]));
  });
}

/** The settings of a binding, null in place of its secret's name. */
interface Nameable {
  readonly secret: string | null;
}

/** `given` with the names that its nulls keep. Throws what `refuse` makes of a null that keeps none. */
function withKeptNames(
  given: ShownToolsConfig,
  before: ToolsConfig,
  refuse: (path: readonly PropertyKey[]) => Error,
): ToolsConfig {
  const kept = structuredClone(given);
  const names = keptNames(kept.web_fetch?.auth ?? [], before.web_fetch?.auth ?? []);
  for (const [index, auth] of (kept.web_fetch?.auth ?? []).entries()) {
    auth.secret = names[index] ?? null;
    if (auth.secret === null) throw refuse(["web_fetch", "auth", index, "secret"]);
  }
  if (kept.send_webhook?.secret === null) {
    const secret = before.send_webhook?.secret;
    if (secret === undefined) throw refuse(["send_webhook", "secret"]);
    kept.send_webhook.secret = secret;
  }
  const servers = kept.mcp?.servers ?? [];
  const server_names = keptNames(servers.map(signInOf), (before.mcp?.servers ?? []).map(signInOf));
  for (const [index, { auth }] of servers.entries()) {
    if (auth === undefined) continue;
    auth.secret = server_names[index] ?? null;
    if (auth.secret === null) throw refuse(["mcp", "servers", index, "auth", "secret"]);
  }
  return kept as ToolsConfig;
}

/** The settings of an MCP server that say where its secret goes. */
function signInOf({ url, auth }: { url: string; auth?: Nameable | undefined }): Nameable & { url: string } {
  return { ...auth, secret: auth?.secret ?? null, url };
}

/**
 * The names of `given`. A null keeps the name of the stored binding whose other settings are the same. Where several
 * secrets have the same settings, they are told apart by their order, so all of them must be there. Null: unknown.
 */
function keptNames(given: readonly Nameable[], stored: readonly Nameable[]): (string | null)[] {
  const settingsOf = ({ secret: _, ...others }: Nameable) => stableJson(others);
  const given_settings = given.map(settingsOf);
  const stored_settings = stored.map(settingsOf);
  return given.map((binding, index) => {
    if (binding.secret !== null) return binding.secret;
    const isAlike = (settings: string | undefined) => settings === given_settings[index];
    const names = stored.filter((_, at) => isAlike(stored_settings[at])).map(({ secret }) => secret);
    const [name = null, ...others] = new Set(names);
    if (others.length === 0) return name;
    const alike = given.filter((_, at) => isAlike(given_settings[at]));
    const is_complete = alike.length === names.length;
    const is_in_order = alike.every(({ secret }, at) => secret === null || secret === names[at]);
    return is_complete && is_in_order ? (names[alike.indexOf(binding)] ?? null) : null;
  });
}

function withoutNames({ web_fetch, send_webhook, mcp }: ShownToolsConfig): ShownToolsConfig {
  const hidden: ShownToolsConfig = {};
  if (web_fetch !== undefined) {
    const { auth } = web_fetch;
    hidden.web_fetch =
      auth === undefined ? web_fetch : { ...web_fetch, auth: auth.map((each) => ({ ...each, secret: null })) };
  }
  if (send_webhook !== undefined) {
    hidden.send_webhook = send_webhook.secret === undefined ? send_webhook : { ...send_webhook, secret: null };
  }
  if (mcp !== undefined) {
    const servers = mcp.servers?.map((server) =>
      server.auth === undefined ? server : { ...server, auth: { ...server.auth, secret: null } },
    );
    hidden.mcp = servers === undefined ? mcp : { ...mcp, servers };
  }
  return hidden;
}
