import type { AwsKmsSettings } from "./aws-kms.adapter.ts";
import type { GcpKmsSettings } from "./gcp-kms.adapter.ts";
import type { VaultTransitSettings } from "./vault-transit.adapter.ts";

/** A master key, local or in a key service. It wraps data keys. */
export interface Kek {
  readonly id: string;
  /** `context` binds the wrapped key to its row; unwrap needs the same context. Rejects with KekUnavailableError. */
  wrap(data_key: Uint8Array, context: string): Promise<Buffer>;
  /** Returns null when this master key did not wrap it, or with another context. Rejects with KekUnavailableError. */
  unwrap(wrapped: Uint8Array, context: string): Promise<Buffer | null>;
}

/**
 * A key service did not answer, or answered with an error. The message names the master key and never contains key
 * material.
 */
export class KekUnavailableError extends Error {
  constructor(kek_id: string, reason: string, options?: ErrorOptions) {
    super(`the master key ${kek_id} cannot be used: ${reason}`, options);
    this.name = "KekUnavailableError";
  }
}

/** One master key of the vault: local or in a key service. The rows that it wraps contain its id. */
export type MasterKey =
  | { readonly kind: "local"; readonly id: string; readonly key: Buffer }
  | ({ readonly kind: "aws-kms" } & AwsKmsSettings)
  | ({ readonly kind: "gcp-kms" } & GcpKmsSettings)
  | ({ readonly kind: "vault-transit" } & VaultTransitSettings);

/** The vault's master keys. The first is current; the others only unwrap keys that they wrapped earlier. */
export type Keyring = readonly [MasterKey, ...MasterKey[]];
