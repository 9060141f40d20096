import { randomBytes } from "node:crypto";
import type { Db } from "../../src/platform/db/db.ts";
import { createSystemClock } from "../../src/platform/lib/clock.ts";
import { createOutbound } from "../../src/platform/net/outbound.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { createDataKeys } from "../../src/vault/data-keys.service.ts";
import { parseKeyring } from "../../src/vault/keyring.ts";
import { createVault } from "../../src/vault/vault.service.ts";
import type { OnSecretLeak, SecretUsage } from "../../src/vault/vault.types.ts";

/** A master key as PURSER_KEK writes it. */
export const newMasterKey = (id: string) => `${id}:${randomBytes(32).toString("base64")}`;

/** For vaults that use no authorization server. */
export const OAUTH = {
  outbound: createOutbound({ allow: [] }),
  identity: { redirect_uri: () => "https://purser.example/callback", client_metadata_url: () => null },
};

/** The vault of one node over `db`, with the master keys of `kek`. */
export function vaultNode(db: Db, kek: string, notify: OnSecretLeak = async () => {}, oauth = OAUTH) {
  const log = createLog("silent");
  const keys = createDataKeys({ db, keyring: parseKeyring(kek), log });
  return { keys, ...createVault({ db, clock: createSystemClock(), keys, log, notify, oauth }) };
}

/** A secret with its defaults, as the API passes it on. */
export const newSecret = (name: string, value: string, allowed_hosts: string[] | null = null) => ({
  name,
  value,
  description: "",
  allowed_hosts,
});

/** A use without a particular agent. */
export const usageAt = (url: string): SecretUsage => ({
  agent_id: null,
  run_id: null,
  tool: "web_fetch",
  url: new URL(url),
});
