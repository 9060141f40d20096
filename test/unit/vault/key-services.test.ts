import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKeks } from "../../../src/vault/kek.ts";
import { parseKeyring } from "../../../src/vault/keyring.ts";
import {
  AWS,
  GCP_ACCOUNT,
  type KeyService,
  startAwsKms,
  startGcpKms,
  startTransit,
  TRANSIT_TOKEN,
} from "../../support/key-services.ts";

const ARN = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";
const GCP_KEY = "projects/p-1/locations/global/keyRings/ring/cryptoKeys/purser";

let folder: string;
const services: KeyService[] = [];
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "key-services-"));
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  delete process.env.GCE_METADATA_HOST;
  delete process.env.METADATA_SERVER_DETECTION;
  delete process.env.AWS_CONTAINER_CREDENTIALS_FULL_URI;
  for (const service of services) await service.close();
});

/** Each key service, with its settings in PURSER_KEK and the environment. */
const started: [string, () => Promise<{ service: KeyService; kek: string; env: Record<string, string> }>][] = [
  [
    "AWS KMS",
    async () => {
      const service = await startAwsKms(ARN, "eu-west-1");
      const env = {
        AWS_ACCESS_KEY_ID: AWS.access_key_id,
        AWS_SECRET_ACCESS_KEY: AWS.secret_access_key,
        AWS_SESSION_TOKEN: "session",
        AWS_ENDPOINT_URL_KMS: service.url,
      };
      return { service, kek: `cloud:aws-kms:${ARN}`, env };
    },
  ],
  [
    "AWS KMS with a container's role",
    async () => {
      const service = await startAwsKms(ARN, "eu-west-1");
      // AWS's client reads this variable from the process.
      process.env.AWS_CONTAINER_CREDENTIALS_FULL_URI = `${service.url}/role`;
      return { service, kek: `cloud:aws-kms:${ARN}`, env: { AWS_ENDPOINT_URL_KMS: service.url } };
    },
  ],
  [
    "Google Cloud KMS with a service account",
    async () => {
      const service = await startGcpKms(GCP_KEY);
      const file = join(folder, "account.json");
      writeFileSync(file, JSON.stringify({ type: "service_account", ...GCP_ACCOUNT }));
      const env = { GOOGLE_APPLICATION_CREDENTIALS: file, CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDKMS: `${service.url}/` };
      return { service, kek: `cloud:gcp-kms:${GCP_KEY}`, env };
    },
  ],
  [
    "Google Cloud KMS with the machine's account",
    async () => {
      const service = await startGcpKms(GCP_KEY);
      // Google's client reads this variable from the process.
      process.env.GCE_METADATA_HOST = new URL(service.url).host;
      process.env.METADATA_SERVER_DETECTION = "assume-present";
      const env = { CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDKMS: service.url };
      return { service, kek: `cloud:gcp-kms:${GCP_KEY}`, env };
    },
  ],
  [
    "the transit engine of Vault or OpenBao",
    async () => {
      const service = await startTransit("secrets/transit", "purser");
      const env = { VAULT_ADDR: service.url, VAULT_TOKEN: TRANSIT_TOKEN };
      return { service, kek: "cloud:vault-transit:secrets/transit/purser", env };
    },
  ],
];

describe.each(started)("a master key in %s", (_, start) => {
  const open = async () => {
    const { service, kek, env } = await start();
    services.push(service);
    const make = () => createKeks(parseKeyring(kek, env)).current;
    return { service, make, data_key: randomBytes(32) };
  };

  it("wraps a data key and unwraps it, on any node, only in its own context", async () => {
    const { make, data_key } = await open();
    const wrapped = await make().wrap(data_key, "row 1");
    expect(wrapped.includes(data_key)).toBe(false);
    expect(await make().unwrap(wrapped, "row 1")).toEqual(data_key);
    expect(await make().unwrap(wrapped, "row 2")).toBeNull();
    expect(await make().unwrap(Buffer.from("anything"), "row 1")).toBeNull();
  });

  it("is requested once for many uses of one data key, and again for another", async () => {
    const { service, make, data_key } = await open();
    const kek = make();
    const wrapped = await kek.wrap(data_key, "row 1");
    const before = service.asked.length;
    await Promise.all(Array.from({ length: 20 }, () => kek.unwrap(wrapped, "row 1")));
    expect(service.asked.length - before).toBe(1);
    await kek.unwrap(wrapped, "row 2");
    expect(service.asked.length - before).toBe(2);
  });

  it("that is unavailable is reported as unavailable and not as a wrong key, and requested again", async () => {
    const { service, make, data_key } = await open();
    const kek = make();
    const wrapped = await kek.wrap(data_key, "row 1");
    for (const status of [403, 429, 500]) {
      service.fail(status);
      await expect(make().unwrap(wrapped, "row 1")).rejects.toThrow(/the master key cloud cannot be used: .*\d{3}/);
      await expect(kek.unwrap(wrapped, "row 1")).rejects.toThrow(`${status}`);
    }
    service.fail(null);
    expect(await kek.unwrap(wrapped, "row 1")).toEqual(data_key);
    await service.close();
    await expect(make().unwrap(wrapped, "row 1")).rejects.toThrow("cannot be reached");
    services.splice(services.indexOf(service), 1);
  });
});

describe("PURSER_KEK", () => {
  it.each([
    ["k:aws-kms:not a key", "names no key of AWS KMS"],
    ["k:aws-kms:alias/purser", "needs AWS_REGION, which is not set"],
    ["k:gcp-kms:purser", "names no key of Google Cloud KMS"],
    ["k:vault-transit:purser", "needs VAULT_ADDR, which is not set"],
    ["k:azure:purser", "the key k is neither base64 nor of aws-kms, gcp-kms or vault-transit"],
    ["file:/run/secrets/keys", "set PURSER_KEK_FILE to the path of that file"],
  ])("%s: %s", (text, message) => {
    expect(() => parseKeyring(text)).toThrow(message);
  });

  it("has several keys, each on a line of its own", () => {
    const [one, two] = [randomBytes(32).toString("base64"), randomBytes(32).toString("base64")];
    expect(parseKeyring(`k2:${two}\nk1:${one}`).map(({ id }) => id)).toEqual(["k2", "k1"]);
  });
});
