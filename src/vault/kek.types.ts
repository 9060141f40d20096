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
