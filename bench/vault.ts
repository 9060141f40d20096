import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { createAccounts } from "../src/account/users/accounts.service.ts";
import { createAccountsStore } from "../src/account/users/accounts.store.ts";
import { createAuthentication } from "../src/account/users/authentication.ts";
import { openDb } from "../src/platform/db/open-db.ts";
import { createSystemClock } from "../src/platform/lib/clock.ts";
import { createLog } from "../src/platform/telemetry/log.ts";
import { createDataKeys } from "../src/vault/data-keys.service.ts";
import { parseKeyring } from "../src/vault/keyring.ts";
import { type RowIdentity, seal, unseal } from "../src/vault/seal.ts";
import { createVault } from "../src/vault/vault.service.ts";
import { type PostgresServer, startPostgres } from "../test/support/postgres-server.ts";
import { OAUTH } from "../test/support/vault.ts";
import type { Effort, Outcome } from "./support/outcome.ts";
import { createPlace } from "./support/service.ts";
import { inTurn, median, medianOf } from "./support/statistics.ts";

const VALUE = "sk_live_0123456789abcdefghijklmnopqrstuv";
const OPERATIONS = 20_000;
const STORED = 500;
const USAGE = { agent_id: null, run_id: null, tool: "bench", url: new URL("https://api.example.com/") };

/** The vault's cryptography beside bare AES-GCM, storing and opening secrets, and the check of an API key. */
export async function vault(effort: Effort): Promise<Outcome> {
  const contenders = cryptography(Math.ceil(OPERATIONS * effort.scale));
  const rounds = await inTurn(contenders, effort.rounds);
  const per_second = (name: string) => medianOf(rounds.get(name), (each) => each);
  const server = await startPostgres();
  try {
    const stored = [await storage(null, effort), await storage(server, effort)];
    const p50 = (figure: "check_warm_us" | "check_cold_us") => stored[1]?.[figure] ?? Number.NaN;
    return {
      name: "vault",
      title: "Vault and API keys",
      tables: [
        {
          caption: `A value of ${VALUE.length} bytes, in memory, one thread`,
          columns: ["per second"],
          rows: [...contenders.keys()].map((name) => ({ name, values: [per_second(name)] })),
          drawn: [0],
        },
        {
          caption: "Secrets in the database, one caller; checks of an API key, p50",
          columns: ["stored per second", "opened per second", "check, cached, µs", "check, not cached, µs"],
          rows: stored.map((each) => ({
            name: each.name,
            values: [each.created, each.opened, each.check_warm_us, each.check_cold_us],
          })),
        },
      ],
      ratios: [
        { of: "seal", to: "bare AES-GCM", value: per_second("seal") / per_second("bare encrypt"), goal: "≥ 0.1" },
        { of: "open", to: "bare AES-GCM", value: per_second("open") / per_second("bare decrypt"), goal: "≥ 0.1" },
        { of: "check of a cached key", to: "50 µs", value: p50("check_warm_us") / 50, goal: "≤ 1" },
        { of: "check of a key that is not cached", to: "2 ms", value: p50("check_cold_us") / 2000, goal: "≤ 1" },
      ],
    };
  } finally {
    await server.stop();
  }
}

/** Each runs `count` operations and returns their number per second. */
function cryptography(count: number): Map<string, () => Promise<number>> {
  const key = randomBytes(32);
  const data_key = { version: 1, bytes: key };
  const place: RowIdentity = {
    user_id: "u".repeat(36),
    secret_id: "s".repeat(36),
    name: "TOKEN",
    version: 1,
    allowed_hosts: null,
  };
  const encrypt = () => {
    const nonce = randomBytes(12);
    const cipher = createCipheriv("aes-256-gcm", key, nonce);
    return { nonce, text: Buffer.concat([cipher.update(VALUE), cipher.final()]), tag: cipher.getAuthTag() };
  };
  const encrypted = encrypt();
  const decrypt = () => {
    const decipher = createDecipheriv("aes-256-gcm", key, encrypted.nonce).setAuthTag(encrypted.tag);
    return Buffer.concat([decipher.update(encrypted.text), decipher.final()]).toString();
  };
  const sealed = seal(VALUE, place, data_key);
  const rate = (operation: () => unknown) => async () => {
    const from_ms = performance.now();
    for (let n = 0; n < count; n += 1) operation();
    return (count * 1000) / (performance.now() - from_ms);
  };
  return new Map([
    ["bare encrypt", rate(encrypt)],
    ["seal", rate(() => seal(VALUE, place, data_key))],
    ["bare decrypt", rate(decrypt)],
    ["open", rate(() => unseal(sealed, place, data_key))],
  ]);
}

async function storage(server: PostgresServer | null, effort: Effort) {
  const place = await createPlace(server);
  const [clock, log] = [createSystemClock(), createLog("silent")];
  const db = await openDb({ database_url: place.database_url, data_dir: place.folder, log });
  const keyring = parseKeyring(`bench:${randomBytes(32).toString("base64")}`);
  const secrets = createVault({ db, clock, keys: createDataKeys({ db, keyring, log }), log, oauth: OAUTH });
  const accounts = await createAccounts({ db, clock });
  const { user, api_key } = await db.transaction((tx) =>
    accounts.createUser(tx, { email: "bench@example.com", key_name: "bench" }),
  );
  const count = Math.ceil(STORED * effort.scale);
  const created = await perSecond(count, (n) =>
    secrets.create(user.id, { name: `S${n}`, value: VALUE, description: "", allowed_hosts: null }),
  );
  const opened = await perSecond(count, (n) => secrets.open(user.id, `S${n}`, USAGE));

  const authorization = `Bearer ${api_key.key}`;
  const warm = await latencies(count, () => accounts.authenticate(authorization));
  // A node that has just started has an empty key cache.
  const store = createAccountsStore(db);
  const nodes = await Promise.all(Array.from({ length: count }, () => createAuthentication({ db, clock, store })));
  const cold = await latencies(count, (n) => nodes[n]?.authenticate(authorization) ?? Promise.reject());
  for (const node of nodes) await node.close();
  await accounts.close();
  await db.close();
  await place.drop();
  const name = place.storage === "postgres" ? "PostgreSQL" : "embedded";
  return { name, created, opened, check_warm_us: warm, check_cold_us: cold };
}

async function perSecond(count: number, operation: (n: number) => Promise<unknown>): Promise<number> {
  const from_ms = performance.now();
  for (let n = 0; n < count; n += 1) await operation(n);
  return (count * 1000) / (performance.now() - from_ms);
}

/** The median of single operations, in microseconds. */
async function latencies(count: number, operation: (n: number) => Promise<unknown>): Promise<number> {
  const took: number[] = [];
  for (let n = 0; n < count; n += 1) {
    const from_ms = performance.now();
    await operation(n);
    took.push((performance.now() - from_ms) * 1000);
  }
  return median(took);
}
