import { isListedHost } from "../../api/contract/hosts.ts";
import type { AuthSettings } from "../../api/contract/tools.ts";
import { PurserError } from "../../kernel/errors.ts";
import { type Credential, injectionPlace, MAX_CREDENTIALS } from "../../platform/net/credentials.ts";
import type { Outbound } from "../../platform/net/outbound.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { Vault } from "../../vault/vault.service.ts";
import type { OpenedSecret, Opening } from "../../vault/vault.types.ts";
import { failedCall, type RunRef, type ToolResult } from "./tools.types.ts";

/** The owner's settings for one secret: its hosts, methods and paths, and its place in the request. */
export type Binding = Pick<AuthSettings, "secret" | "hosts" | "methods" | "paths" | "inject">;

export interface CredentialsDeps {
  outbound: Pick<Outbound, "isConfidential" | "refusal" | "secretsIn">;
  vault: Pick<Vault, "open" | "setReflected">;
  log: Pick<Log, "error">;
}

/** A secret opened for one call, with its place in the request. */
export interface OpenedCredential extends Credential {
  readonly secret: OpenedSecret;
}

/** A request that a tool is about to make. */
export interface Intended {
  readonly url: URL;
  readonly method: string;
  readonly tool: string;
  readonly run: RunRef;
  readonly signal: AbortSignal;
  /** The versions of secrets whose tokens the server did not accept, by name. */
  readonly refused?: ReadonlyMap<string, number>;
}

/** Whether a request matches a binding's hosts, methods and paths. */
export function isBound({ hosts, methods = ["GET"], paths }: Binding, url: URL, method: string): boolean {
  if (!isListedHost(url, hosts) || !methods.some((each) => each === method)) return false;
  return paths === undefined || (!isAmbiguous(url.pathname) && paths.some((path) => matches(url.pathname, path)));
}

/** Why the owner's secrets were not sent with a request, one sentence each; empty if it carries one. */
export function explainUnsent(bindings: readonly Binding[], url: URL, method: string): string[] {
  if (bindings.some((binding) => isBound(binding, url, method))) return [];
  return bindings.map(({ secret, hosts, methods = ["GET"], paths }) => {
    const because = !isListedHost(url, hosts)
      ? `to ${hosts.join(", ")}, not to ${url.host}`
      : !methods.some((each) => each === method)
        ? `to the methods ${methods.join(", ")}, not to ${method}`
        : `to the paths ${(paths ?? []).join(", ")}`;
    return `The secret ${secret} was not sent: the agent's settings bind it ${because}.`;
  });
}

/**
 * Whether some servers may read this path as another one: encoded slashes, dots and controls, `..;`, empty segments,
 * invalid UTF-8 (`%c0%ae`, `%u002e`), or characters that normalization turns into a dot or slash (U+FF0E).
 */
function isAmbiguous(path: string): boolean {
  try {
    return OTHERWISE_READ.test(path) || OTHERWISE_READ.test(decodeURIComponent(path).normalize("NFKC"));
  } catch {
    return true;
  }
}

const OTHERWISE_READ = /%2f|%5c|%2e|%25|\.\.|\/\/|\\|\p{Cc}/iu;

/** Whether `path` matches `pattern`; `*` matches any text. The worst case takes time linear in the product of both. */
function matches(path: string, pattern: string): boolean {
  const [first = "", ...rest] = pattern.split("*");
  const last = rest.pop();
  if (last === undefined) return path === first;
  if (!path.startsWith(first)) return false;
  let at = first.length;
  for (const part of rest) {
    const found = path.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return path.length - at >= last.length && path.endsWith(last);
}

/**
 * Opens the secrets for a request, one for each place in it. Returns a failed step when a secret cannot be used or the
 * destination is blocked; a blocked destination opens no secret, so the log of uses never lists it.
 */
export async function openCredentials(
  bindings: readonly Binding[],
  intended: Intended,
  { outbound, vault }: CredentialsDeps,
): Promise<OpenedCredential[] | ToolResult> {
  const { url, method } = intended;
  const credentials: OpenedCredential[] = [];
  const bound = firstOfEachPlace(bindings.filter((each) => isBound(each, url, method)));
  if (bound.length > MAX_CREDENTIALS) {
    const names = bound.map(({ secret }) => secret).join(", ");
    return failedCall(
      "secret_refused",
      `${bound.length} secrets are bound to this request (${names}), and a request takes ${MAX_CREDENTIALS} at most; its owner has to narrow their hosts, methods or paths`,
    );
  }
  const refusal = bound.length === 0 ? null : await explainRefusal(intended, outbound);
  if (refusal !== null) return refusal;
  for (const binding of bound) {
    if (!outbound.isConfidential(url)) {
      return failedCall("egress_refused", `the secret ${binding.secret} is sent over https only`);
    }
    const secret = await openSecret(binding.secret, intended, vault);
    if ("status" in secret) return secret;
    credentials.push({
      name: binding.secret,
      user_id: intended.run.user_id,
      value: secret.value,
      unsent: secret.unsent ?? [],
      inject: binding.inject,
      secret,
      // The vault has checked the host, and no credential leaves the first origin.
      isFor: (at, by) => isBound(binding, at, by) && (secret.is_token !== true || isSame(at, url)),
    });
  }
  return credentials;
}

/** The bindings that a request uses. If several have the same place, the first one is used. */
function firstOfEachPlace(bindings: readonly Binding[]): Binding[] {
  const places = bindings.map(({ inject }) => injectionPlace(inject));
  return bindings.filter((_, index) => places.indexOf(places[index] as string) === index);
}

/**
 * Opens a secret that signs a request: it is not sent, and the answer is searched for it. Returns a failed step when it
 * cannot be used.
 */
export async function openSigningSecret(
  name: string,
  intended: Intended,
  { outbound, vault }: CredentialsDeps,
): Promise<OpenedCredential | ToolResult> {
  const refusal = await explainRefusal(intended, outbound);
  if (refusal !== null) return refusal;
  const secret = await openSecret(name, intended, vault);
  if ("status" in secret) return secret;
  return { name, user_id: intended.run.user_id, value: secret.value, inject: null, secret, isFor: () => true };
}

async function explainRefusal(
  { url, signal }: Intended,
  outbound: CredentialsDeps["outbound"],
): Promise<ToolResult | null> {
  const refusal = await outbound.refusal(url, signal);
  return refusal === null ? null : failedCall("egress_refused", `${refusal.message} (${url.host}); nothing was sent`);
}

async function openSecret(
  name: string,
  { url, tool, run, refused }: Intended,
  vault: CredentialsDeps["vault"],
): Promise<OpenedSecret | ToolResult> {
  const { user_id, agent_id, run_id } = run;
  try {
    const opening = await vault.open(user_id, name, {
      agent_id,
      run_id,
      tool,
      url,
      refused_version: refused?.get(name),
    });
    return opening.status === "opened" ? opening.secret : unusable(name, opening);
  } catch (error) {
    if (!(error instanceof PurserError)) throw error;
    return failedCall("vault_unavailable", `the secret ${name} cannot be opened now: ${error.message}`);
  }
}

function unusable(name: string, opening: Exclude<Opening, { status: "opened" }>): ToolResult {
  switch (opening.status) {
    case "not_found":
      return failedCall("secret_missing", `the secret ${name} is not there any more; its owner has to store it again`);
    case "host_refused":
      return failedCall("secret_refused", `the secret ${name} may not be sent to this host: its allowed_hosts say so`);
    case "reflected":
      return failedCall(
        "secret_refused",
        `the secret ${name} was sent back by a site; its owner has to change its value`,
      );
    case "other_server":
      return failedCall(
        "secret_refused",
        `the secret ${name} is for the MCP server ${opening.server} only, at exactly this address`,
      );
    case "no_token":
      return failedCall("secret_refused", `the secret ${name} has no token: ${opening.message}`);
    case "unreadable":
      return failedCall("secret_refused", `the secret ${name} cannot be opened: the vault's rows were changed`);
  }
}

/** Without the fragment, which is never sent. A token is for exactly one address, also after redirects. */
function isSame(a: URL, b: URL): boolean {
  return a.origin === b.origin && a.pathname === b.pathname && a.search === b.search;
}

/**
 * Searches texts from the safety layer for secrets, because the safety layer joins text that a page had split. Returns
 * a failed step when they hold a secret or cannot be searched; null when they may be used.
 */
export async function leakIn(
  texts: readonly string[],
  { credentials, run }: { credentials: readonly OpenedCredential[]; run: RunRef },
  deps: CredentialsDeps,
): Promise<ToolResult | null> {
  if (credentials.length === 0) return null;
  const names = await deps.outbound.secretsIn([Buffer.from(texts.join("\n"))], credentials);
  if (names === null) {
    const message = "the answer could not be searched for secrets in time and was discarded; go on without it";
    return failedCall("unsupported_content", message);
  }
  return names.length === 0 ? null : await reflected(names, { credentials, run }, deps);
}

/**
 * Takes secrets that a site sent back out of use. Returns the failed step that ends the run, also when the vault is
 * unavailable.
 */
export async function reflected(
  names: readonly string[],
  { credentials, run }: { credentials: readonly OpenedCredential[]; run: RunRef },
  { vault, log }: Pick<CredentialsDeps, "vault" | "log">,
): Promise<ToolResult> {
  const { user_id, run_id } = run;
  let outcome = "the secret is not used again until its value is changed";
  for (const { secret } of credentials.filter(({ name }) => names.includes(name))) {
    try {
      await vault.setReflected({ user_id, id: secret.id, version: secret.version, run_id });
    } catch (error) {
      log.error(
        { user_id, secret_id: secret.id, error },
        "a tool returned a secret, which could not be taken out of use: its owner must change its value",
      );
      outcome = "the secret could not be taken out of use: change its value";
    }
  }
  return failedCall(
    "secret_reflected",
    `a site sent the secret ${names.join(", ")} back; its answer was discarded, and ${outcome}`,
  );
}
