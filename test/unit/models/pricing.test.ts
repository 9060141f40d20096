import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Rates } from "../../../src/models/models.types.ts";
import {
  affordableOutputTokens,
  costMultiplier,
  costTokens,
  rateOf,
  rateOfPrice,
  worstCaseTokens,
} from "../../../src/models/pricing.ts";

const rates = (input_rate_micro: number, output_rate_micro: number, cached: number | null = null): Rates => ({
  input_rate_micro,
  output_rate_micro,
  cached_input_rate_micro: cached,
  cache_write_rate_micro: null,
  cache_write_1h_rate_micro: null,
  tiers: [],
});
const counts = (input_tokens: number, output_tokens: number, cached_input_tokens = 0) => ({
  input_tokens,
  output_tokens,
  cached_input_tokens,
  cache_write_tokens: 0,
  cache_write_1h_tokens: 0,
});

/** A fraction of whole numbers: the independent model that prices are checked against. */
interface Fraction {
  n: bigint;
  d: bigint;
}
const times = (a: Fraction, b: Fraction): Fraction => ({ n: a.n * b.n, d: a.d * b.d });
const plus = (a: Fraction, b: Fraction): Fraction => ({ n: a.n * b.d + b.n * a.d, d: a.d * b.d });
const whole = (value: number): Fraction => ({ n: BigInt(value), d: 1n });
const micro = (value: number): Fraction => ({ n: BigInt(value), d: 1_000_000n });
const ceil = ({ n, d }: Fraction): bigint => n / d + (n % d === 0n ? 0n : 1n);

const anyRate = fc.integer({ min: 0, max: 500_000_000 });
const anyCount = fc.integer({ min: 0, max: 100_000_000 });

describe("the cost of a request", () => {
  it.each([
    { in: 333_333, out: 1_000_001, input: 3, output: 1, cost: 2, why: "0.999999 + 1.000001 is 2 exactly" },
    { in: 333_333, out: 1_000_001, input: 4, output: 1, cost: 3, why: "2.333333 rounds up once" },
    { in: 333_333, out: 1_000_001, input: 1_000_000, output: 1_000_000, cost: 1_333_334, why: "no drift at size" },
    { in: 500_000, out: 500_001, input: 1, output: 1, cost: 2, why: "0.5 + 0.500001 is rounded once, not twice to 2+" },
    { in: 1, out: 2, input: 1, output: 0, cost: 1, why: "a millionth is a token" },
    { in: 0, out: 0, input: 9_999, output: 9_999, cost: 0, why: "free is free" },
  ])("is $cost: $why", ({ in: input_rate, out: output_rate, input, output, cost }) => {
    expect(costTokens(rates(input_rate, output_rate), counts(input, output))).toBe(cost);
  });

  it("prices cached input once, at its own rate where there is one", () => {
    const used = counts(1_000, 0, 400);
    expect(costTokens(rates(1_000_000, 2_000_000), used)).toBe(1_000);
    expect(costTokens(rates(1_000_000, 2_000_000, 100_000), used)).toBe(640);
  });

  it("is the exact fraction, rounded up once, at any rates and counts", () => {
    fc.assert(
      fc.property(anyRate, anyRate, anyCount, anyCount, anyCount, (input_rate, output_rate, input, output, cached) => {
        const cached_input = Math.min(cached, input);
        const exact = plus(
          plus(
            times(whole(input - cached_input), micro(input_rate)),
            times(whole(cached_input), micro(input_rate >> 1)),
          ),
          times(whole(output), micro(output_rate)),
        );
        const cost = costTokens(rates(input_rate, output_rate, input_rate >> 1), counts(input, output, cached_input));
        expect(BigInt(cost)).toBe(ceil(exact));
      }),
    );
  });

  it("never exceeds a hold whose input and output it stays within", () => {
    fc.assert(
      fc.property(anyRate, anyRate, anyCount, anyCount, (input_rate, output_rate, input_tokens, max_output_tokens) => {
        const model = rates(input_rate, output_rate);
        const worst = worstCaseTokens(model, { input_tokens, max_output_tokens });
        expect(costTokens(model, counts(input_tokens >> 1, max_output_tokens))).toBeLessThanOrEqual(worst);
      }),
    );
  });
});

describe("the output that an amount affords", () => {
  it("costs no more than the amount, and one token more would", () => {
    fc.assert(
      fc.property(
        anyRate,
        fc.integer({ min: 1, max: 500_000_000 }),
        anyCount,
        fc.integer({ min: 0, max: 1_000_000_000 }),
        (input_rate, output_rate, input_tokens, amount_tokens) => {
          const model = rates(input_rate, output_rate);
          fc.pre(costTokens(model, counts(input_tokens, 0)) <= amount_tokens);
          const output = affordableOutputTokens(model, { amount_tokens, input_tokens });
          expect(costTokens(model, counts(input_tokens, output))).toBeLessThanOrEqual(amount_tokens);
          expect(costTokens(model, counts(input_tokens, output + 1))).toBeGreaterThan(amount_tokens);
        },
      ),
    );
  });

  it("is none when the input alone is too dear, and without limit when output is free", () => {
    expect(affordableOutputTokens(rates(1_000_000, 2_000_000), { amount_tokens: 9, input_tokens: 10 })).toBe(0);
    expect(affordableOutputTokens(rates(0, 0), { amount_tokens: 0, input_tokens: 10 })).toBe(Number.MAX_SAFE_INTEGER);
  });
});

describe("the rate of a provider's price", () => {
  it.each([
    { usd: "0.10", margin: 1, rate: 0.0625 },
    { usd: "4.00", margin: 1, rate: 2.5 },
    { usd: 0.075, margin: 1, rate: 0.046875 },
    { usd: "2", margin: 1.3, rate: 1.625 },
    { usd: "0.000001", margin: 1, rate: 0.000001 },
    { usd: "1e-7", margin: "1.5", rate: 0.000001 },
    { usd: "0", margin: 3, rate: 0 },
  ])("of $usd dollars a million × $margin is $rate", ({ usd, margin, rate }) => {
    expect(rateOf(rateOfPrice(usd, margin))).toBe(rate);
  });

  it.each(["-1", "NaN", "", "1,5", "0x10", "Infinity", "1e9999"])("refuses the price %j", (usd) => {
    expect(() => rateOfPrice(usd, 1)).toThrow(RangeError);
  });

  it("never undercuts the price and is at most a millionth above it", () => {
    const decimal = fc.integer({ min: 0, max: 1_000_000_000 });
    fc.assert(
      fc.property(decimal, decimal, (price_micro, margin_micro) => {
        const exact = times(times(micro(price_micro), micro(margin_micro)), { n: 625_000n, d: 1n });
        const rate = rateOfPrice(price_micro / 1e6, margin_micro / 1e6);
        expect(BigInt(rate)).toBe(ceil(exact));
      }),
    );
  });
});

it("the cost multiplier is a quarter of three inputs and one output", () => {
  expect(costMultiplier(rates(250_000, 1_250_000))).toBe(0.5);
  expect(costMultiplier(rates(333_333, 1_000_001))).toBe(0.5);
});
