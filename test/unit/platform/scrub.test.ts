import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SecretValue } from "../../../src/platform/lib/secret-value.ts";
import { findHeld, holdsSecret } from "../../../src/platform/net/scrub.ts";
import { ALL, WRAPPED } from "../../support/disguises.ts";

// Failures elsewhere: an echo endpoint shows the model the token (Infisical/cli#397), decoys exhaust the redactor
// (g0#168). Hostile servers are in test/attacks/secrets-echo.

const VALUES = ["hunter22", "sk_live_9f/Zq+77=Kd&wE 3~x", 'pa"ss\\wo%rd', "no 1: key\nno 2: word", "äöü€ñß📦xy"];
const holds = (text: string, value: string) => holdsSecret(Buffer.from(text), new SecretValue(value));
const value = fc.oneof(
  fc.constantFrom(...VALUES),
  fc
    .string({ unit: fc.constantFrom(...'abA0/+ %&\\#;{}"u\n'), minLength: 8, maxLength: 24 })
    .filter((text) => text.trim() === text && !/^[A-Za-z]{3,10} +/.test(text)),
);
const noise = fc.constantFrom("", "<p class=", ' href="/a?b=1&amp;c=2">', "\\n  ", "%25", "100% ", "\\", "&", "a-b_c");
/** Beyond ASCII, an encoding that writes each byte as a character changes the text. */
const ONE_BYTE_EACH = /JSON, all|HTML, /;
const encodings = (told: string) =>
  Buffer.from(told).length === told.length ? ALL : ALL.filter(([name]) => !ONE_BYTE_EACH.test(name));

describe("a secret in an answer", () => {
  it("is found in every encoding, and in encodings of encodings, beside any text", () => {
    const sent = value.chain((told) => fc.tuple(fc.constant(told), fc.constantFrom(...encodings(told)), noise, noise));
    fc.assert(
      fc.property(sent, ([told, [name, encode], before, after]) => {
        expect(holds(`${before} ${encode(told)} ${after}`, told), name).toBe(true);
      }),
      { numRuns: 3_000 },
    );
  });

  it("is not found where one of its characters is missing", () => {
    const broken = fc.tuple(fc.constantFrom(...VALUES), fc.constantFrom(...ALL), fc.nat(7));
    fc.assert(
      fc.property(broken, ([told, [name, encode], at]) => {
        expect(holds(encode([...told].toSpliced(at, 1, "·").join("")), told), name).toBe(false);
      }),
      { numRuns: 2_000 },
    );
  });

  it("is found among others by one search", () => {
    const [first = "", second = "", third = ""] = VALUES;
    const page = Buffer.from(`<p>${encodeURIComponent(third)}</p> ${Buffer.from(first).toString("hex")}`);
    expect([...findHeld(page, [first, second, third])].sort()).toEqual([0, 2]);
  });

  it("is found in digits that are wrapped into lines, with any line breaks of its own, and read as latin1", () => {
    const [, told = "", , lines = "", letters = ""] = VALUES;
    expect(holds(WRAPPED[1](told), told)).toBe(true);
    expect(holds(lines.replaceAll("\n", "\r\n"), lines)).toBe(true);
    expect(holds(Buffer.from(letters).toString("latin1"), letters)).toBe(true);
  });

  it("is found by any line of a long key, with any kind of line breaks", () => {
    const line = (n: number) => createHash("sha384").update(String(n)).digest("base64");
    const lines = [0, 1, 2, 3, 4, 5, 6, 7].map(line);
    const pem = `-----BEGIN KEY-----\n${lines.join("\n")}\n-----END KEY-----\n`;
    for (const separator of ["\r\n", "", "\\n", "<br>", "%0D%0A", " "]) {
      expect(holds(`key=${lines.join(separator)}`, pem), separator).toBe(true);
    }
    expect(holds(pem.replaceAll(/[a-m]/g, "n"), pem)).toBe(false);
  });
});
