import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { Verify } from "../../api/contract/triggers.ts";
import { TRIGGERS } from "../../kernel/constants.ts";
import { instantOf } from "../../platform/lib/instant.ts";
import { newWebhookSecret } from "../../platform/net/standard-webhooks.ts";

/** How deliveries prove their sender. Pure: one row of SCHEMES for each way. */

/** A delivery as it arrived. */
export interface Signed {
  header(name: string): string | undefined;
  /** Exactly as sent: signatures are over its bytes. */
  body: string;
}

/** What a sender claims: any of `signatures` is the HMAC of `signed`, at the time `timestamp` (null: the scheme has none). */
interface Claim {
  signatures: readonly string[];
  signed: string;
  timestamp: string | null;
}

interface Scheme {
  encoding: "hex" | "base64";
  /** The claim, or why there is none, in a sentence for the trigger's owner. */
  claim(delivery: Signed): Claim | string;
  key(secret: string): Buffer;
}

const textKey = (secret: string) => Buffer.from(secret);
const missing = (name: string) => `The header ${name} is missing.`;

/** `t=1,v1=a,v1=b` as pairs. */
function pairsOf(text: string): [string, string][] {
  return text.split(",").map((pair) => {
    const at = pair.indexOf("=");
    return [pair.slice(0, at).trim(), pair.slice(at + 1).trim()];
  });
}

/** HMAC-SHA256 of the body in a header. */
const bodySignature = (header: string, prefix: string, encoding: Scheme["encoding"]): Scheme => ({
  encoding,
  key: textKey,
  claim(delivery) {
    const sent = delivery.header(header.toLowerCase());
    if (sent === undefined) return missing(header);
    if (!sent.startsWith(prefix)) return `The header ${header} does not begin with "${prefix}".`;
    return { signatures: [sent.slice(prefix.length)], signed: delivery.body, timestamp: null };
  },
});

/** Each scheme with the page that describes it. */
const SCHEMES: Record<Exclude<Extract<Verify, string>, "bearer">, Scheme> = {
  // docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries
  github: bodySignature("X-Hub-Signature-256", "sha256=", "hex"),
  // github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md; Svix has its own names for the headers
  standard_webhooks: {
    encoding: "base64",
    key: (secret) => (secret.startsWith("whsec_") ? Buffer.from(secret.slice(6), "base64") : textKey(secret)),
    claim({ header, body }) {
      const [id, timestamp, sent] = ["id", "timestamp", "signature"].map(
        (name) => header(`webhook-${name}`) ?? header(`svix-${name}`),
      );
      if (id === undefined || timestamp === undefined || sent === undefined)
        return "One of the headers webhook-id, webhook-timestamp and webhook-signature is missing.";
      const signatures = sent.split(" ").flatMap((each) => (each.startsWith("v1,") ? each.slice(3) : []));
      return { signatures, signed: `${id}.${timestamp}.${body}`, timestamp };
    },
  },
  // docs.stripe.com/webhooks/signature
  stripe: {
    encoding: "hex",
    key: textKey,
    claim({ header, body }) {
      const sent = header("stripe-signature");
      if (sent === undefined) return missing("Stripe-Signature");
      const pairs = pairsOf(sent);
      const timestamp = pairs.find(([name]) => name === "t")?.[1] ?? "";
      const signatures = pairs.flatMap(([name, value]) => (name === "v1" ? value : []));
      return { signatures, signed: `${timestamp}.${body}`, timestamp };
    },
  },
  // docs.slack.dev/authentication/verifying-requests-from-slack
  slack: {
    encoding: "hex",
    key: textKey,
    claim({ header, body }) {
      const sent = header("x-slack-signature");
      const timestamp = header("x-slack-request-timestamp");
      if (sent === undefined) return missing("X-Slack-Signature");
      if (timestamp === undefined) return missing("X-Slack-Request-Timestamp");
      return { signatures: [sent.replace(/^v0=/, "")], signed: `v0:${timestamp}:${body}`, timestamp };
    },
  },
};

const WRONG = "The signature does not match the body and the secret.";
const UNIX_SECONDS = /^\d{1,12}$/;

/** Only a sender that has the secret gets this answer: the signature is right. */
function outsideTolerance(timestamp: string, now_s: number): string {
  const minutes = TRIGGERS.tolerance_seconds / 60;
  const sent = UNIX_SECONDS.test(timestamp) ? instantOf(Number(timestamp) * 1_000) : "no number of seconds since 1970";
  return `The timestamp is outside the tolerance of ${minutes} minutes: it is ${sent}, and the server's time is ${instantOf(now_s * 1_000)}. Check the sender's clock, and sign each try with the time of that try.`;
}

/**
 * Why a delivery does not prove its sender and what to check, for the sender and the trigger's owner; null: one of the
 * secrets proves it. `now_s`: the real time in seconds.
 */
export function findForgery(
  verify: Verify,
  delivery: Signed,
  { secrets, now_s }: { secrets: readonly string[]; now_s: number },
): string | null {
  const { mismatch, timestamp } = matchSecrets(verify, delivery, secrets);
  if (mismatch !== null) return `${mismatch} Check the secret and how the trigger verifies deliveries.`;
  if (timestamp === null) return null;
  const age_s = UNIX_SECONDS.test(timestamp) ? now_s - Number(timestamp) : Number.NaN;
  return Math.abs(age_s) <= TRIGGERS.tolerance_seconds ? null : outsideTolerance(timestamp, now_s);
}

/** Why no secret signed the delivery, in a sentence (null: one did), and the timestamp that is signed with it. */
function matchSecrets(
  verify: Verify,
  delivery: Signed,
  secrets: readonly string[],
): { mismatch: string | null; timestamp: string | null } {
  if (verify === "bearer") return { mismatch: findWrongToken(delivery, secrets), timestamp: null };
  const scheme =
    typeof verify === "string" ? SCHEMES[verify] : bodySignature(verify.header, verify.prefix, verify.encoding);
  const claim = scheme.claim(delivery);
  if (typeof claim === "string") return { mismatch: claim, timestamp: null };
  const sent = claim.signatures.map((signature) => Buffer.from(signature, scheme.encoding));
  const is_signed = secrets.some((secret) => {
    const expected = createHmac("sha256", scheme.key(secret)).update(claim.signed).digest();
    return sent.some((signature) => signature.length === expected.length && timingSafeEqual(signature, expected));
  });
  return { mismatch: is_signed ? null : WRONG, timestamp: claim.timestamp };
}

function findWrongToken({ header }: Signed, secrets: readonly string[]): string | null {
  const sent = /^bearer +(\S.*)$/i.exec(header("authorization") ?? "")?.[1]?.trim();
  if (sent === undefined) return "The header Authorization: Bearer is missing.";
  // Digests have one length, so that the comparison does not tell the secret's.
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return secrets.some((secret) => timingSafeEqual(digest(sent), digest(secret)))
    ? null
    : "The token is not the secret.";
}

/** A new secret in the form that senders of this scheme take. */
export function newTriggerSecret(verify: Verify): string {
  return verify === "standard_webhooks" ? newWebhookSecret() : randomBytes(32).toString("base64url");
}

/** Why a sender's own secret cannot be used with the scheme; null: it can. */
export function findSecretFault(verify: Verify, secret: string): string | null {
  if (verify !== "standard_webhooks") return null;
  const bytes = Buffer.from(secret.replace(/^whsec_/, ""), "base64").length;
  return secret.startsWith("whsec_") && bytes >= 16 && bytes <= 64
    ? null
    : "must be whsec_ and 16 to 64 bytes in base64, as your sender shows it";
}

/** Headers by which senders name a delivery. */
const ID_HEADERS = ["webhook-id", "svix-id", "x-github-delivery", "x-shopify-webhook-id", "idempotency-key"];
const MAX_ID_CHARACTERS = 200;

/** The sender's name for a delivery: a header, or the event's id that Stripe and Slack have in the body; null: none. */
export function findDeliveryId(
  verify: Verify,
  { header }: Signed,
  value: Readonly<Record<string, unknown>>,
): string | null {
  const in_body = verify === "stripe" ? value.id : verify === "slack" ? value.event_id : undefined;
  const sent = in_body ?? ID_HEADERS.map(header).find((id) => id !== undefined);
  return typeof sent === "string" && sent !== "" ? sent.slice(0, MAX_ID_CHARACTERS) : null;
}

/**
 * What two deliveries have in common if they are the same: the sender's name for it, or else the body's digest. Null: with
 * `bearer` a delivery without a name is always a new one, because such senders repeat bodies on purpose.
 */
export function findDeliveryKey(verify: Verify, delivery_id: string | null, body: string): string | null {
  if (delivery_id !== null) return `id:${delivery_id}`;
  return verify === "bearer" ? null : `body:${createHash("sha256").update(body).digest("base64url")}`;
}
