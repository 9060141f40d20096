import { readFileSync } from "node:fs";
import type { MasterKey } from "./keyring.types.ts";

/** Settings of master keys in key services, from PURSER_KEK and the standard variables of each service's own tools. */

type Env = Record<string, string | undefined>;

const AWS_KEY = /^(arn:aws[\w-]*:kms:(?<region>[a-z0-9-]+):\d+:(key|alias)\/[\w/-]+|[\w-]+|alias\/[\w/-]+)$/;
const GCP_KEY = /^projects\/[\w.:-]+\/locations\/[\w-]+\/keyRings\/[\w-]+\/cryptoKeys\/[\w-]+$/;
const TRANSIT_KEY = /^(?:(?<mount>[\w/-]+)\/)?(?<name>[\w.-]+)$/;

/** Reads `aws-kms:KEY`, `gcp-kms:NAME` or `vault-transit:[MOUNT/]NAME`. Throws an Error that names the missing part. */
export function parseKeyService(id: string, text: string, env: Env): MasterKey {
  const kind = text.slice(0, text.indexOf(":"));
  const name = text.slice(kind.length + 1);
  if (kind === "aws-kms") return awsKms(id, name, env);
  if (kind === "gcp-kms") return gcpKms(id, name, env);
  if (kind === "vault-transit") return vaultTransit(id, name, env);
  throw new Error(`the key ${id} is neither base64 nor of aws-kms, gcp-kms or vault-transit`);
}

function awsKms(id: string, name: string, env: Env): MasterKey {
  const match = AWS_KEY.exec(name);
  if (match === null) throw new Error(`the key ${id} names no key of AWS KMS: give its ARN, id or alias/name`);
  const region = match.groups?.region ?? needed(id, "AWS_REGION", env);
  const accessKeyId = env.AWS_ACCESS_KEY_ID || null;
  const session = env.AWS_SESSION_TOKEN ? { sessionToken: env.AWS_SESSION_TOKEN } : {};
  return {
    kind: "aws-kms",
    id,
    key_id: name,
    region,
    endpoint: env.AWS_ENDPOINT_URL_KMS ? address(id, "AWS_ENDPOINT_URL_KMS", env, "") : null,
    credentials:
      accessKeyId === null
        ? null
        : { accessKeyId, secretAccessKey: needed(id, "AWS_SECRET_ACCESS_KEY", env), ...session },
  };
}

function gcpKms(id: string, key_name: string, env: Env): MasterKey {
  if (!GCP_KEY.test(key_name)) {
    throw new Error(
      `the key ${id} names no key of Google Cloud KMS: give projects/…/locations/…/keyRings/…/cryptoKeys/…`,
    );
  }
  const file = env.GOOGLE_APPLICATION_CREDENTIALS;
  return {
    kind: "gcp-kms",
    id,
    key_name,
    endpoint: address(id, "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDKMS", env, "https://cloudkms.googleapis.com"),
    credentials_file: file === undefined || file === "" ? null : readableFile(id, file),
  };
}

/** Checks the credentials file at start, so that a mistake is reported before the first request. */
function readableFile(id: string, file: string): string {
  try {
    JSON.parse(readFileSync(file, "utf8"));
  } catch {
    throw new Error(`the key ${id} needs GOOGLE_APPLICATION_CREDENTIALS, and ${file} cannot be read as JSON`);
  }
  return file;
}

function vaultTransit(id: string, name: string, env: Env): MasterKey {
  const match = TRANSIT_KEY.exec(name);
  if (match === null) throw new Error(`the key ${id} names no transit key: give its name, or mount/name`);
  needed(id, "VAULT_ADDR", env);
  return {
    kind: "vault-transit",
    id,
    address: address(id, "VAULT_ADDR", env, ""),
    token: needed(id, "VAULT_TOKEN", env),
    namespace: env.VAULT_NAMESPACE || null,
    mount: match.groups?.mount ?? "transit",
    key_name: match.groups?.name ?? "",
  };
}

function needed(id: string, variable: string, env: Env): string {
  const value = env[variable];
  if (value === undefined || value === "") throw new Error(`the key ${id} needs ${variable}, which is not set`);
  return value;
}

/** Reads an http or https address and removes slashes at its end. */
function address(id: string, variable: string, env: Env, fallback: string): string {
  const text = env[variable] || fallback;
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) throw new Error(`the key ${id}: ${variable} is no http address`);
  return text.replace(/\/+$/, "");
}
