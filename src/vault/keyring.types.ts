import type { AwsKmsSettings } from "./aws-kms.adapter.ts";
import type { GcpKmsSettings } from "./gcp-kms.adapter.ts";
import type { VaultTransitSettings } from "./vault-transit.adapter.ts";

/** One master key of the vault: local or in a key service. The rows that it wraps contain its id. */
export type MasterKey =
  | { readonly kind: "local"; readonly id: string; readonly key: Buffer }
  | ({ readonly kind: "aws-kms" } & AwsKmsSettings)
  | ({ readonly kind: "gcp-kms" } & GcpKmsSettings)
  | ({ readonly kind: "vault-transit" } & VaultTransitSettings);

/** The vault's master keys. The first is current; the others only unwrap keys that they wrapped earlier. */
export type Keyring = readonly [MasterKey, ...MasterKey[]];
