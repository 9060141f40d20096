import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";
import { lengthPrefixed } from "./length-prefixed.ts";

/** Where a value belongs. Rebuilt by whoever opens it, so that a row that was moved or edited opens nothing. */
export interface Place {
  readonly user_id: string;
  readonly secret_id: string;
  readonly name: string;
  /** Of the value: counts its changes. */
  readonly version: number;
  /** null: any that the user's tools bind it to. */
  readonly allowed_hosts: readonly string[] | null;
}

/** A user's key in the clear. */
export interface DataKey {
  readonly version: number;
  readonly bytes: Uint8Array;
}

const FORMAT = "purser secret 1";
const ALGORITHM = "aes-256-gcm";
const SALT_BYTES = 32;
const KEY_BYTES = 32;
const COMMITMENT_BYTES = 32;
const TAG_BYTES = 16;
const TEXT_AT = SALT_BYTES + COMMITMENT_BYTES + TAG_BYTES;
/** The key of a value is made from a salt of its own and seals once, so that the nonce need not vary. */
const NONCE = Buffer.alloc(12);

/** What names a sealing: no two have the same first bytes. */
export const SEALING_ID_BYTES = SALT_BYTES;

function bindingOf(place: Place, data_key_version: number): Buffer {
  const hosts = place.allowed_hosts === null ? "any" : lengthPrefixed(place.allowed_hosts);
  return lengthPrefixed([
    FORMAT,
    ALGORITHM,
    place.user_id,
    place.secret_id,
    place.name,
    String(place.version),
    String(data_key_version),
    createHash("sha256").update(hosts).digest(),
  ]);
}

/** AES-GCM alone opens one text under several keys if they are chosen for it; the commitment pins the one. */
function valueKey(data_key: DataKey, salt: Uint8Array, binding: Buffer): { key: Buffer; commitment: Buffer } {
  // HKDF takes 1024 bytes of info; the binding's fields are bounded well below that.
  const derived = Buffer.from(hkdfSync("sha256", data_key.bytes, salt, binding, KEY_BYTES + COMMITMENT_BYTES));
  return { key: derived.subarray(0, KEY_BYTES), commitment: derived.subarray(KEY_BYTES) };
}

/** Seals `value` for `place`. Layout: salt (32) ‖ key commitment (32) ‖ tag (16) ‖ ciphertext. */
export function seal(value: string, place: Place, data_key: DataKey): Buffer {
  const binding = bindingOf(place, data_key.version);
  const salt = randomBytes(SALT_BYTES);
  const { key, commitment } = valueKey(data_key, salt, binding);
  const cipher = createCipheriv(ALGORITHM, key, NONCE);
  cipher.setAAD(binding);
  const text = Buffer.concat([cipher.update(value, "utf8"), cipher.final()]);
  return Buffer.concat([salt, commitment, cipher.getAuthTag(), text]);
}

/** The value sealed for `place`; null when it was sealed for another, under another key, or was changed. */
export function unseal(sealed: Uint8Array, place: Place, data_key: DataKey): string | null {
  if (sealed.length < TEXT_AT) return null;
  const binding = bindingOf(place, data_key.version);
  const { key, commitment } = valueKey(data_key, sealed.subarray(0, SALT_BYTES), binding);
  if (!timingSafeEqual(commitment, sealed.subarray(SALT_BYTES, SALT_BYTES + COMMITMENT_BYTES))) return null;
  const decipher = createDecipheriv(ALGORITHM, key, NONCE, { authTagLength: TAG_BYTES });
  decipher.setAAD(binding);
  decipher.setAuthTag(sealed.subarray(SALT_BYTES + COMMITMENT_BYTES, TEXT_AT));
  try {
    return Buffer.concat([decipher.update(sealed.subarray(TEXT_AT)), decipher.final()]).toString();
  } catch {
    return null;
  }
}
