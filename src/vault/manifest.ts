import { createHmac, hkdfSync, timingSafeEqual } from "node:crypto";
import { lengthPrefixed } from "./length-prefixed.ts";
import type { DataKey } from "./seal.ts";

/**
 * The seal over all of a user's secrets together: an HMAC of what is there, under a subkey of their data key, written
 * with every change. A value's own seal cannot tell that its row was put back to what it once was; this can.
 * @param entries one line for each secret, in the order of their ids: id, version, the sealing's id, reflected or not.
 */
export function manifestOf(data_key: DataKey, entries: readonly string[]): Buffer {
  const key = Buffer.from(hkdfSync("sha256", data_key.bytes, "", "purser manifest 1", 32));
  return createHmac("sha256", key)
    .update(lengthPrefixed([String(data_key.version), ...entries]))
    .digest();
}

/** Whether `manifest` is that of `entries`. */
export function isManifestOf(manifest: Uint8Array, data_key: DataKey, entries: readonly string[]): boolean {
  const expected = manifestOf(data_key, entries);
  return manifest.length === expected.length && timingSafeEqual(manifest, expected);
}
