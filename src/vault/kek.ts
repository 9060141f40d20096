import { createCipher } from "../platform/lib/cipher.ts";
import { monotonicMs } from "../platform/lib/clock.ts";
import { createAwsKms } from "./aws-kms.adapter.ts";
import { createGcpKms } from "./gcp-kms.adapter.ts";
import type { Keyring, MasterKey } from "./keyring.types.ts";
import type { Kek } from "./vault.types.ts";
import { createVaultTransit } from "./vault-transit.adapter.ts";

/** An unwrapped data key is cached this long, so that a permission withdrawn at the key service takes effect here. */
const CACHE_MS = 300_000;
const CACHE_MAX = 10_000;

/** The master keys of `keyring` by id, and the current one. */
export interface Keks {
  readonly current: Kek;
  get(id: string): Kek | undefined;
}

/** Creates the master keys. Sends no request to a key service yet. */
export function createKeks(keyring: Keyring): Keks {
  const [first, ...others] = keyring;
  const current = getKek(first);
  const all = new Map([current, ...others.map(getKek)].map((kek) => [kek.id, kek]));
  return { current, get: (id) => all.get(id) };
}

function getKek(master: MasterKey): Kek {
  switch (master.kind) {
    case "local":
      return localKek(master);
    case "aws-kms":
      return cached(createAwsKms(master));
    case "gcp-kms":
      return cached(createGcpKms(master));
    case "vault-transit":
      return cached(createVaultTransit(master));
  }
}

function localKek({ id, key }: { id: string; key: Uint8Array }): Kek {
  const cipher = createCipher(key, "vault data keys");
  return {
    id,
    wrap: async (data_key, context) => cipher.seal(data_key, context),
    unwrap: async (wrapped, context) => cipher.open(wrapped, context),
  };
}

/** Caches unwrapped keys in memory, so that using a secret does not wait for the key service. */
function cached(kek: Kek): Kek {
  const kept = new Map<string, { key: Promise<Buffer | null>; until_ms: number }>();
  return {
    id: kek.id,
    wrap: kek.wrap,
    unwrap(wrapped, context) {
      const name = `${context} ${Buffer.from(wrapped).toString("base64")}`;
      const known = kept.get(name);
      if (known !== undefined && known.until_ms > monotonicMs()) return known.key;
      const key = kek.unwrap(wrapped, context);
      if (kept.size >= CACHE_MAX) kept.clear();
      kept.set(name, { key, until_ms: monotonicMs() + CACHE_MS });
      key.then(
        (found) => found === null && kept.delete(name),
        () => kept.delete(name),
      );
      return key;
    },
  };
}
