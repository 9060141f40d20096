import { createCipher } from "../platform/cipher.ts";
import { monotonicMs } from "../platform/clock.ts";
import { createAwsKms } from "./aws-kms.adapter.ts";
import { createGcpKms } from "./gcp-kms.adapter.ts";
import type { Kek } from "./kek.types.ts";
import type { Keyring, MasterKey } from "./keyring.types.ts";
import { createVaultTransit } from "./vault-transit.adapter.ts";

/** A key service is asked anew for a data key after this, so that a grant withdrawn there takes effect here. */
const CACHE_MS = 300_000;
const CACHE_MAX = 10_000;

/** The master keys of `keyring` by id, and the one that wraps from now on. */
export interface Keks {
  readonly current: Kek;
  get(id: string): Kek | undefined;
}

/** Makes the master keys usable. Nothing is asked of a key service yet. */
export function createKeks(keyring: Keyring): Keks {
  const [first, ...others] = keyring;
  const current = kekOf(first);
  const all = new Map([current, ...others.map(kekOf)].map((kek) => [kek.id, kek]));
  return { current, get: (id) => all.get(id) };
}

function kekOf(master: MasterKey): Kek {
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

/** Remembers what a key service unwrapped, in memory alone: without that, each use of a secret would wait for it. */
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
