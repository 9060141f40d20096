import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Db } from "../../src/platform/db/db.ts";
import { createSystemClock } from "../../src/platform/lib/clock.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { createDataKeys } from "../../src/vault/data-keys.service.ts";
import { parseKeyring } from "../../src/vault/keyring.ts";
import { createVault } from "../../src/vault/vault.service.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { AWS, type KeyService, startAwsKms } from "../support/key-services.ts";
import { newMasterKey, newSecret, OAUTH, usageAt, vaultNode } from "../support/vault.ts";

const ARN = "arn:aws:kms:eu-west-1:111122223333:alias/purser";
const CLOUD = `cloud:aws-kms:${ARN}`;
const LOCAL = newMasterKey("local");
const AT = usageAt("https://a.example");

let database: TestDatabase;
let db: Db;
let kms: KeyService;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
  kms = await startAwsKms(ARN, "eu-west-1");
});
afterAll(async () => {
  await kms.close();
  await db.close();
  await database.drop();
});

/** A node whose keyring may name the key service. */
function node(kek: string) {
  const env = {
    AWS_ACCESS_KEY_ID: AWS.access_key_id,
    AWS_SECRET_ACCESS_KEY: AWS.secret_access_key,
    AWS_ENDPOINT_URL_KMS: kms.url,
  };
  const log = createLog("silent");
  const failures: string[] = [];
  const onFailure = (cause: string) => void failures.push(cause);
  const keys = createDataKeys({ db, keyring: parseKeyring(kek, env), log, onFailure });
  return { keys, failures, ...createVault({ db, clock: createSystemClock(), keys, log, oauth: OAUTH }) };
}

describe("a vault whose master key is in a key service", () => {
  it("can be moved there from a local key, and back, without a loss", async () => {
    const user = newId();
    await vaultNode(db, LOCAL).create(user, newSecret("TOKEN", "value"));
    expect((await node(`${CLOUD},${LOCAL}`).keys.rewrapAll(() => {})).rewrapped).toBe(1);
    const cloud = node(CLOUD);
    await cloud.keys.check();
    expect((await cloud.open(user, "TOKEN", AT)).status).toBe("opened");
    await node(`${LOCAL},${CLOUD}`).keys.rewrapAll(() => {});
    const opening = await vaultNode(db, LOCAL).open(user, "TOKEN", AT);
    expect(opening.status === "opened" && opening.secret.value.reveal()).toBe("value");
  });

  it("asks the service once for many uses, and answers 503 vault_unavailable while the service does not answer", async () => {
    const [user, other] = [newId(), newId()];
    const warm = node(CLOUD);
    await warm.create(user, newSecret("TOKEN", "value"));
    const asked = kms.asked.length;
    for (let n = 0; n < 10; n += 1) await warm.open(user, "TOKEN", AT);
    expect(kms.asked.length - asked).toBeLessThanOrEqual(1);

    kms.fail(503);
    const cold = node(CLOUD);
    await expect(cold.open(user, "TOKEN", AT)).rejects.toMatchObject({ code: "vault_unavailable" });
    await expect(cold.create(other, newSecret("TOKEN", "value"))).rejects.toMatchObject({ code: "vault_unavailable" });
    await expect(cold.keys.check()).rejects.toThrow("the master key cloud cannot be used: AWS KMS answered 503");
    expect((await warm.open(user, "TOKEN", AT)).status).toBe("opened");
    expect([warm.failures, cold.failures]).toEqual([[], ["key_service", "key_service"]]);
    kms.fail(null);
    expect((await cold.open(user, "TOKEN", AT)).status).toBe("opened");
    expect(await cold.list(other, { limit: 5, before_id: null })).toEqual([]);
  });

  it("erases a user without a request to the service", async () => {
    const user = newId();
    const vault = node(CLOUD);
    await vault.create(user, newSecret("TOKEN", "value"));
    kms.fail(503);
    await db.transaction((tx) => vault.erase(tx, user));
    expect(await vault.open(user, "TOKEN", AT)).toEqual({ status: "not_found" });
    kms.fail(null);
  });
});
