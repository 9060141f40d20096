import type { Cipher } from "../../platform/lib/cipher.ts";

/**
 * The parts of an answer that its provider needs back unchanged and that other APIs have no field for: reasoning with its
 * signatures, and signatures of tool calls. They travel sealed through the caller, as `encrypted_content` or `signature`.
 */
export interface Envelope {
  /** The model that answered. Another model gets none of this. */
  model?: string;
  reasoning_content?: string;
  reasoning_details?: unknown[];
  /** `extra_content` of tool calls by their id. */
  calls?: Record<string, unknown>;
}

export interface Envelopes {
  seal(user_id: string, envelope: Envelope): string;
  /** Null when another service sealed it, or for another user. */
  open(user_id: string, sealed: string): Envelope | null;
}

/** Opens what one user sent back. Null: it is not ours, but the provider's own or another service's. */
export type OpenEnvelope = (sealed: string) => Envelope | null;

/** Marks our envelopes, so that text of other services is not tried. */
const PREFIX = "purser.";

/** Seals envelopes under `cipher`, each bound to its user. */
export function createEnvelopes(cipher: Cipher): Envelopes {
  return {
    seal: (user_id, envelope) =>
      PREFIX + cipher.seal(Buffer.from(JSON.stringify(envelope)), user_id).toString("base64url"),
    open(user_id, sealed) {
      if (!sealed.startsWith(PREFIX)) return null;
      const opened = cipher.open(Buffer.from(sealed.slice(PREFIX.length), "base64url"), user_id);
      return opened === null ? null : (JSON.parse(opened.toString()) as Envelope);
    },
  };
}

/** Whether there is anything to send back. */
export function isEmpty({ reasoning_content, reasoning_details, calls }: Envelope): boolean {
  return !reasoning_content && !reasoning_details?.length && Object.keys(calls ?? {}).length === 0;
}
