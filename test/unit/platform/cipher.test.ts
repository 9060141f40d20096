import { createHash, randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { createCipher } from "../../../src/platform/lib/cipher.ts";

const key = randomBytes(32);
const text = Buffer.from("hunter2");

test("a text opens only in its own context, for its own purpose and with its own key", () => {
  const sealed = createCipher(key, "one").seal(text, "row 1");
  expect(createCipher(key, "one").open(sealed, "row 1")).toEqual(text);
  expect(createCipher(key, "one").open(sealed, "row 2")).toBeNull();
  expect(createCipher(key, "two").open(sealed, "row 1")).toBeNull();
  expect(createCipher(randomBytes(32), "one").open(sealed, "row 1")).toBeNull();
  for (const cut of [0, 5, 12, 27, sealed.length - 1]) {
    expect(createCipher(key, "one").open(sealed.subarray(0, cut), "row 1")).toBeNull();
  }
});

test("a fingerprint is the same for the same text and context, and cannot be computed without the key", () => {
  const print = (of: Buffer, context: string, under = key) => createCipher(under, "one").fingerprint(of, context);
  expect(print(text, "row 1")).toEqual(print(text, "row 1"));
  const others = [print(text, "row 2"), print(Buffer.from("hunter3"), "row 1"), print(text, "row 1", randomBytes(32))];
  for (const other of [...others, createHash("sha256").update(text).digest()]) {
    expect(print(text, "row 1")).not.toEqual(other);
  }
});
