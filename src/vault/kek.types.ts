/** A master key: it wraps data keys, and is here itself only when it is a local one. */
export interface Kek {
  readonly id: string;
  /** `context` binds the wrapped key to its row: unwrapping takes the same. Rejects with KekUnavailableError. */
  wrap(data_key: Uint8Array, context: string): Promise<Buffer>;
  /** null: this master key did not wrap that, or not in this context. Rejects with KekUnavailableError. */
  unwrap(wrapped: Uint8Array, context: string): Promise<Buffer | null>;
}

/** A key service did not answer, or refused for a reason of its own. The message names the key and never holds one. */
export class KekUnavailableError extends Error {
  constructor(kek_id: string, reason: string, options?: ErrorOptions) {
    super(`the master key ${kek_id} cannot be used: ${reason}`, options);
    this.name = "KekUnavailableError";
  }
}
