import { describe, expect, it } from "vitest";
import { createTokenBuckets } from "../../../src/platform/lib/token-bucket.ts";
import { threadMs } from "../../support/held.ts";

describe("a flood of new clients", () => {
  it("does not make each request search all buckets", () => {
    const buckets = createTokenBuckets({ size: 100, refill_s: 3_600 });
    for (let n = 0; n < 40_000; n += 1) buckets.take(`client ${n}`);
    const began_ms = threadMs();
    for (let n = 40_000; n < 42_000; n += 1) buckets.take(`client ${n}`);
    const taken_ms = threadMs() - began_ms;
    console.log(`2,000 new clients beside 40,000: ${taken_ms.toFixed(1)} ms`);
    // A search through all buckets took over 500 ms.
    expect(taken_ms).toBeLessThan(100);
  });

  it("does not give a client that is at its limit a new bucket", () => {
    const buckets = createTokenBuckets({ size: 2, refill_s: 3_600 });
    for (let n = 0; n < 20_000; n += 1) {
      if (n % 5_000 === 0) buckets.take("the attacker");
      buckets.take(`client ${n}`);
    }
    expect(buckets.take("the attacker").retry_after_s).not.toBeNull();
  });
});
