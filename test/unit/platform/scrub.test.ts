import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SecretValue } from "../../../src/platform/lib/secret-value.ts";
import { heldIn, holdsSecret, searchFor } from "../../../src/platform/net/scrub.ts";
import { holdsByReference } from "../../support/scrub-reference.ts";

// Failures elsewhere: an echo endpoint shows the model the token (Infisical/cli#397), decoys exhaust the redactor
// (g0#168). Hostile servers are in test/attacks/secrets-echo.

const hex = (byte: number) => byte.toString(16).padStart(2, "0");
const eachByte = (write: (byte: number) => string) => (text: string) => [...Buffer.from(text)].map(write).join("");
const ENCODINGS: ((text: string) => string)[] = [
  (text) => text,
  encodeURIComponent,
  (text) => JSON.stringify(text),
  (text) => text.replaceAll("&", "&amp;").replaceAll("/", "&sol;").replaceAll('"', "&quot;"),
  eachByte((byte) => `%${hex(byte)}`),
  eachByte((byte) => `\\u00${hex(byte)}`),
  eachByte((byte) => `&#${byte};`),
  eachByte((byte) => (byte % 3 === 0 ? `&#x${hex(byte)};` : String.fromCharCode(byte))),
  (text) => text.replaceAll(/[^A-Za-z0-9]/gu, "\\$&"),
  (text) => Buffer.from(text).toString("hex"),
  (text) => Buffer.from(`x${text}`).toString("base64"),
  (text) => Buffer.from(`xy${text}z`).toString("base64url"),
  (text) =>
    Buffer.from(text)
      .toString("base64")
      .replaceAll(/(.{7})/g, "$1\r\n"),
  (text) => [...text].reverse().join(""),
  (text) => text.replaceAll(" ", "+"),
  (text) => text.toUpperCase(),
  (text) => Buffer.from(text).toString("latin1"),
  (text) => text.replaceAll("\n", "\r\n"),
];
const encoding = fc.constantFrom(...ENCODINGS);
/** Credentials of all kinds, with characters that have a meaning in escapes and encodings. */
const value = fc
  .oneof(
    fc.constantFrom("hunter22", "sk_live_9f/Zq+77=Kd&wE 3~x", 'pa"ss\\wo%rd', "line one\nline two", "äöü€ñß📦xy"),
    fc.string({ unit: fc.constantFrom(...'abA0/+ %&\\#;{}"u\n'), minLength: 8, maxLength: 24 }),
  )
  .filter((text) => text.trim() === text && text.length >= 8 && !/^[A-Za-z]{3,10} +/.test(text));
const noise = fc.oneof(
  fc.constantFrom(
    "<p class=",
    ' href="/a?b=1&amp;c=2">',
    "\\n  ",
    "&lt;",
    "&amp;amp;",
    "%2F",
    "%25",
    "100% ",
    "\\",
    "&",
  ),
  fc.string({ unit: fc.constantFrom(...'ab0+/= "<>&%\\;#x\n'), maxLength: 12 }),
);

/** A value, and bytes that may contain all or most of it in up to two encodings. */
const document = value.chain((told) => {
  const part = fc.oneof(
    { weight: 3, arbitrary: fc.constant(told) },
    fc.nat(told.length).map((end) => [...told].slice(0, end).join("")),
    fc.nat(told.length).map((at) => [...told].toSpliced(at, 1).join("")),
  );
  const echo = fc
    .tuple(part, encoding, encoding, noise)
    .map(([text, inner, outer, beside]) => outer(inner(text) + beside));
  return fc.tuple(fc.constant(told), fc.array(fc.oneof({ weight: 4, arbitrary: noise }, echo), { maxLength: 8 }));
});

describe("a secret in an answer", () => {
  it("is found exactly if decoding up to two encodings of the bytes shows all of it", () => {
    let found = 0;
    fc.assert(
      fc.property(document, ([told, pieces]) => {
        const bytes = Buffer.from(pieces.join(""));
        const is_held = holdsByReference(bytes, told);
        if (is_held) found += 1;
        expect(holdsSecret(bytes, new SecretValue(told))).toBe(is_held);
      }),
      { numRuns: 2_000 },
    );
    expect(found).toBeGreaterThan(100);
  });

  it("is found by a search for several secrets exactly if a search for it alone finds it", () => {
    fc.assert(
      fc.property(fc.array(document, { minLength: 2, maxLength: 3 }), (documents) => {
        const texts = documents.map(([told]) => told);
        const bytes = Buffer.from(documents.flatMap(([, pieces]) => pieces).join(""));
        const expected = texts.flatMap((told, index) => (holdsByReference(bytes, told) ? [index] : []));
        expect([...heldIn(bytes, searchFor(texts))].sort()).toEqual(expected);
      }),
      { numRuns: 1_000 },
    );
  });

  it.each(["\\u{41", "\\u004", "\\", "&#x4", "&am", "%4"])(
    "is searched in a page that ends within the escape %s",
    (end) => {
      const value = new SecretValue("sk_live_9f/Zq+77");
      expect(holdsSecret(Buffer.from(`sk_live_9f${end}`), value)).toBe(false);
      expect(holdsSecret(Buffer.from(`sk_live_9f%2FZq+77${end}`), value)).toBe(true);
    },
  );

  it("is found with every possible byte in it, so that no byte may be skipped in the search", () => {
    const told = Array.from({ length: 128 }, (_, n) => String.fromCharCode(n * 256 + n + 128)).join("");
    for (const encode of [ENCODINGS[0], ENCODINGS[1], ENCODINGS[9], ENCODINGS[10]]) {
      expect(holdsSecret(Buffer.from(`<p>${encode?.(told)}</p>`), new SecretValue(told))).toBe(true);
    }
    expect(holdsSecret(Buffer.from(told.slice(1)), new SecretValue(told))).toBe(false);
  });

  it("is found by any line of a long key, with any kind of line breaks", () => {
    const line = (n: number) => createHash("sha384").update(String(n)).digest("base64");
    const lines = [0, 1, 2, 3, 4, 5, 6, 7].map(line);
    const pem = `-----BEGIN KEY-----\n${lines.join("\n")}\n-----END KEY-----\n`;
    for (const separator of ["\r\n", "", "\\n", "<br>", "%0D%0A", " "]) {
      expect(holdsSecret(Buffer.from(`key=${lines.join(separator)}`), new SecretValue(pem)), separator).toBe(true);
    }
    expect(holdsSecret(Buffer.from(pem.replaceAll(/[a-m]/g, "n")), new SecretValue(pem))).toBe(false);
  });
});
