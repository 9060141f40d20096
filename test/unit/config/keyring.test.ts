import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { loadKeyring } from "../../../src/vault/keyring.ts";

let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "keyring-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

test("the first start creates a key that only its owner can read, and warns without showing it", () => {
  const data_dir = join(directory, "data");
  const { keyring, warning } = loadKeyring(data_dir);
  expect(keyring).toHaveLength(1);
  expect(keyring).toMatchObject([{ kind: "local", id: "local" }]);
  expect(statSync(join(data_dir, "keyring")).mode & 0o777).toBe(0o600);
  expect(warning).toContain(join(data_dir, "keyring"));
  const text = readFileSync(join(data_dir, "keyring"), "utf8");
  expect(text).toMatch(/^local:[A-Za-z0-9+/]{43}=\n$/);
  expect(warning).not.toContain(text.trim().slice("local:".length));
});

test("later starts use the same key, without a warning", () => {
  const first = loadKeyring(directory);
  expect(loadKeyring(directory)).toEqual({ keyring: first.keyring, warning: null });
});

test("an unreadable keyring is not changed", () => {
  writeFileSync(join(directory, "keyring"), "local:c2hvcnQ=\n");
  expect(() => loadKeyring(directory)).toThrow("keyring cannot be used: key 1 has 5 bytes, not 32");
  expect(readFileSync(join(directory, "keyring"), "utf8")).toBe("local:c2hvcnQ=\n");
});
