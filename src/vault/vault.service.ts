import { isListedHost, isWithinHosts, normalHost } from "../api/contract/hosts.ts";
import {
  findNamed,
  type NamedSecret,
  type NewSecret,
  type Secret,
  type SecretChange,
  type SecretUse,
} from "../api/contract/secrets.ts";
import { errors } from "../kernel/errors.ts";
import type { Db, Tx } from "../platform/db/db.ts";
import { addDays, type Clock } from "../platform/lib/clock.ts";
import { isUuid, newId } from "../platform/lib/ids.ts";
import type { Instant } from "../platform/lib/instant.ts";
import { stableJson } from "../platform/lib/json.ts";
import { SecretValue } from "../platform/lib/secret-value.ts";
import type { Outbound } from "../platform/net/outbound.ts";
import type { Log } from "../platform/telemetry/log.ts";
import type { DataKeys } from "./data-keys.service.ts";
import { vaultErrors } from "./errors.ts";
import { createOAuthRequests, type OAuthIdentity } from "./oauth.adapter.ts";
import { createOAuthSecrets, isForServer, OAUTH_TOOL } from "./oauth.service.ts";
import { type DataKey, seal, unseal } from "./seal.ts";
import { createVaultStore, type SealedRow, type SecretRow } from "./vault.store.ts";
import type { OnSecretLeak, OpenedSecret, Opening, SecretDisconnected, SecretUsage } from "./vault.types.ts";
import { createVaultChanges, rowIdentity } from "./vault-changes.ts";

/** How long the log keeps uses. */
const USES_KEPT_DAYS = 400;

/** Users' credentials: stored sealed, shown masked, opened only for tools. Owns `secret` and `secret_use`. */
export function createVault(deps: {
  db: Db;
  clock: Clock;
  keys: DataKeys;
  log: Log;
  /** Called once for each secret leak, in the transaction that records it: it may await SQL only. */
  notify?: OnSecretLeak;
  /** Called when an authorization server refuses an oauth secret, in the transaction that records it. */
  onDisconnect?: (event: SecretDisconnected, tx: Tx) => Promise<void>;
  oauth: { outbound: Outbound; identity: OAuthIdentity };
}) {
  const { db, clock, keys, log } = deps;
  const store = createVaultStore(db);

  const changes = createVaultChanges({ db, store, keys, log });
  const { change, own, throwTampered } = changes;
  const oauth = createOAuthSecrets({
    store,
    changes,
    keys,
    clock,
    requests: createOAuthRequests(deps.oauth),
    redirect_uri: deps.oauth.identity.redirect_uri,
    onDisconnect: async (event, tx) => deps.onDisconnect?.(event, tx),
  });
  const recordUse = async (secret: SecretRow, usage: SecretUsage, outcome: SecretUse["outcome"]) => {
    const { agent_id, run_id, tool, url } = usage;
    return store.recordUse({
      user_id: secret.user_id,
      secret_id: secret.id,
      id: newId(),
      secret_version: secret.version,
      agent_id,
      run_id,
      tool,
      host: url.host,
      outcome,
      used_at: clock.now(),
      allowed_hosts: secret.allowed_hosts,
    });
  };
  /** The secret of that name, ignoring case: it may have been deleted and stored again. */
  const toOpen = async (user_id: string, name: string) => {
    const found = await store.toOpen(user_id, name);
    if (found !== undefined) return found;
    const other = findNamed(await store.names(user_id), name);
    return other === undefined ? undefined : store.toOpen(user_id, other.name);
  };
  const open = async (user_id: string, name: string, usage: SecretUsage, is_renewed = false): Promise<Opening> => {
    const found = await toOpen(user_id, name);
    if (found === undefined || found.held.wrapped === null) return { status: "not_found" };
    const { secret, held } = found;
    const opened = await changes.opened(secret, held);
    const denial = opened === null ? ({ status: "unreadable" } as const) : explainDenial(secret, usage);
    if (opened === null || denial !== null) {
      const { status } = denial ?? { status: "unreadable" };
      await recordUse(secret, usage, status === "other_server" ? "host_refused" : status);
      return denial ?? { status: "unreadable" };
    }
    let texts = [opened.value];
    if (secret.oauth !== null) {
      const token = await oauth.token({ secret, ...opened }, usage, is_renewed);
      if (token.status === "renewed") return open(user_id, name, usage, true);
      if (token.status === "no_token") {
        await recordUse(secret, usage, "no_token");
        return token;
      }
      texts = [token.token, ...token.unsent];
    }
    // The row changed meanwhile, so read it again.
    if (!(await recordUse(secret, usage, "opened"))) return open(user_id, name, usage, is_renewed);
    return { status: "opened", secret: openedSecret(secret, texts) };
  };

  return {
    /** Stores a secret. Throws 409 name_taken or secret_limit_reached. */
    async create(user_id: string, wanted: NewSecret): Promise<Secret> {
      const { name, description, value, allowed_hosts } = wanted;
      if (wanted.oauth !== undefined) {
        return toRecord(await oauth.create(user_id, { name, description, oauth: wanted.oauth }));
      }
      if (value === undefined) throw errors.missingField("value");
      const key = await keys.toWrite(user_id);
      const row = newRow({ user_id, name, description, value, allowed_hosts }, key, clock.now());
      await changes.insert(row, key);
      return toRecord(row);
    },
    /** Lists secrets, newest first. `before_id` is the last one of the previous page. */
    async list(user_id: string, page: { limit: number; before_id: string | null }): Promise<Secret[]> {
      return (await store.secrets(user_id, page)).map(toRecord);
    },
    /** 404 when it is not the user's. */
    get: async (user_id: string, id: string): Promise<Secret> => toRecord(await own(user_id, id)),
    /** The secrets that the user's tools can refer to. */
    async names(user_id: string): Promise<NamedSecret[]> {
      return (await store.names(user_id)).map(({ name, is_oauth, allowed_hosts }) => ({
        name,
        only_tool: is_oauth ? OAUTH_TOOL : null,
        // The server of an oauth secret decides, and it is checked when it is sent.
        allowed_hosts: is_oauth ? null : allowed_hosts,
      }));
    },

    /** Changes the given fields. Throws 404, or 400 when more hosts are allowed without sending the value again. */
    async update(user_id: string, id: string, wanted: SecretChange): Promise<Secret> {
      const secret = await own(user_id, id);
      refuseOtherFields(secret, wanted);
      if (secret.oauth !== null) return toRecord((await oauth.update(secret, wanted)) ?? secret);
      const key = await keys.toWrite(user_id);
      return change(user_id, key, async (tx) => {
        const row = await store.sealed(tx, user_id, id);
        if (row === undefined) throw errors.notFound("This secret");
        const changed = changedRow(row, wanted, key) ?? throwTampered(user_id);
        const updated = { ...changed, updated_at: clock.now() };
        await store.update(tx, updated);
        return toRecord(updated);
      });
    },
    /** 404 when it is not the user's. */
    async remove(user_id: string, id: string): Promise<void> {
      await own(user_id, id);
      const key = await keys.toWrite(user_id);
      await change(user_id, key, async (tx) => {
        if (!(await store.remove(tx, user_id, id))) throw errors.notFound("This secret");
      });
    },
    /** Lists its uses, newest first. Throws 404 when it is not the user's. */
    async uses(user_id: string, id: string, page: { limit: number; before_id: string | null }): Promise<SecretUse[]> {
      return store.uses(user_id, (await own(user_id, id)).id, page);
    },

    /**
     * Opens the user's secret of that name for one request to `usage.url` and records the use first. Does not open a
     * secret that was deleted, changed or disabled meanwhile. Throws 503 vault_unavailable when its master key is
     * unreachable or rows were changed outside Purser.
     */
    open,

    /**
     * Records that a site returned this version of the secret: it does not open until its value changes. Notifies
     * subscribers once. Ignores a version that was replaced meanwhile.
     */
    async setReflected(reflected: {
      user_id: string;
      id: string;
      version: number;
      run_id: string | null;
    }): Promise<void> {
      const { user_id, id, version, run_id } = reflected;
      const key = await keys.toWrite(user_id);
      await change(user_id, key, async (tx) => {
        const row = await store.sealed(tx, user_id, id);
        if (row === undefined || row.version !== version || row.reflected_at !== null) return;
        await store.update(tx, { ...row, reflected_at: clock.now() });
        await deps.notify?.({ user_id, id, name: row.name, version, run_id }, tx);
      });
    },

    /** Begins the owner's sign-in for an oauth secret. `bound_to` names the session or key, which must end it too. */
    async connect(user_id: string, id: string, bound_to: string) {
      const secret = await own(user_id, id);
      if (secret.oauth === null) throw vaultErrors.notConnectable();
      return oauth.connect(secret, bound_to);
    },
    /** Ends a sign-in. The state names the secret; another user's secret is unknown. */
    async finishConnect(user_id: string, answer: Parameters<typeof oauth.finish>[1]) {
      const id = answer.state.split(".", 1)[0] ?? "";
      const secret = isUuid(id) ? await store.secret(user_id, id) : undefined;
      if (secret === undefined || secret.oauth === null) return { name: null, problem: "expired" as const };
      return { name: secret.name, problem: await oauth.finish(secret, answer) };
    },

    /** Destroys the key of a user who is being erased, and deletes their secrets and uses. */
    async erase(tx: Tx, user_id: string): Promise<void> {
      await keys.destroy(tx, user_id);
      await store.removeAll(tx, user_id);
    },
    /** Deletes old uses; called periodically. */
    sweep: () => store.deleteUsesBefore(addDays(clock.now(), -USES_KEPT_DAYS)),
  };
}

export type Vault = ReturnType<typeof createVault>;

/**
 * Applies `wanted` to the row and seals it again if its value or hosts change. Returns null when the current value does
 * not open.
 */
function changedRow(row: SealedRow, wanted: SecretChange, key: DataKey): SealedRow | null {
  const allowed_hosts = wanted.allowed_hosts === undefined ? row.allowed_hosts : normalHosts(wanted.allowed_hosts);
  if (wanted.value === undefined && !isWithinHosts(allowed_hosts, row.allowed_hosts)) {
    throw errors.invalidValue("value", "allowed_hosts allows more hosts. Send the secret's value together with it.");
  }
  const changed = { ...row, allowed_hosts, description: wanted.description ?? row.description };
  if (wanted.value === undefined && wanted.allowed_hosts === undefined) return changed;
  const present = unseal(row.sealed, rowIdentity(row), key);
  if (wanted.value === undefined) {
    return present === null ? null : { ...changed, sealed: seal(present, rowIdentity(changed), key) };
  }
  const revised = { ...changed, version: row.version + 1, masked_value: maskValue(wanted.value) };
  // A leaked value stays disabled, even if the user stores it again.
  const reflected_at = wanted.value === present ? row.reflected_at : null;
  return { ...revised, reflected_at, sealed: seal(wanted.value, rowIdentity(revised), key) };
}

/** The first text is the value to send; the others are never sent. */
function openedSecret(secret: SecretRow, texts: readonly string[]): OpenedSecret {
  const { id, name, version, oauth } = secret;
  const [value = new SecretValue(""), ...unsent] = texts.map((text) => new SecretValue(text));
  return { id, name, version, is_token: oauth !== null, value, unsent };
}

/** Why a request may not get the secret; null: it may. */
function explainDenial(secret: SealedRow, usage: SecretUsage) {
  const { reflected_at, allowed_hosts, oauth } = secret;
  if (reflected_at !== null) return { status: "reflected" } as const;
  if (oauth !== null && !isForServer(oauth, usage)) return { status: "other_server", server: oauth.server } as const;
  if (allowed_hosts !== null && !isListedHost(usage.url, allowed_hosts)) return { status: "host_refused" } as const;
  return null;
}

function refuseOtherFields({ oauth, allowed_hosts }: SecretRow, wanted: SecretChange): void {
  const others = oauth === null ? (["oauth"] as const) : (["value", "allowed_hosts"] as const);
  for (const field of others) {
    if (wanted[field] === undefined) continue;
    if (field === "allowed_hosts" && stableJson(wanted[field]) === stableJson(allowed_hosts)) continue;
    throw errors.invalidValue(
      field,
      `${field}: a secret of type ${oauth === null ? "value" : "oauth"} has none. Leave it out.`,
    );
  }
}

function normalHosts(hosts: readonly string[] | null): string[] | null {
  return hosts === null ? null : [...new Set(hosts.map(normalHost))];
}

function toRecord(row: SecretRow): Secret {
  const { id, name, description, masked_value, allowed_hosts, version } = row;
  const { created_at, updated_at, last_used_at, reflected_at, oauth } = row;
  const type = oauth === null ? ("value" as const) : ("oauth" as const);
  const shown = { id, name, type, description, masked_value, allowed_hosts, version };
  return { ...shown, created_at, updated_at, last_used_at, reflected_at, oauth };
}

type NewValue = Pick<SecretRow, "user_id" | "name" | "description" | "allowed_hosts"> & { value: string };

/** The row of a new secret, with its value sealed by the user's key. */
function newRow({ value, allowed_hosts, ...named }: NewValue, key: DataKey, now: Instant): SealedRow {
  const row = { ...named, id: newId(), allowed_hosts: normalHosts(allowed_hosts), oauth: null, version: 1 };
  const sealed = seal(value, rowIdentity(row), key);
  return {
    ...row,
    created_at: now,
    updated_at: now,
    last_used_at: null,
    reflected_at: null,
    masked_value: maskValue(value),
    sealed,
  };
}

const HIDDEN = "••••••••";
/**
 * contract 7: a shorter value is hidden completely, because four characters would reveal much of it (litellm#30764).
 */
const SHOWN_FROM_CHARACTERS = 20;
const LAST_CHARACTERS = 4;
/** A prefix is shown only if at least this many characters stay hidden. */
const HIDDEN_CHARACTERS = 8;

/**
 * Public key prefixes of vendors, from their documentation; docs/operating/keys.md lists them. A longer prefix comes
 * before its own beginning.
 */
export const VENDOR_PREFIXES = [
  ...["sk-ant-", "sk-proj-", "sk-or-", "sk-"], // Anthropic, OpenAI, OpenRouter
  ...["sk_live_", "sk_test_", "rk_live_", "rk_test_", "pk_live_", "pk_test_", "whsec_"], // Stripe, Standard Webhooks
  ...["github_pat_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-"], // GitHub, GitLab
  ...["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xapp-"], // Slack
  ...["AKIA", "ASIA", "AIza", "ya29."], // AWS, Google
  ...["npm_", "pypi-", "dckr_pat_", "hf_", "gsk_", "xai-", "pplx-"], // registries, model providers
  ...["SG.", "key-", "shpat_", "dop_v1_", "hvs.", "lin_api_", "secret_", "ntn_", "figd_", "sntrys_"], // SendGrid to Sentry
  "purser_live_",
];

/** Masks a value: contract 7. */
export function maskValue(value: string): string {
  const characters = [...value];
  if (characters.length < SHOWN_FROM_CHARACTERS || isStructured(value)) return HIDDEN;
  const most = characters.length - LAST_CHARACTERS - HIDDEN_CHARACTERS;
  const prefix = VENDOR_PREFIXES.find((each) => value.startsWith(each) && each.length <= most) ?? "";
  return `${prefix}${HIDDEN}${characters.slice(-LAST_CHARACTERS).join("")}`;
}

/** Whether the value has several lines or is PEM or JSON. Its last characters belong to the format. */
function isStructured(value: string): boolean {
  return /[\r\n\u0085\u2028\u2029]/.test(value) || value.includes("-----BEGIN") || /^\s*[{["]/.test(value);
}
