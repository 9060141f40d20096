import type { AwsKmsSettings } from "./aws-kms.adapter.ts";
import type { GcpKmsSettings } from "./gcp-kms.adapter.ts";
import type { VaultTransitSettings } from "./vault-transit.adapter.ts";

/** One master key of the vault, named by an id that the rows it wraps carry: here, or with a key service. */
export type MasterKey =
  | { readonly kind: "local"; readonly id: string; readonly key: Buffer }
  | ({ readonly kind: "aws-kms" } & AwsKmsSettings)
  | ({ readonly kind: "gcp-kms" } & GcpKmsSettings)
  | ({ readonly kind: "vault-transit" } & VaultTransitSettings);

/** The vault's master keys; the first is current, the others only open what they once wrapped. */
export type Keyring = readonly [MasterKey, ...MasterKey[]];
