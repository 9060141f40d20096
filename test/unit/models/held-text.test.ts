import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { heldJsonTokens, heldTextTokens } from "../../../src/gateway/models/held-text.ts";
import { heldInput } from "../../../src/gateway/models/token-count.ts";
import { modelOf, requestOf } from "./model-fixture.ts";

/**
 * Texts with the most tokens that a measured tokenizer makes of them. Of random characters of one script, the tokenizers
 * of 2023 with 32,000 tokens are left out.
 */
interface Measured {
  kind: "ascii" | "language" | "random";
  name: string;
  text: string;
  tokens: number;
}
const MEASURED: Measured[] = JSON.parse(readFileSync("test/fixtures/measured-tokens.json", "utf8"));

describe("the hold for a text is at least what each measured tokenizer makes of it:", () => {
  it.each(MEASURED.map(({ name, text, tokens }) => [name, text, tokens] as const))("%s", (_, text, tokens) => {
    expect(heldTextTokens(text)).toBeGreaterThanOrEqual(tokens);
  });
});

const EUROPEAN = [
  "English",
  "German",
  "French",
  "Spanish",
  "Italian",
  "Dutch",
  "Portuguese",
  "Polish",
  "Finnish",
  "Russian",
];

it.each([...EUROPEAN, "english docs", "typescript", "sql"])(
  "the hold for an ordinary text stays near half a token per byte: %s",
  (wanted) => {
    const { text } = MEASURED.find(({ name }) => name === wanted) as Measured;
    expect(heldTextTokens(text)).toBeLessThanOrEqual(Math.ceil(0.65 * Buffer.byteLength(text)));
  },
);

it("the hold grows with each character, and is at most 6 tokens for it", () => {
  const text = fc.string({ unit: "binary", maxLength: 40 });
  fc.assert(
    fc.property(text, fc.string({ unit: "binary", minLength: 1, maxLength: 1 }), (before, char) => {
      const added = heldTextTokens(before + char) - heldTextTokens(before);
      expect(added).toBeGreaterThanOrEqual(0);
      expect(added).toBeLessThanOrEqual(char >= "\ufdf0" && char <= "\ufdff" ? 16 : 6);
    }),
  );
});

it("a large value has the same hold as its small parts", async () => {
  const parts = MEASURED.map(({ text }) => ({ content: text, names: { [text.slice(0, 20)]: [1, 2.5, null, true] } }));
  const one = parts.map((part) => heldJsonTokens(part));
  const sum = one.reduce((total, tokens) => total + tokens, 0);
  const whole = heldJsonTokens([...parts, ...parts, ...parts, ...parts]);
  expect(Math.abs(whole - 4 * sum)).toBeLessThan(0.01 * whole);
});

it("data of a picture is no text, and the same data in a message's text is (attack: a text that is held as a picture)", async () => {
  const data = Buffer.from("x".repeat(30_000)).toString("base64");
  const held = async (content: unknown) => {
    const request = requestOf({ messages: [{ role: "user", content }] as never });
    return heldInput({ request, model: modelOf() }, JSON.stringify(request).length).input_tokens;
  };
  const picture = { type: "image_url", image_url: { url: `data:image/png;base64,${data}` } };
  const text = { type: "text", text: `data:image/png;base64,${data}` };
  expect(await held([picture])).toBeLessThan(4_200);
  expect(await held([text])).toBeGreaterThan(20_000);
  expect(await held([picture, text])).toBeGreaterThan(24_000);
});
