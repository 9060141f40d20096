import { describe, expect, it } from "vitest";
import {
  ALL_BUCKETS,
  hashToken,
  isApiKey,
  newApiKey,
  newRoutingBucket,
  newSessionToken,
} from "../../../src/account/users/tokens.ts";

describe("routing buckets (contract 3.6)", () => {
  it("are the first characters of each key and each session, before 41 random ones", () => {
    const [key, other] = [newApiKey("aZ"), newApiKey("aZ")];
    expect(key).toMatch(/^purser_live_aZ[0-9A-Za-z]{41}[0-9A-Za-z]{6}$/);
    expect(isApiKey(key)).toBe(true);
    expect(isApiKey(key.replace("_aZ", "_aY"))).toBe(false);
    expect(other).not.toBe(key);
    const { token, token_hash } = newSessionToken("0z");
    expect(token).toMatch(/^0z[0-9A-Za-z]{41}$/);
    expect(hashToken(token)).toEqual(token_hash);
  });

  it("fill all 244 bits: each of the 41 characters varies", () => {
    const keys = Array.from({ length: 300 }, () => newApiKey("00").slice(14, 55));
    // 62^41 is a little more than 2^244, so the first character ends before z.
    for (let at = 0; at < 41; at += 1) expect(new Set(keys.map((key) => key[at])).size, `${at}`).toBeGreaterThan(45);
  });

  it("are spread evenly over all two characters, or over the range of a cell", () => {
    const all = Array.from({ length: 20_000 }, () => newRoutingBucket(ALL_BUCKETS));
    expect(new Set(all.map((bucket) => bucket[0])).size).toBe(62);
    expect(new Set(all.map((bucket) => bucket[1])).size).toBe(62);
    const lower = all.filter((bucket) => bucket <= "Uz").length;
    expect(lower / all.length).toBeCloseTo(0.5, 1);
    const range = new Set(Array.from({ length: 2_000 }, () => newRoutingBucket({ first: "Ux", last: "V1" })));
    expect([...range].sort()).toEqual(["Ux", "Uy", "Uz", "V0", "V1"]);
  });
});
