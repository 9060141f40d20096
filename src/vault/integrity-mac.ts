import { createHmac, hkdfSync, timingSafeEqual } from "node:crypto";
import { type DataKey, lengthPrefixed } from "./seal.ts";

/**
 * The integrity MAC of all of a user's secrets: an HMAC under a subkey of their data key, written with every change. It
 * detects a row that was restored to an older version, which the row's own seal cannot.
 * @param entries one line per secret, ordered by id: id, version, sealing id, reflected or not
 */
export function integrityMacOf(data_key: DataKey, entries: readonly string[]): Buffer {
  const key = Buffer.from(hkdfSync("sha256", data_key.bytes, "", "purser manifest 1", 32));
  return createHmac("sha256", key)
    .update(lengthPrefixed([String(data_key.version), ...entries]))
    .digest();
}

/** Whether `mac` is the integrity MAC of `entries`. */
export function isIntegrityMacOf(mac: Uint8Array, data_key: DataKey, entries: readonly string[]): boolean {
  const expected = integrityMacOf(data_key, entries);
  return mac.length === expected.length && timingSafeEqual(mac, expected);
}
