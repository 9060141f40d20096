import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";

/** Authenticated encryption under the service's master keys. `context` must be the same on opening: it binds the text to its place. */
export interface Cipher {
  seal(plain: Uint8Array, context: string): Buffer;
  /** null when it was sealed under a key that is not here any more, in another context, or was changed. */
  open(sealed: Uint8Array, context: string): Buffer | null;
}

const ALGORITHM = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * AES-256-GCM under a subkey of the first of `keys` for `purpose` (HKDF-SHA256, so that no two uses share a key);
 * opens under any of them. Layout: nonce ‖ tag ‖ ciphertext.
 */
export function createCipher(keys: readonly { key: Buffer }[], purpose: string): Cipher {
  const subkeys = keys.map(({ key }) => Buffer.from(hkdfSync("sha256", key, "", `purser ${purpose}`, 32)));
  const [current] = subkeys;
  if (current === undefined) throw new Error("a cipher needs a key");

  const openWith = (subkey: Buffer, sealed: Uint8Array, context: string): Buffer | null => {
    try {
      const decipher = createDecipheriv(ALGORITHM, subkey, sealed.subarray(0, NONCE_BYTES));
      decipher.setAAD(Buffer.from(context));
      decipher.setAuthTag(sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
      return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]);
    } catch {
      return null;
    }
  };
  return {
    seal(plain, context) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(ALGORITHM, current, nonce);
      cipher.setAAD(Buffer.from(context));
      const text = Buffer.concat([cipher.update(plain), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), text]);
    },
    open(sealed, context) {
      for (const subkey of subkeys) {
        const plain = openWith(subkey, sealed, context);
        if (plain !== null) return plain;
      }
      return null;
    },
  };
}
