import { askKeyService, readBytes } from "./key-service.adapter.ts";
import { type Kek, KekUnavailableError } from "./vault.types.ts";

export interface VaultTransitSettings {
  readonly id: string;
  /** VAULT_ADDR without a slash at its end. */
  readonly address: string;
  readonly token: string;
  readonly namespace: string | null;
  /** The mount path of the transit engine. */
  readonly mount: string;
  readonly key_name: string;
}

/**
 * A master key in the transit engine of HashiCorp Vault or OpenBao. It must be an AES-GCM key, which supports
 * associated data.
 */
export function createVaultTransit(settings: VaultTransitSettings): Kek {
  const { id, address, token, namespace, mount, key_name } = settings;
  const ask = (action: "encrypt" | "decrypt", fields: object, context: string) =>
    askKeyService(id, {
      url: `${address}/v1/${mount}/${action}/${key_name}`,
      headers: {
        "x-vault-token": token,
        "x-vault-request": "true",
        "content-type": "application/json",
        ...(namespace === null ? {} : { "x-vault-namespace": namespace }),
      },
      body: JSON.stringify({ ...fields, associated_data: Buffer.from(context).toString("base64") }),
    });
  return {
    id,
    async wrap(data_key, context) {
      const { status, body } = await ask("encrypt", { plaintext: Buffer.from(data_key).toString("base64") }, context);
      const { ciphertext } = toData(body);
      if (status !== 200 || typeof ciphertext !== "string") {
        throw new KekUnavailableError(id, `the transit engine answered ${status}`);
      }
      return Buffer.from(ciphertext); // text: `vault:v1:…`
    },
    async unwrap(wrapped, context) {
      const { status, body } = await ask("decrypt", { ciphertext: Buffer.from(wrapped).toString() }, context);
      if (status === 400) return null; // not a ciphertext of this key and context
      if (status !== 200) throw new KekUnavailableError(id, `the transit engine answered ${status}`);
      return readBytes(id, toData(body).plaintext);
    },
  };
}

function toData(body: Record<string, unknown>): Record<string, unknown> {
  return (body.data ?? {}) as Record<string, unknown>;
}
