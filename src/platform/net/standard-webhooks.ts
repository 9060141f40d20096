import { createHmac, randomBytes } from "node:crypto";
import { SecretValue } from "../lib/secret-value.ts";

/** Signatures of the Standard Webhooks specification (standardwebhooks.com), version `v1`: HMAC-SHA256. */

const PREFIX = "whsec_";
/** The specification asks for 24 to 64 bytes. */
const SECRET_BYTES = 32;

/** A new signing secret, `whsec_` and base64, as every Standard Webhooks library accepts it. */
export function newWebhookSecret(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString("base64");
}

/**
 * The headers of one try. `id` is the same on every try of a message; `timestamp_s` (Unix seconds of real time) is new
 * on each try, because receivers reject messages that are older than some minutes.
 *
 * Each secret signs, so that receivers may know any of them. One that is not `whsec_` and base64 is used as the key
 * unchanged.
 */
export function webhookHeaders(
  secrets: readonly (string | SecretValue)[],
  { id, timestamp_s, body }: { id: string; timestamp_s: number; body: string },
): Record<"webhook-id" | "webhook-timestamp" | "webhook-signature", string> {
  const sign = (secret: string | SecretValue) => {
    const text = secret instanceof SecretValue ? secret.reveal().trim() : secret;
    const key = text.startsWith(PREFIX) ? Buffer.from(text.slice(PREFIX.length), "base64") : Buffer.from(text);
    return `v1,${createHmac("sha256", key).update(`${id}.${timestamp_s}.${body}`).digest("base64")}`;
  };
  return {
    "webhook-id": id,
    "webhook-timestamp": String(timestamp_s),
    "webhook-signature": secrets.map(sign).join(" "),
  };
}
