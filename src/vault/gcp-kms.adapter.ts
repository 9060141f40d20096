import type { AuthClient } from "google-auth-library";
import { askKeyService, loadClient, readBytes } from "./key-service.adapter.ts";
import { type Kek, KekUnavailableError } from "./vault.types.ts";

export interface GcpKmsSettings {
  readonly id: string;
  /** `projects/…/locations/…/keyRings/…/cryptoKeys/…` */
  readonly key_name: string;
  readonly endpoint: string;
  /**
   * A credentials file: a service account's key or a workload identity configuration. Null: Google's default
   * credentials, which include the machine's own account.
   */
  readonly credentials_file: string | null;
}

const SCOPE = "https://www.googleapis.com/auth/cloudkms";

/** A master key in Google Cloud KMS, with the context as additional authenticated data. */
export function createGcpKms(settings: GcpKmsSettings): Kek {
  const { id, key_name, endpoint } = settings;
  let client: Promise<AuthClient> | null = null;
  const authorization = async (): Promise<string> => {
    client ??= createAuthClient(settings);
    try {
      const headers = await (await client).getRequestHeaders();
      return headers.get("authorization") ?? "";
    } catch (error) {
      client = null;
      if (error instanceof KekUnavailableError) throw error;
      const status = (error as { status?: number }).status;
      const reason = status === undefined ? "Google's token service cannot be reached" : `no access token (${status})`;
      throw new KekUnavailableError(id, reason, { cause: error });
    }
  };
  const ask = async (action: "encrypt" | "decrypt", fields: object, context: string) =>
    askKeyService(id, {
      url: `${endpoint}/v1/${key_name}:${action}`,
      headers: { authorization: await authorization(), "content-type": "application/json" },
      body: JSON.stringify({ ...fields, additionalAuthenticatedData: Buffer.from(context).toString("base64") }),
    });
  return {
    id,
    async wrap(data_key, context) {
      const { status, body } = await ask("encrypt", { plaintext: Buffer.from(data_key).toString("base64") }, context);
      if (status !== 200) throw new KekUnavailableError(id, `Google Cloud KMS answered ${status}`);
      return readBytes(id, body.ciphertext);
    },
    async unwrap(wrapped, context) {
      const { status, body } = await ask("decrypt", { ciphertext: Buffer.from(wrapped).toString("base64") }, context);
      if (status === 400) return null; // INVALID_ARGUMENT: wrong ciphertext, key or context
      if (status !== 200) throw new KekUnavailableError(id, `Google Cloud KMS answered ${status}`);
      return readBytes(id, body.plaintext);
    },
  };
}

async function createAuthClient({ id, key_name, credentials_file }: GcpKmsSettings): Promise<AuthClient> {
  const [, projectId = ""] = key_name.split("/");
  const { GoogleAuth } = await loadClient(id, "google-auth-library", () => import("google-auth-library"));
  const auth = new GoogleAuth({
    scopes: SCOPE,
    projectId, // otherwise the client searches for one with command line tools and over the network
    ...(credentials_file === null ? {} : { keyFilename: credentials_file }),
  });
  const client = await auth.getClient();
  // A service account signs its own token, so no token service is needed.
  if ("useJWTAccessWithScope" in client) client.useJWTAccessWithScope = true;
  return client as AuthClient;
}
