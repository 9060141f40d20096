import { instantOf, realNowMs } from "../platform/clock.ts";
import { type AwsCredentials, signedAwsHeaders } from "./aws-signature.ts";
import { type Kek, KekUnavailableError } from "./kek.types.ts";
import { askKeyService, bytesOf } from "./key-service.adapter.ts";

export interface AwsKmsSettings extends AwsCredentials {
  readonly id: string;
  /** The ARN, id or alias of a symmetric key. */
  readonly key_id: string;
  readonly region: string;
  /** `https://kms.REGION.amazonaws.com` by default. */
  readonly endpoint: string;
}

/** The KMS errors for a ciphertext that this key and context did not create. */
const NOT_ITS_OWN = /InvalidCiphertextException|IncorrectKeyException/;

/** A master key in AWS KMS. Calls Encrypt and Decrypt, with the context as encryption context. */
export function createAwsKms(settings: AwsKmsSettings): Kek {
  const { id, key_id, region, endpoint } = settings;
  const ask = async (action: "Encrypt" | "Decrypt", fields: object, context: string) => {
    const body = JSON.stringify({ KeyId: key_id, EncryptionContext: { purser: context }, ...fields });
    const headers = { "content-type": "application/x-amz-json-1.1", "x-amz-target": `TrentService.${action}` };
    const date = instantOf(realNowMs()).replace(/\.\d+|[-:]/g, "");
    const { host } = new URL(endpoint);
    const signed = signedAwsHeaders({ host, region, service: "kms", headers, body, date }, settings);
    return askKeyService(id, { url: `${endpoint}/`, headers: signed, body });
  };
  return {
    id,
    async wrap(data_key, context) {
      const plain = Buffer.from(data_key).toString("base64");
      const { status, body } = await ask("Encrypt", { Plaintext: plain }, context);
      if (status !== 200) throw new KekUnavailableError(id, failureReason(status, body));
      return bytesOf(id, body.CiphertextBlob);
    },
    async unwrap(wrapped, context) {
      const text = Buffer.from(wrapped).toString("base64");
      const { status, body } = await ask("Decrypt", { CiphertextBlob: text }, context);
      if (status === 400 && NOT_ITS_OWN.test(String(body.__type))) return null;
      if (status !== 200) throw new KekUnavailableError(id, failureReason(status, body));
      return bytesOf(id, body.Plaintext);
    },
  };
}

function failureReason(status: number, body: Record<string, unknown>): string {
  const type = /\w+$/.exec(String(body.__type ?? ""))?.[0] ?? "no reason given";
  return `AWS KMS answered ${status} (${type})`;
}
