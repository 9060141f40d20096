import { expect, it } from "vitest";
import { SecretValue } from "../../../src/platform/lib/secret-value.ts";
import { createSecretScanner } from "../../../src/platform/net/secret-scanner.ts";

const TEXTS = ["sk_live_9f/Zq+77=Kd&wE 3~x", "hunter2222", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];
const VALUES = TEXTS.map((text) => new SecretValue(text));
const hostile = (bytes: number) => "0123456789abcdef".repeat(bytes / 16);
const twiceInHex = (text: string) => Buffer.from(Buffer.from(text).toString("hex")).toString("hex");

it.each([100, 1_000_000])("one search finds all secrets in an answer with %i bytes of hex", async (bytes) => {
  const scanner = createSecretScanner({ scan_ms: 60_000 });
  const page = `${hostile(bytes)} ${twiceInHex(TEXTS[0] ?? "")} ${hostile(bytes)} ${encodeURIComponent(TEXTS[2] ?? "")}`;
  expect(await scanner.search([Buffer.from("fine"), Buffer.from(page)], VALUES, "ada")).toEqual([0, 2]);
  expect(await scanner.search([Buffer.from(TEXTS[1] ?? ""), Buffer.from(hostile(bytes))], VALUES, "ada")).toEqual([1]);
  expect(await scanner.search([Buffer.from(hostile(bytes))], VALUES, "ada")).toEqual([]);
});

it("a search that takes too long gives no answer, and the next search works", async () => {
  const scanner = createSecretScanner({ scan_ms: 1 });
  const page = Buffer.from(`${hostile(4_000_000)} ${TEXTS[0]}`);
  expect(await scanner.search([page], VALUES, "ada")).toBeNull();
  expect(await scanner.search([Buffer.from(`<p>${TEXTS[0]}</p>`)], VALUES, "ada")).toEqual([0]);
});
