import { describe, expect, it } from "vitest";
import { jsonBytes } from "../../../src/platform/lib/json.ts";
import { expectShortTurn, heldDuring } from "../../support/held.ts";

const LONG = 'a"\\\n\u0001é€😀\ud800'.repeat(30_000);

describe("JSON that is written in pieces", () => {
  it.each<[string, unknown]>([
    ["a short value", { a: [1, null, true, "x"], b: undefined }],
    ["a long text", LONG],
    ["a pair of surrogates at the end of a piece", `${"x".repeat(65_535)}😀${"y".repeat(65_536)}`],
    ["long texts in lists and objects", { a: [LONG, { b: LONG, c: undefined, "d\n": [undefined, 1.5e300] }], __e: {} }],
    ["an object of undefined fields and a long text", [LONG, { a: undefined }, [], {}]],
    ["many messages", Array.from({ length: 9_000 }, (_, n) => ({ role: "user", content: `message ${n}` }))],
    ["many keys", Object.fromEntries(Array.from({ length: 50_000 }, (_, n) => [`k${n}`, n]))],
  ])("is read as the same value: %s", async (_name, value) => {
    expect(JSON.parse(String(await jsonBytes(value)))).toEqual(JSON.parse(JSON.stringify(value)));
  });

  it.each([
    ["quotation marks", '"'.repeat(15_000_000)],
    ["halves of surrogate pairs", "\ud800".repeat(5_000_000)],
    ["9,000 parts", Array(9_000).fill({ type: "text", text: "ten bytes.".repeat(340) })],
  ])("does not block the event loop: 30 MB of %s", { retry: 2 }, async (name, value) => {
    // 10 to 25 ms on a quiet machine.
    await expectShortTurn(name, await heldDuring(() => jsonBytes(value)));
  });
});
