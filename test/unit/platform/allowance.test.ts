import { describe, expect, it } from "vitest";
import { createAllowances } from "../../../src/platform/allowance.ts";

describe("a flood of new clients", () => {
  it("costs each request no look through all that are kept", () => {
    const allowances = createAllowances({ size: 100, refill_s: 3_600 });
    for (let n = 0; n < 40_000; n += 1) allowances.take(`client ${n}`);
    const before = process.threadCpuUsage();
    for (let n = 40_000; n < 42_000; n += 1) allowances.take(`client ${n}`);
    const { user } = process.threadCpuUsage(before);
    console.log(`2,000 new clients beside 40,000: ${(user / 1_000).toFixed(1)} ms`);
    // A look through all took over 500 ms.
    expect(user / 1_000).toBeLessThan(100);
  });

  it("does not give a client that is at its limit a new allowance", () => {
    const allowances = createAllowances({ size: 2, refill_s: 3_600 });
    for (let n = 0; n < 20_000; n += 1) {
      if (n % 5_000 === 0) allowances.take("the attacker");
      allowances.take(`client ${n}`);
    }
    expect(allowances.take("the attacker").retry_after_s).not.toBeNull();
  });
});
