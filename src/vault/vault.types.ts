import type { Tx } from "../platform/db/db.ts";
import type { SecretValue } from "../platform/lib/secret-value.ts";

/** The intended use of a secret. */
export interface SecretUsage {
  readonly agent_id: string | null;
  readonly run_id: string | null;
  /** The tool's name in `tools_config`. */
  readonly tool: string;
  /** The address of the request. Only its host is stored. */
  readonly url: URL;
  /** The version of an oauth secret whose token the server did not accept: another token is needed. */
  readonly refused_version?: number | undefined;
}

/** An opened secret, as a tool receives it. */
export interface OpenedSecret {
  readonly id: string;
  readonly name: string;
  readonly version: number;
  readonly value: SecretValue;
  /** The other credentials of the same secret. Answers are searched for them, too. */
  readonly unsent?: readonly SecretValue[];
  /** The value is an access token, which can expire. */
  readonly is_token?: boolean;
}

/** The result of opening a secret. The log of uses records every result except `not_found`. */
export type Opening =
  | { readonly status: "opened"; readonly secret: OpenedSecret }
  | { readonly status: "not_found" }
  /** allowed_hosts does not include the host. */
  | { readonly status: "host_refused" }
  /** A site returned it, and its value has not changed since. */
  | { readonly status: "reflected" }
  /** Its row, or another row of the user, was changed outside Purser. */
  | { readonly status: "unreadable" }
  /** An oauth secret is for another server or another tool. */
  | { readonly status: "other_server"; readonly server: string }
  /** There is no token, and none could be had. `message` says why and what to do. */
  | { readonly status: "no_token"; readonly message: string };

/** A secret leak: a site returned the secret. */
export interface SecretLeak {
  readonly user_id: string;
  readonly id: string;
  readonly name: string;
  readonly version: number;
  readonly run_id: string | null;
}

/** An authorization server refuses an oauth secret. Its owner has to act. */
export interface SecretDisconnected {
  readonly user_id: string;
  readonly id: string;
  readonly name: string;
  readonly version: number;
  readonly server: string;
}

export type OnSecretLeak = (leak: SecretLeak, tx: Tx) => Promise<void>;

/** A master key, local or in a key service. It wraps data keys. */
export interface Kek {
  readonly id: string;
  /** `context` binds the wrapped key to its row; unwrap needs the same context. Rejects with KekUnavailableError. */
  wrap(data_key: Uint8Array, context: string): Promise<Buffer>;
  /** Returns null when this master key did not wrap it, or with another context. Rejects with KekUnavailableError. */
  unwrap(wrapped: Uint8Array, context: string): Promise<Buffer | null>;
}

/** The cause of a vault error: the key service, a data key that does not open, or rows that were changed. */
export const VAULT_FAILURES = ["key_service", "data_key", "rows"] as const;
export type VaultFailure = (typeof VAULT_FAILURES)[number];

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
