import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
} from "node:crypto";

/**
 * What binds a value to its row: the associated data of its cipher. It is rebuilt from the row before opening, so a
 * moved or edited row does not open.
 */
export interface RowIdentity {
  readonly user_id: string;
  readonly secret_id: string;
  readonly name: string;
  /** The version of the value; each change increments it. */
  readonly version: number;
  /** null allows every host that the user's tools name. */
  readonly allowed_hosts: readonly string[] | null;
  /** The value is the state of an oauth secret, which is never sent as it is. */
  readonly is_oauth?: boolean;
}

/** A user's data key, unwrapped. */
export interface DataKey {
  readonly version: number;
  readonly bytes: Uint8Array;
}

const FORMAT = "purser secret 1";
const OAUTH_FORMAT = "purser oauth secret 1";
const ALGORITHM = "aes-256-gcm";
const SALT_BYTES = 32;
const KEY_BYTES = 32;
const COMMITMENT_BYTES = 32;
const TAG_BYTES = 16;
const TEXT_AT = SALT_BYTES + COMMITMENT_BYTES + TAG_BYTES;
/** Each sealing has its own key from its own salt and uses it once, so the nonce can be constant. */
const NONCE = Buffer.alloc(12);

/** A sealing's id is its first bytes, the random salt. */
export const SEALING_ID_BYTES = SALT_BYTES;

function toBinding(identity: RowIdentity, data_key_version: number): Buffer {
  const hosts = identity.allowed_hosts === null ? "any" : lengthPrefixed(identity.allowed_hosts);
  return lengthPrefixed([
    identity.is_oauth === true ? OAUTH_FORMAT : FORMAT,
    ALGORITHM,
    identity.user_id,
    identity.secret_id,
    identity.name,
    String(identity.version),
    String(data_key_version),
    createHash("sha256").update(hosts).digest(),
  ]);
}

/** With AES-GCM alone, one ciphertext can open under several chosen keys. The commitment fixes the key. */
function valueKey(data_key: DataKey, salt: Uint8Array, binding: Buffer): { key: Buffer; commitment: Buffer } {
  // HKDF accepts 1024 bytes of info; the fields of the binding are far shorter.
  const derived = Buffer.from(hkdfSync("sha256", data_key.bytes, salt, binding, KEY_BYTES + COMMITMENT_BYTES));
  return { key: derived.subarray(0, KEY_BYTES), commitment: derived.subarray(KEY_BYTES) };
}

/** Seals `value` for the row with this identity. Layout: salt (32) ‖ key commitment (32) ‖ tag (16) ‖ ciphertext. */
export function seal(value: string, identity: RowIdentity, data_key: DataKey): Buffer {
  const binding = toBinding(identity, data_key.version);
  const salt = randomBytes(SALT_BYTES);
  const { key, commitment } = valueKey(data_key, salt, binding);
  const cipher = createCipheriv(ALGORITHM, key, NONCE);
  cipher.setAAD(binding);
  const text = Buffer.concat([cipher.update(value, "utf8"), cipher.final()]);
  return Buffer.concat([salt, commitment, cipher.getAuthTag(), text]);
}

/** Opens a value. Returns null when it was changed, or sealed for another row or under another key. */
export function unseal(sealed: Uint8Array, identity: RowIdentity, data_key: DataKey): string | null {
  if (sealed.length < TEXT_AT) return null;
  const binding = toBinding(identity, data_key.version);
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

/**
 * Encodes fields unambiguously: each as its length (4 bytes, big endian) and its bytes, so that no byte can move to
 * another field. Text is UTF-8.
 */
export function lengthPrefixed(fields: readonly (string | Uint8Array)[]): Buffer {
  return Buffer.concat(
    fields.flatMap((field) => {
      const bytes = typeof field === "string" ? Buffer.from(field) : field;
      const length = Buffer.alloc(4);
      length.writeUInt32BE(bytes.length);
      return [length, bytes];
    }),
  );
}

/**
 * The integrity MAC of all of a user's secrets: an HMAC under a subkey of their data key, written with every change. It
 * detects a row that was restored to an older version, which the row's own seal cannot.
 * @param entries one line per secret, ordered by id: id, version, sealing id, reflected or not
 */
export function computeIntegrityMac(data_key: DataKey, entries: readonly string[]): Buffer {
  const key = Buffer.from(hkdfSync("sha256", data_key.bytes, "", "purser manifest 1", 32));
  return createHmac("sha256", key)
    .update(lengthPrefixed([String(data_key.version), ...entries]))
    .digest();
}

/** Whether `mac` is the integrity MAC of `entries`. */
export function isIntegrityMacOf(mac: Uint8Array, data_key: DataKey, entries: readonly string[]): boolean {
  const expected = computeIntegrityMac(data_key, entries);
  return mac.length === expected.length && timingSafeEqual(mac, expected);
}
