import { createHash, createHmac, createVerify, generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** Fakes of key services. They implement the protocols as far as the adapters use them, and check every request. */
export interface KeyService {
  /** `http://127.0.0.1:PORT` */
  url: string;
  /** The requested actions, in order. */
  asked: string[];
  /** The status of all further answers, except those with a role's keys; null: normal answers. */
  fail(status: number | null): void;
  close(): Promise<void>;
}

type Answer = [status: number, body: unknown];
type Handle = (request: IncomingMessage, body: string, asked: string[]) => Answer;

async function serve(handle: Handle): Promise<KeyService> {
  const asked: string[] = [];
  let failing: number | null = null;
  const server = createServer(async (request, response) => {
    const body = await text(request);
    const [status, answer] = failing === null || request.url === "/role" ? handle(request, body, asked) : [failing, {}];
    response
      .writeHead(status, { "content-type": "application/json", "metadata-flavor": "Google" })
      .end(JSON.stringify(answer));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  };
  const fail = (status: number | null) => {
    failing = status;
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked, fail, close };
}

/** "Encrypts" by storing the plaintext under a number. The tests check who asks for what, and with which context. */
function createSafe(prefix: string) {
  const kept: { plain: string; context: string }[] = [];
  return {
    put: (plain: string, context: string) => `${prefix}${kept.push({ plain, context }) - 1}`,
    get: (name: string, context: string): string | null => {
      const entry = name.startsWith(prefix) ? kept[Number(name.slice(prefix.length))] : undefined;
      return entry !== undefined && entry.context === context ? entry.plain : null;
    },
  };
}

export const AWS = { access_key_id: "AKIDEXAMPLE", secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" };

/** AWS KMS: Encrypt and Decrypt of its JSON protocol. It verifies the signature with code of its own. */
export function startAwsKms(key_id: string, region: string): Promise<KeyService> {
  const safe = createSafe("blob-");
  const base64 = (text: string) => Buffer.from(text).toString("base64");
  return serve((request, body, asked) => {
    // The container's credentials endpoint, which returns the role's keys.
    if (request.url === "/role") {
      const role = { AccessKeyId: AWS.access_key_id, SecretAccessKey: AWS.secret_access_key, Token: "role-session" };
      return [200, { ...role, Expiration: new Date(Date.now() + 3_600_000).toISOString() }];
    }
    if (!isSignedForAws(request, body, region)) return [400, { __type: "InvalidSignatureException" }];
    const action = String(request.headers["x-amz-target"]);
    asked.push(action);
    const { KeyId, EncryptionContext, Plaintext, CiphertextBlob } = JSON.parse(body);
    if (KeyId !== key_id) return [400, { __type: "NotFoundException" }];
    const context = JSON.stringify(EncryptionContext);
    if (action === "TrentService.Encrypt") {
      return [200, { KeyId, CiphertextBlob: base64(safe.put(Plaintext, context)) }];
    }
    const plain = safe.get(Buffer.from(CiphertextBlob, "base64").toString(), context);
    return plain === null ? [400, { __type: "InvalidCiphertextException" }] : [200, { KeyId, Plaintext: plain }];
  });
}

function isSignedForAws(request: IncomingMessage, body: string, region: string): boolean {
  const match =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/kms\/aws4_request, SignedHeaders=(\S+), Signature=([0-9a-f]{64})$/.exec(
      request.headers.authorization ?? "",
    );
  const [, id, day = "", signed_region, names = "", signature] = match ?? [];
  const date = String(request.headers["x-amz-date"]);
  const age_ms = Date.now() - Date.parse(date.replace(/(....)(..)(..T..)(..)(..Z)/, "$1-$2-$3:$4:$5"));
  if (id !== AWS.access_key_id || signed_region !== region || !date.startsWith(day) || !(Math.abs(age_ms) < 300_000)) {
    return false;
  }
  if (!["host", "x-amz-date", "x-amz-target"].every((name) => names.split(";").includes(name))) return false;
  const sha256 = (value: string) => createHash("sha256").update(value).digest("hex");
  const canonical = `POST\n/\n\n${names
    .split(";")
    .map((name) => `${name}:${request.headers[name]}\n`)
    .join("")}\n${names}\n${sha256(body)}`;
  let key: Buffer = Buffer.from(`AWS4${AWS.secret_access_key}`);
  for (const step of [day, region, "kms", "aws4_request"]) key = createHmac("sha256", key).update(step).digest();
  const text_to_sign = `AWS4-HMAC-SHA256\n${date}\n${day}/${region}/kms/aws4_request\n${sha256(canonical)}`;
  return createHmac("sha256", key).update(text_to_sign).digest("hex") === signature;
}

const pair = generateKeyPairSync("rsa", { modulusLength: 2048 });
export const GCP_ACCOUNT = {
  client_email: "vault@project.iam.gserviceaccount.com",
  client_id: "1",
  private_key_id: "k",
  private_key: pair.privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
};
const GCP_TOKEN = "ya29.token";

/** Google Cloud KMS (tokens that a service account signs itself) and the metadata server, on one port. */
export function startGcpKms(key_name: string): Promise<KeyService> {
  const safe = createSafe("gcp-");
  const base64 = (value: string) => Buffer.from(value).toString("base64");
  return serve((request, body, asked) => {
    const path = request.url ?? "";
    if (path.startsWith("/computeMetadata/")) {
      asked.push("metadata");
      if (request.headers["metadata-flavor"] !== "Google") return [403, {}];
      return [200, { access_token: GCP_TOKEN, expires_in: 3599, token_type: "Bearer" }];
    }
    const action = /:(encrypt|decrypt)$/.exec(path)?.[1] ?? "";
    asked.push(action);
    const token = request.headers.authorization?.slice("Bearer ".length) ?? "";
    if (token !== GCP_TOKEN && !isSelfSigned(token)) return [401, {}];
    if (path !== `/v1/${key_name}:${action}`) return [404, {}];
    const { plaintext, ciphertext, additionalAuthenticatedData: context } = JSON.parse(body);
    if (action === "encrypt") return [200, { name: key_name, ciphertext: base64(safe.put(plaintext, context)) }];
    const plain = safe.get(Buffer.from(ciphertext, "base64").toString(), context);
    return plain === null ? [400, { error: { status: "INVALID_ARGUMENT" } }] : [200, { plaintext: plain }];
  });
}

/** Whether the token is a JWT that the service account signed for itself. */
function isSelfSigned(token: string): boolean {
  const [header = "", claims = "", signature = ""] = token.split(".");
  if (signature === "") return false;
  const { iss, scope, iat, exp } = JSON.parse(Buffer.from(claims, "base64url").toString());
  const signed = createVerify("RSA-SHA256")
    .update(`${header}.${claims}`)
    .verify(pair.publicKey, signature, "base64url");
  return (
    signed &&
    iss === GCP_ACCOUNT.client_email &&
    scope === "https://www.googleapis.com/auth/cloudkms" &&
    Math.abs(iat * 1000 - Date.now()) < 60_000 &&
    exp - iat <= 3600
  );
}

export const TRANSIT_TOKEN = "hvs.token";

/** The transit engine of HashiCorp Vault and OpenBao. */
export function startTransit(mount: string, key_name: string): Promise<KeyService> {
  const safe = createSafe("vault:v1:");
  return serve((request, body, asked) => {
    const [, action = ""] = /\/(encrypt|decrypt)\/[^/]+$/.exec(request.url ?? "") ?? [];
    asked.push(action);
    if (request.headers["x-vault-token"] !== TRANSIT_TOKEN) return [403, { errors: ["permission denied"] }];
    if (request.url !== `/v1/${mount}/${action}/${key_name}`) return [404, { errors: [] }];
    const { plaintext, ciphertext, associated_data } = JSON.parse(body);
    if (action === "encrypt") return [200, { data: { ciphertext: safe.put(plaintext, associated_data) } }];
    const plain = safe.get(ciphertext, associated_data);
    if (plain === null) return [400, { errors: ["cipher: message authentication failed"] }];
    return [200, { data: { plaintext: plain } }];
  });
}
