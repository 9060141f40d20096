import { createSign } from "node:crypto";
import { monotonicMs, realNowMs } from "../platform/clock.ts";
import { type Kek, KekUnavailableError } from "./kek.types.ts";
import { askKeyService, bytesOf } from "./key-service.adapter.ts";

export interface GcpServiceAccount {
  readonly client_email: string;
  /** The key as PEM. */
  readonly private_key: string;
  readonly token_uri: string;
}

export interface GcpKmsSettings {
  readonly id: string;
  /** `projects/…/locations/…/keyRings/…/cryptoKeys/…` */
  readonly key_name: string;
  readonly endpoint: string;
  /** null uses the token of the machine's metadata server. */
  readonly service_account: GcpServiceAccount | null;
  /** `http://metadata.google.internal` by default. */
  readonly metadata_url: string;
}

const SCOPE = "https://www.googleapis.com/auth/cloudkms";
const ASSERTION_S = 3600;
/** The time before its expiry at which a token is replaced. */
const SPARE_S = 60;
const TOKEN_PATH = "/computeMetadata/v1/instance/service-accounts/default/token";

/** A master key in Google Cloud KMS, with the context as additional authenticated data. */
export function createGcpKms(settings: GcpKmsSettings): Kek {
  const { id, key_name, endpoint } = settings;
  const token = createTokens(settings);
  const ask = async (action: "encrypt" | "decrypt", fields: object, context: string) =>
    askKeyService(id, {
      url: `${endpoint}/v1/${key_name}:${action}`,
      headers: { authorization: `Bearer ${await token()}`, "content-type": "application/json" },
      body: JSON.stringify({ ...fields, additionalAuthenticatedData: Buffer.from(context).toString("base64") }),
    });
  return {
    id,
    async wrap(data_key, context) {
      const { status, body } = await ask("encrypt", { plaintext: Buffer.from(data_key).toString("base64") }, context);
      if (status !== 200) throw new KekUnavailableError(id, `Google Cloud KMS answered ${status}`);
      return bytesOf(id, body.ciphertext);
    },
    async unwrap(wrapped, context) {
      const { status, body } = await ask("decrypt", { ciphertext: Buffer.from(wrapped).toString("base64") }, context);
      if (status === 400) return null; // INVALID_ARGUMENT: wrong ciphertext or context
      if (status !== 200) throw new KekUnavailableError(id, `Google Cloud KMS answered ${status}`);
      return bytesOf(id, body.plaintext);
    },
  };
}

/** Fetches access tokens and reuses each until shortly before it expires. */
function createTokens({ id, service_account, metadata_url }: GcpKmsSettings): () => Promise<string> {
  let known: { token: string; until_ms: number } | null = null;
  return async () => {
    if (known !== null && known.until_ms > monotonicMs()) return known.token;
    const { status, body } = await askKeyService(
      id,
      service_account === null
        ? { method: "GET", url: `${metadata_url}${TOKEN_PATH}`, headers: { "metadata-flavor": "Google" } }
        : assertion(service_account),
    );
    const { access_token, expires_in } = body;
    if (status !== 200 || typeof access_token !== "string") {
      throw new KekUnavailableError(id, `the token server returned no access token (${status})`);
    }
    known = { token: access_token, until_ms: monotonicMs() + (Number(expires_in) - SPARE_S) * 1000 };
    return access_token;
  };
}

/** Builds a service account's token request: a JWT signed with its key (RFC 7523). */
function assertion({ client_email, private_key, token_uri }: GcpServiceAccount) {
  const now_s = Math.floor(realNowMs() / 1000);
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const claims = { iss: client_email, scope: SCOPE, aud: token_uri, iat: now_s, exp: now_s + ASSERTION_S };
  const unsigned = `${part({ alg: "RS256", typ: "JWT" })}.${part(claims)}`;
  const signature = createSign("RSA-SHA256").update(unsigned).sign(private_key, "base64url");
  const grant = { grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer", assertion: `${unsigned}.${signature}` };
  return {
    url: token_uri,
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams(grant).toString(),
  };
}
