import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from "node:crypto";

/**
 * Authenticated encryption under a key of the service. `open` needs the same `context` as `seal`: it binds the text to
 * its place.
 */
export interface Cipher {
  seal(plain: Uint8Array, context: string): Buffer;
  /** Returns null when the text was sealed with another key or context, or was changed. */
  open(sealed: Uint8Array, context: string): Buffer | null;
  /** HMAC-SHA256 under a separate key. Fingerprints can be compared, but do not help to guess the text. */
  fingerprint(text: Uint8Array, context: string): Buffer;
}

const ALGORITHM = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * AES-256-GCM under a subkey of `key` for `purpose` (HKDF-SHA256, so that no two uses share a key). Layout:
 * nonce ‖ tag ‖ ciphertext.
 */
export function createCipher(key: Uint8Array, purpose: string): Cipher {
  const subkey = (use: string) => Buffer.from(hkdfSync("sha256", key, "", `purser ${use}`, 32));
  const sealing = subkey(purpose);
  const comparing = subkey(`${purpose}: fingerprints`);
  return {
    seal(plain, context) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(ALGORITHM, sealing, nonce);
      cipher.setAAD(Buffer.from(context));
      const text = Buffer.concat([cipher.update(plain), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), text]);
    },
    open(sealed, context) {
      try {
        const decipher = createDecipheriv(ALGORITHM, sealing, sealed.subarray(0, NONCE_BYTES), {
          authTagLength: TAG_BYTES,
        });
        decipher.setAAD(Buffer.from(context));
        decipher.setAuthTag(sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
        return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]);
      } catch {
        return null;
      }
    },
    fingerprint: (text, context) => createHmac("sha256", comparing).update(`${context}\n`).update(text).digest(),
  };
}
