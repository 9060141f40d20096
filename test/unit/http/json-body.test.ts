import { describe, expect, it } from "vitest";
import { bodyLimitsOf } from "../../../src/api/http/body.ts";
import { createBodyBudget } from "../../../src/api/http/body-budget.ts";
import { checkJsonLimits } from "../../../src/api/http/json-text.ts";

const LIMITS = { depth: 3, keys: 4, elements: 5 };

describe("the limits of a parsed body", () => {
  it.each([
    ["[[[1]]]", null],
    ["[[[[1]]]]", "more than 3 levels"],
    ['{"a":{"b":1,"c":2},"d":3}', null],
    ['{"a":{"b":1,"c":2},"d":3,"e":4,"f":5}', "more than 4 keys"],
    ["[1,2,3,4,5]", null],
    ["[1,2,3,4,5,6]", "more than 5 list elements"],
    ['["[[[[[[", ":::::::", ",,,,,,,,"]', null],
    ["null", null],
  ])("%s: %s", (text, fault) => {
    const check = () => checkJsonLimits(JSON.parse(text), LIMITS);
    if (fault === null) check();
    else expect(check).toThrow(fault);
  });

  it("hold for a text of a million brackets, which ends no process", () => {
    const deep = JSON.parse(`${"[".repeat(1_000_000)}${"]".repeat(1_000_000)}`);
    expect(() => checkJsonLimits(deep, { depth: 64, keys: 100, elements: 100 })).toThrow("more than 64 levels");
  });
});

describe("the limits of a body", () => {
  it.each([
    ["/api/v1/auth/sign-in", 16_384, 100_000],
    ["/api/v1/api-keys/revoke-leaked", 16_384, 100_000],
    ["/api/v1/billing/stripe/webhook", 262_144, 100_000],
    ["/api/v1/safety/sanitize", 1_048_576, 100_000],
    ["/api/v1/agents", 4_194_304, 100_000],
    ["/api/v1/chat/completions", 16_777_216, 200_000],
    ["/api/v1/agents/0190/chat", 16_777_216, 200_000],
  ])("%s: %i bytes, %i elements", (path, bytes, elements) => {
    expect(bodyLimitsOf(path, { body_bytes: 4_194_304, model_body_bytes: 16_777_216 })).toMatchObject({
      bytes,
      json: { elements, depth: 64 },
    });
  });

  it("limits.body_bytes lowers and raises ordinary bodies, but does not raise smaller limits", () => {
    expect(bodyLimitsOf("/api/v1/agents", { body_bytes: 9_000_000, model_body_bytes: 16_777_216 }).bytes).toBe(
      9_000_000,
    );
    expect(bodyLimitsOf("/api/v1/auth/sign-in", { body_bytes: 9_000_000, model_body_bytes: 16_777_216 }).bytes).toBe(
      16_384,
    );
    expect(bodyLimitsOf("/api/v1/auth/sign-in", { body_bytes: 1_024, model_body_bytes: 16_777_216 }).bytes).toBe(1_024);
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
