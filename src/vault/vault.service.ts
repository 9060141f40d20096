import { isListedHost, isWithinHosts, normalHost } from "../contract/hosts.ts";
import type { NewSecret, Secret, SecretChange, SecretUse } from "../contract/secrets.ts";
import { errors } from "../errors.ts";
import { addDays, type Clock } from "../platform/clock.ts";
import type { Db, Tx } from "../platform/db.ts";
import { isUuid, newId } from "../platform/ids.ts";
import type { Log } from "../platform/log.ts";
import { SecretValue } from "../platform/secret-value.ts";
import type { DataKeys } from "./data-keys.service.ts";
import { type DataKey, integrityMacOf, isIntegrityMacOf, type Place, seal, unseal } from "./seal.ts";
import { createVaultStore, type SealedRow, type SecretRow } from "./vault.store.ts";
import type { OnSecretLeak, Opening, SecretUsage } from "./vault.types.ts";

const MAX_SECRETS = 1000;
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
}) {
  const { db, clock, keys, log } = deps;
  const store = createVaultStore(db);

  const throwTampered = (user_id: string): never => {
    log.error({ user_id }, "The secrets do not match their user's integrity MAC. Rows were changed outside Purser.");
    throw errors.vaultUnavailable();
  };
  /** Changes the user's secrets one change at a time and writes the new integrity MAC. */
  const change = async <T>(user_id: string, key: DataKey, work: (tx: Tx, count: number) => Promise<T>): Promise<T> =>
    db.transaction(async (tx) => {
      const held = await store.lock(tx, user_id);
      if (held === undefined || held.wrapped === null) throw errors.notFound("This user"); // the user was erased meanwhile
      // Never sign rows that do not match the current MAC.
      if (!isIntegrityMacOf(held.manifest ?? new Uint8Array(), key, held.entries)) throwTampered(user_id);
      const result = await work(tx, held.entries.length);
      await store.setIntegrityMac(tx, user_id, integrityMacOf(key, await store.entries(tx, user_id)));
      return result;
    });
  const own = async (user_id: string, id: string): Promise<SecretRow> => {
    const row = isUuid(id) ? await store.secret(user_id, id) : undefined;
    if (row === undefined) throw errors.notFound("This secret");
    return row;
  };
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
  const open = async (user_id: string, name: string, usage: SecretUsage): Promise<Opening> => {
    const found = await store.toOpen(user_id, name);
    if (found === undefined || found.held.wrapped === null) return { status: "not_found" };
    const { secret, held } = found;
    const deny = async (status: Exclude<Opening["status"], "opened" | "not_found">): Promise<Opening> => {
      await recordUse(secret, usage, status);
      return { status };
    };
    const key = await keys.unwrap({ ...held, user_id, wrapped: held.wrapped as Uint8Array });
    const intact = isIntegrityMacOf(held.manifest ?? new Uint8Array(), key, held.entries);
    const value = intact ? unseal(secret.sealed, placeOf(secret), key) : null;
    if (value === null) {
      log.error({ user_id, secret_id: secret.id }, "A secret does not open. Rows were changed outside Purser.");
      return deny("unreadable");
    }
    if (secret.reflected_at !== null) return deny("reflected");
    if (secret.allowed_hosts !== null && !isListedHost(usage.url, secret.allowed_hosts)) return deny("host_refused");
    // The row changed meanwhile, so read it again.
    if (!(await recordUse(secret, usage, "opened"))) return open(user_id, name, usage);
    const { id, version, allowed_hosts } = secret;
    return { status: "opened", secret: { id, name, version, allowed_hosts, value: new SecretValue(value) } };
  };

  return {
    /** Stores a secret. Throws 409 name_taken or secret_limit_reached. */
    async create(user_id: string, wanted: NewSecret): Promise<Secret> {
      const key = await keys.toWrite(user_id);
      const { value, ...shown } = wanted;
      const now = clock.now();
      const place = {
        ...shown,
        user_id,
        id: newId(),
        allowed_hosts: normalHosts(wanted.allowed_hosts),
        version: 1,
      };
      const row: SealedRow = {
        ...place,
        masked_value: maskOf(value),
        sealed: seal(value, placeOf(place), key),
        created_at: now,
        updated_at: now,
        last_used_at: null,
        reflected_at: null,
      };
      await change(user_id, key, async (tx, count) => {
        if (count >= MAX_SECRETS) {
          throw errors.secretLimitReached(MAX_SECRETS);
        }
        if (!(await store.insert(tx, row))) throw errors.nameTaken(`A secret named ${row.name}`);
      });
      return recordOf(row);
    },
    /** Lists secrets, newest first. `before_id` is the last one of the previous page. */
    async list(user_id: string, page: { limit: number; before_id: string | null }): Promise<Secret[]> {
      return (await store.secrets(user_id, page)).map(recordOf);
    },
    /** 404 when it is not the user's. */
    get: async (user_id: string, id: string): Promise<Secret> => recordOf(await own(user_id, id)),
    /** The names that the user's tools can refer to. */
    names: async (user_id: string): Promise<ReadonlySet<string>> => new Set(await store.names(user_id)),

    /** Changes the given fields. Throws 404, or 400 when more hosts are allowed without sending the value again. */
    async update(user_id: string, id: string, wanted: SecretChange): Promise<Secret> {
      await own(user_id, id);
      const key = await keys.toWrite(user_id);
      return change(user_id, key, async (tx) => {
        const row = await store.sealed(tx, user_id, id);
        if (row === undefined) throw errors.notFound("This secret");
        const changed = changedRow(row, wanted, key) ?? throwTampered(user_id);
        const updated = { ...changed, updated_at: clock.now() };
        await store.update(tx, updated);
        return recordOf(updated);
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
  const present = unseal(row.sealed, placeOf(row), key);
  if (wanted.value === undefined) {
    return present === null ? null : { ...changed, sealed: seal(present, placeOf(changed), key) };
  }
  const revised = { ...changed, version: row.version + 1, masked_value: maskOf(wanted.value) };
  // A leaked value stays disabled, even if the user stores it again.
  const reflected_at = wanted.value === present ? row.reflected_at : null;
  return { ...revised, reflected_at, sealed: seal(wanted.value, placeOf(revised), key) };
}

function placeOf(row: Pick<SecretRow, "user_id" | "id" | "name" | "version" | "allowed_hosts">): Place {
  const { user_id, id, name, version, allowed_hosts } = row;
  return { user_id, secret_id: id, name, version, allowed_hosts };
}

function normalHosts(hosts: readonly string[] | null): string[] | null {
  return hosts === null ? null : [...new Set(hosts.map(normalHost))];
}

function recordOf(row: SecretRow): Secret {
  const { id, name, description, masked_value, allowed_hosts, version } = row;
  const { created_at, updated_at, last_used_at, reflected_at } = row;
  const shown = { id, name, description, masked_value, allowed_hosts, version };
  return { ...shown, created_at, updated_at, last_used_at, reflected_at };
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
export function maskOf(value: string): string {
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
