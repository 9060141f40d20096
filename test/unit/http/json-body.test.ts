import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { bodyLimitsOf } from "../../../src/api/http/body.ts";
import { createBodyBudget } from "../../../src/api/http/body-budget.ts";
import { joinPieces, piecesOf } from "../../../src/api/http/json-pieces.ts";
import { createJsonScan } from "../../../src/api/http/json-scan.ts";

const LIMITS = { depth: 3, keys: 4, elements: 5, key_bytes: 9 };
/** The fault that the scan finds in `text`, in chunks of `size` bytes. */
function found(text: string, size = 1_000): string | null {
  const scan = createJsonScan(LIMITS);
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) {
    const fault = scan(bytes.subarray(at, at + size));
    if (fault !== null) return fault;
  }
  return null;
}

describe("the scan of a body before it is parsed", () => {
  it.each([
    ["[[[1]]]", null],
    ["[[[[1]]]]", "more than 3 levels of lists and objects"],
    ['{"a":{"b":1,"c":2},"d":3}', null],
    ['{"a":{"b":1,"c":2},"d":3,"e":4}', "more than 4 keys"],
    ["[1,2,3,4,5]", null],
    ["[1,2,3,4,5,6]", "more than 5 list elements"],
    ['{"a":[1,2],"b":[3,4,[ ]],"c":5,"d":{ }}', null],
    ['{"a":[1,2],"b":[3,4,{}],"c":5,"d":[6]}', "more than 5 list elements"],
    ['["[[[[[[", ":::::::", ",,,,,,,,"]', null],
    ['["\\"[[[[", "\\\\", "\\\\\\":::::"]', null],
    ['["\\\\", [[[', "more than 3 levels of lists and objects"],
    ['{"nine \\"by" : "a text of more bytes"}', null],
    ['{"b":"a text of more bytes","ten bytes." :1}', "a key of more than 9 bytes"],
  ])("%s: %s, in chunks of every size", (text, fault) => {
    for (const size of [1, 2, 3, 5, 1_000]) expect(found(text, size)).toBe(fault);
  });
});

describe("a value from the parsing thread", () => {
  it("arrives as it was parsed, for every JSON value", async () => {
    await fc.assert(
      fc.asyncProperty(fc.json({ maxDepth: 6 }), async (text) => {
        const value = JSON.parse(text);
        expect(await joinPieces(piecesOf(value))).toEqual(value);
      }),
    );
  });

  it("arrives with long texts in parts, also in places that cut a character in two or are named __proto__", async () => {
    const long = `x${"🐬".repeat(200_000)}`;
    const text = JSON.stringify({ long, list: ["a", long, "b"], more: long }).replace('"more"', '"__proto__"');
    const pieces = piecesOf(JSON.parse(text));
    expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThan(300_000);
    expect(JSON.stringify(await joinPieces(pieces)) === text).toBe(true);
    expect(await joinPieces(piecesOf(long))).toBe(long);
  });

  it("takes little more memory than its text, also below long keys (attack: each piece repeated the keys above it)", () => {
    let value: unknown = Array.from({ length: 40 }, () => "x".repeat(131_072));
    for (let level = 0; level < 20; level += 1) value = { ["k".repeat(30_000)]: value };
    const bytes = piecesOf(value).reduce((sum, { length }) => sum + length, 0);
    expect(bytes).toBeLessThan(2 * JSON.stringify(value).length);
  });

  it("arrives in many pieces with its order, its empty parts and a key named __proto__", async () => {
    const long = "x".repeat(3_000);
    const list = Array.from({ length: 500 }, (_, at) => ({ at, long, none: [], nothing: {} }));
    const text = JSON.stringify({ list, more: { inner: list, last: null } }).replace('"more"', '"__proto__"');
    const value = JSON.parse(text);
    const pieces = piecesOf(value);
    expect(pieces.length).toBeGreaterThan(20);
    const joined = await joinPieces(pieces);
    expect(JSON.stringify(joined)).toBe(text);
    expect(Object.getPrototypeOf(joined)).toBe(Object.prototype);
  });
});

describe("the limits of a body", () => {
  it.each([
    ["/api/v1/auth/sign-in", 16_384, 10_000],
    ["/api/v1/api-keys/revoke-leaked", 16_384, 10_000],
    ["/api/v1/billing/stripe/webhook", 262_144, 10_000],
    ["/api/v1/safety/sanitize", 1_048_576, 10_000],
    ["/api/v1/agents", 4_194_304, 10_000],
    ["/api/v1/chat/completions", 33_554_432, 100_000],
    ["/api/v1/agents/0190/chat", 33_554_432, 100_000],
  ])("%s: %i bytes, %i keys", (path, bytes, keys) => {
    expect(bodyLimitsOf(path, 4_194_304)).toMatchObject({ bytes, json: { keys, depth: 64 } });
  });

  it("limits.body_bytes lowers and raises ordinary bodies, but does not raise smaller limits", () => {
    expect(bodyLimitsOf("/api/v1/agents", 9_000_000).bytes).toBe(9_000_000);
    expect(bodyLimitsOf("/api/v1/auth/sign-in", 9_000_000).bytes).toBe(16_384);
    expect(bodyLimitsOf("/api/v1/auth/sign-in", 1_024).bytes).toBe(1_024);
  });
});

describe("the memory of request bodies", () => {
  const MB = 1_048_576;
  it("refuses a caller beyond its share and all callers beyond the node's limit, and released memory is free again", () => {
    const shareOf = createBodyBudget({ node_bytes: 3 * MB, caller_bytes: 2 * MB });
    const [mine, more, other] = [shareOf("a"), shareOf("a"), shareOf("b")];
    mine.take(2 * MB);
    expect(() => more.take(1)).toThrow(expect.objectContaining({ code: "overloaded" }));
    other.take(MB);
    expect(() => shareOf("c").take(MB)).toThrow(expect.objectContaining({ code: "overloaded" }));
    // A small body of a caller that uses little memory is still read.
    shareOf("c").take(1_000);
    mine.release();
    more.take(MB);
  });

  it("keeps room for large bodies if clients without a key declare bodies and never send them", () => {
    const shareOf = createBodyBudget({ node_bytes: 3 * MB, caller_bytes: 2 * MB });
    for (let client = 0; client < 4; client += 1) {
      for (let n = 0; n < 32; n += 1) shareOf(`client ${client}`).take(65_536);
    }
    const user = shareOf("user");
    user.take(MB);
    user.take(MB);
    user.release();
    shareOf("user").take(2 * MB);
  });
});
