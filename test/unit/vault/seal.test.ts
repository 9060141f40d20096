import { createDecipheriv, createHash, hkdfSync, randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import {
  computeIntegrityMac,
  isIntegrityMacOf,
  lengthPrefixed,
  type RowIdentity,
  seal,
  unseal,
} from "../../../src/vault/seal.ts";

const KEY = { version: 1, bytes: randomBytes(32) };
const IDENTITY: RowIdentity = { user_id: "u", secret_id: "s", name: "TOKEN", version: 1, allowed_hosts: ["a.example"] };
const VALUE = "grüße 🌍 \0 end";

test("a value opens in the place where it was sealed", () => {
  expect(unseal(seal(VALUE, IDENTITY, KEY), IDENTITY, KEY)).toBe(VALUE);
});

test.each<[string, Partial<RowIdentity>]>([
  ["another user", { user_id: "v" }],
  ["another secret", { secret_id: "t" }],
  ["another name", { name: "TOKENS" }],
  ["another version", { version: 2 }],
  ["any host", { allowed_hosts: null }],
  ["no host", { allowed_hosts: [] }],
  ["one more host", { allowed_hosts: ["a.example", "b.example"] }],
  ["text moved from one field to the next", { user_id: "us", secret_id: "" }],
])("it does not open for %s", (_, change) => {
  expect(unseal(seal(VALUE, IDENTITY, KEY), { ...IDENTITY, ...change }, KEY)).toBeNull();
});

test("it does not open under another data key, or another version of it", () => {
  const sealed = seal(VALUE, IDENTITY, KEY);
  expect(unseal(sealed, IDENTITY, { ...KEY, version: 2 })).toBeNull();
  expect(unseal(sealed, IDENTITY, { version: 1, bytes: randomBytes(32) })).toBeNull();
});

test("two sealed copies of one value have nothing in common", () => {
  const [one, two] = [seal(VALUE, IDENTITY, KEY), seal(VALUE, IDENTITY, KEY)];
  for (const [from, to] of [
    [0, 32],
    [32, 64],
    [64, 80],
    [80, one.length],
  ]) {
    expect(one.subarray(from, to)).not.toEqual(two.subarray(from, to));
  }
});

test("a text that AES-GCM would open with another key is rejected by the commitment", () => {
  const [salt, other] = [seal(VALUE, IDENTITY, KEY), seal(VALUE, IDENTITY, { version: 1, bytes: randomBytes(32) })];
  const spliced = Buffer.concat([salt.subarray(0, 64), other.subarray(64)]);
  expect(unseal(spliced, IDENTITY, KEY)).toBeNull();
  const moved = Buffer.concat([salt.subarray(0, 32), other.subarray(32, 64), salt.subarray(64)]);
  expect(unseal(moved, IDENTITY, KEY)).toBeNull();
});

test("the layout is the documented one, so that another program could open it", () => {
  const sealed = seal(VALUE, IDENTITY, KEY);
  const hosts = createHash("sha256")
    .update(lengthPrefixed(["a.example"]))
    .digest();
  const binding = lengthPrefixed(["purser secret 1", "aes-256-gcm", "u", "s", "TOKEN", "1", "1", hosts]);
  const derived = Buffer.from(hkdfSync("sha256", KEY.bytes, sealed.subarray(0, 32), binding, 64));
  expect(derived.subarray(32)).toEqual(sealed.subarray(32, 64));
  const decipher = createDecipheriv("aes-256-gcm", derived.subarray(0, 32), Buffer.alloc(12));
  decipher.setAAD(binding).setAuthTag(sealed.subarray(64, 80));
  expect(Buffer.concat([decipher.update(sealed.subarray(80)), decipher.final()]).toString()).toBe(VALUE);
});

test("an integrity MAC is valid only for exactly its entries: none added, omitted, changed or exchanged", () => {
  const entries = ["a 1 00 f", "b 2 11 f"];
  const mac = computeIntegrityMac(KEY, entries);
  expect(isIntegrityMacOf(mac, KEY, entries)).toBe(true);
  const others = [
    [],
    ["a 1 00 f"],
    ["a 1 00 f", "b 2 11 t"],
    entries.toReversed(),
    ["a 1 00 fb 2 11 f"],
    [...entries, ""],
  ];
  for (const other of others) expect(isIntegrityMacOf(mac, KEY, other), other.join()).toBe(false);
  expect(isIntegrityMacOf(new Uint8Array(), KEY, entries)).toBe(false);
});
