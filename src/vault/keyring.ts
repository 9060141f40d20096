import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseKeyService } from "./key-service-settings.ts";
import type { Keyring, MasterKey } from "./keyring.types.ts";

/** The format of a keyring, for messages. */
export const KEYRING_FORMAT =
  "id:base64 of 32 bytes, or id:aws-kms:…, id:gcp-kms:…, id:vault-transit:…, more of them after commas, the current one first";

/** The service cannot run with these master keys. The message is one line that begins with the variable's name. */
export class KeyringError extends Error {
  constructor(problem: string) {
    super(`PURSER_KEK: ${problem}`);
    this.name = "KeyringError";
  }
}

const KEY_BYTES = 32;
const KEY_ID = /^[A-Za-z0-9_.-]{1,64}$/;

/**
 * Parses `id:base64(32 bytes)[,id:…]`; line breaks also separate keys. `env` supplies the settings of key services. The error never contains key material.
 */
export function parseKeyring(text: string, env: Record<string, string | undefined> = {}): Keyring {
  if (text.startsWith("file:/"))
    throw new Error("it names a file: set PURSER_KEK_FILE to the path of that file instead");
  const parts = text.split(/,\s*|\s*\n\s*/).map((part, index) => parseMasterKey(part.trim(), index + 1, env));
  const [first, ...others] = parts;
  if (first === undefined) throw new Error("it is empty");
  const seen = new Set([first.id]);
  for (const { id } of others) {
    if (seen.has(id)) throw new Error(`the id ${id} stands twice`);
    seen.add(id);
  }
  return [first, ...others];
}

function parseMasterKey(part: string, position: number, env: Record<string, string | undefined>): MasterKey {
  const colon = part.indexOf(":");
  const id = part.slice(0, Math.max(colon, 0));
  if (!KEY_ID.test(id)) throw new Error(`key ${position} has no id of letters, digits, "_", "." or "-" before a colon`);
  const encoded = part.slice(colon + 1);
  if (encoded.includes(":")) return parseKeyService(id, encoded, env);
  const key = Buffer.from(encoded, "base64");
  // Buffer.from ignores invalid base64, so compare the text with the encoding of its bytes.
  const unpadded = (base64: string) => base64.replace(/=+$/, "");
  if (unpadded(key.toString("base64")) !== unpadded(encoded)) throw new Error(`key ${position} is not valid base64`);
  if (key.length !== KEY_BYTES) throw new Error(`key ${position} has ${key.length} bytes, not ${KEY_BYTES}`);
  return { kind: "local", id, key };
}

/** The keyring of embedded storage, and a warning when it was just created. */
export interface LoadedKeyring {
  readonly keyring: Keyring;
  readonly warning: string | null;
}

/**
 * Reads `keyring` in `data_dir`, or creates it with one new key, readable only by its owner. Throws with the file's
 * name when it is unreadable or invalid. Never overwrites a file.
 */
export function loadKeyring(data_dir: string): LoadedKeyring {
  const path = join(data_dir, "keyring");
  const made = `local:${randomBytes(KEY_BYTES).toString("base64")}\n`;
  mkdirSync(data_dir, { recursive: true, mode: 0o700 });
  try {
    writeFileSync(path, made, { mode: 0o600, flag: "wx", flush: true });
    const warning = `PURSER_KEK is not set: a master key was created at ${path}. Back it up, or set PURSER_KEK. Without it no stored secret can be read.`;
    return { keyring: parseKeyring(made.trim()), warning };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  try {
    return { keyring: parseKeyring(readFileSync(path, "utf8").trim()), warning: null };
  } catch (error) {
    throw new Error(`${path} cannot be used: ${(error as Error).message}. Restore it, or set PURSER_KEK.`, {
      cause: error,
    });
  }
}

/**
 * Runs `use` with the keyring in `data_dir`, or with a new one. If the stored keys need another one, the key was lost. Then
 * the new file is deleted: the next start reports the loss too, and the new file is not taken for the lost one.
 */
export async function withKeyring<T>(data_dir: string, use: (loaded: LoadedKeyring) => Promise<T>): Promise<T> {
  const path = join(data_dir, "keyring");
  const was_there = existsSync(path);
  try {
    return await use(loadKeyring(data_dir));
  } catch (error) {
    if (was_there || !(error instanceof KeyringError)) throw error;
    rmSync(path, { force: true });
    throw new KeyringError(
      `it is not set, and ${path} is missing: the database needs its master key. Restore that file, or set PURSER_KEK to the key`,
    );
  }
}
