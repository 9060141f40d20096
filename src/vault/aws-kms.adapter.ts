import type { KMSClient } from "@aws-sdk/client-kms";
import { loadClient, TIMEOUT_MS } from "./key-service.adapter.ts";
import { type Kek, KekUnavailableError } from "./vault.types.ts";

export interface AwsKmsSettings {
  readonly id: string;
  /** The ARN, id or alias of a symmetric key. */
  readonly key_id: string;
  readonly region: string;
  /** Null: the region's public endpoint. */
  readonly endpoint: string | null;
  /** Null: AWS's default chain (environment, profile, web identity, container or instance role). */
  readonly credentials: {
    readonly accessKeyId: string;
    readonly secretAccessKey: string;
    readonly sessionToken?: string;
  } | null;
}

/** AWS's errors for a ciphertext that this key and context did not create. */
const WRONG_CIPHERTEXT = new Set(["InvalidCiphertextException", "IncorrectKeyException"]);

/** A master key in AWS KMS. Calls Encrypt and Decrypt, with the context as encryption context. */
export function createAwsKms({ id, key_id, region, endpoint, credentials }: AwsKmsSettings): Kek {
  const sdk = () => loadClient(id, "@aws-sdk/client-kms", () => import("@aws-sdk/client-kms"));
  let client: Promise<KMSClient> | null = null;
  const connect = () => {
    client ??= sdk().then(
      ({ KMSClient }) =>
        new KMSClient({
          region,
          maxAttempts: 1,
          requestHandler: { connectionTimeout: TIMEOUT_MS, requestTimeout: TIMEOUT_MS },
          ...(endpoint === null ? {} : { endpoint }),
          ...(credentials === null ? {} : { credentials }),
        }),
    );
    return client;
  };
  const contextOf = (context: string) => ({ KeyId: key_id, EncryptionContext: { purser: context } });
  return {
    id,
    async wrap(data_key, context) {
      const { EncryptCommand } = await sdk();
      const kms = await connect();
      const answer = await kms
        .send(new EncryptCommand({ ...contextOf(context), Plaintext: data_key }))
        .catch((error: unknown) => {
          throw unavailable(id, error);
        });
      return bytes(id, answer.CiphertextBlob);
    },
    async unwrap(wrapped, context) {
      const { DecryptCommand } = await sdk();
      const kms = await connect();
      try {
        const answer = await kms.send(new DecryptCommand({ ...contextOf(context), CiphertextBlob: wrapped }));
        return bytes(id, answer.Plaintext);
      } catch (error) {
        if (WRONG_CIPHERTEXT.has((error as Error).name)) return null;
        throw unavailable(id, error);
      }
    },
  };
}

function bytes(id: string, value: Uint8Array | undefined): Buffer {
  if (value === undefined) throw new KekUnavailableError(id, "AWS KMS answered without the requested bytes");
  return Buffer.from(value);
}

/** Uses only the error's name and status, because a message of AWS may quote the request. */
function unavailable(id: string, error: unknown): KekUnavailableError {
  if (error instanceof KekUnavailableError) return error;
  const { name, $metadata } = error as { name?: string; $metadata?: { httpStatusCode?: number } };
  const status = $metadata?.httpStatusCode;
  const reason =
    status === undefined ? `AWS KMS cannot be reached (${name})` : `AWS KMS answered ${status} (${name ?? "Error"})`;
  return new KekUnavailableError(id, reason, { cause: error });
}
