import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Rates } from "../../../src/gateway/models/models.types.ts";
import {
  affordableOutputTokens,
  billedRates,
  costMultiplier,
  costTokens,
  isSameTier,
  rateOf,
  rateOfPrice,
  worstCaseTokens,
} from "../../../src/gateway/models/pricing.ts";

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

/** A fraction of integers: the independent model with which prices are compared. */
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

  it("prices cached input once, at its own rate if it has one", () => {
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

  it("never exceeds a hold for at least this input and output", () => {
    fc.assert(
      fc.property(anyRate, anyRate, anyCount, anyCount, (input_rate, output_rate, input_tokens, max_output_tokens) => {
        const model = rates(input_rate, output_rate);
        const worst = worstCaseTokens(model, { input_tokens, max_output_tokens });
        expect(costTokens(model, counts(input_tokens >> 1, max_output_tokens))).toBeLessThanOrEqual(worst);
      }),
    );
  });
});

describe("prices by class", () => {
  const own: Rates = {
    input_rate_micro: 1_000_000,
    cached_input_rate_micro: 100_000,
    cache_write_rate_micro: 1_250_000,
    cache_write_1h_rate_micro: 2_000_000,
    output_rate_micro: 5_000_000,
    tiers: [
      {
        above_input_tokens: 1_000,
        input_rate_micro: 2_000_000,
        cached_input_rate_micro: 200_000,
        cache_write_rate_micro: 2_500_000,
        cache_write_1h_rate_micro: 4_000_000,
        output_rate_micro: 7_500_000,
      },
    ],
  };
  const mixed = (input: number, { cached = 0, written = 0, hour = 0, output = 0 }) => ({
    input_tokens: input,
    cached_input_tokens: cached,
    output_tokens: output,
    cache_write_tokens: written,
    cache_write_1h_tokens: hour,
  });

  it.each([
    [mixed(1_000, { cached: 600, written: 300, hour: 100, output: 10 }), 660, "100 + 60 + 250 + 200 + 50"],
    [mixed(1_000, { output: 1 }), 1_005, "the step itself is not above it"],
    [mixed(1_001, { output: 1 }), 2_010, "2,002 + 7.5: a longer input makes all of the request dearer"],
    [mixed(2_000, { cached: 1_000, written: 1_000 }), 2_700, "200 + 2,500"],
    [mixed(3, { cached: 1, written: 1 }), 3, "1 + 0.1 + 1.25 is rounded once"],
  ])("of %j cost %i: %s", (used, cost) => {
    expect(costTokens(own, used)).toBe(cost);
  });

  it("without rates of their own: a class costs as much as input, and writes for an hour as much as other writes", () => {
    const used = mixed(1_000, { cached: 200, written: 500, hour: 100 });
    expect(costTokens(rates(1_000_000, 2_000_000), used)).toBe(1_000);
    const writes = { ...rates(1_000_000, 2_000_000), cache_write_rate_micro: 2_000_000 };
    expect(costTokens(writes, used)).toBe(1_500);
  });

  it("without a rate for cached input are the seed's formula, also with a rate for cache writes", () => {
    const used = mixed(1_000, { cached: 200, written: 500, hour: 100 });
    const writes = { ...rates(1_000_000, 2_000_000), cache_write_rate_micro: 2_000_000 };
    expect(costTokens(billedRates(writes, "provider"), used)).toBe(1_000);
    expect(costTokens(billedRates(own, "provider"), used)).toBe(costTokens(own, used));
    const of_tier = { ...own, tiers: own.tiers.map((tier) => ({ ...tier, cached_input_rate_micro: null })) };
    const long = mixed(2_000, { cached: 1_000, written: 1_000 });
    expect(costTokens(billedRates(of_tier, "provider"), long)).toBe(4_000);
  });

  it("of an answer and its correction are covered by the hold, for any use of both calls in the tier of the first", () => {
    const share = fc.nat(900);
    const call = fc.tuple(share, share, share);
    fc.assert(
      fc.property(call, call, share, fc.nat(300), (first, second, spare, output) => {
        const [a, b] = [first, second].map(([fresh, cached, written]) =>
          mixed(fresh + cached + written, { cached, written }),
        ) as [ReturnType<typeof mixed>, ReturnType<typeof mixed>];
        const [one, two] = a.input_tokens <= b.input_tokens ? [a, b] : [b, a];
        fc.pre(isSameTier(own, one.input_tokens, two.input_tokens));
        const first_output = Math.max(0, two.input_tokens - one.input_tokens);
        const sum = {
          input_tokens: one.input_tokens + two.input_tokens,
          cached_input_tokens: one.cached_input_tokens + two.cached_input_tokens,
          cache_write_tokens: one.cache_write_tokens + two.cache_write_tokens,
          cache_write_1h_tokens: 0,
          output_tokens: first_output + output,
          call_input_tokens: one.input_tokens,
        };
        // The second input is the first one and the answer.
        const call_input_tokens = one.input_tokens + spare;
        const bound = { input_tokens: 2 * call_input_tokens, call_input_tokens, resends_output: true as const };
        const held = worstCaseTokens(own, { ...bound, max_output_tokens: sum.output_tokens });
        expect(costTokens(own, sum)).toBeLessThanOrEqual(held);
        expect(affordableOutputTokens(own, { ...bound, amount_tokens: held })).toBeGreaterThanOrEqual(
          sum.output_tokens,
        );
      }),
      { numRuns: 2_000 },
    );
  });

  it("are the seed's formula if they are flat", () => {
    const used = mixed(900, { cached: 600, written: 300, hour: 100, output: 10 });
    expect(costTokens(billedRates(own, "flat"), used)).toBe(950);
    expect(costTokens(billedRates(own, "flat"), mixed(2_000, { cached: 2_000, output: 10 }))).toBe(4_075);
  });

  it("reject classes that exceed the total", () => {
    expect(() => costTokens(own, mixed(10, { cached: 6, written: 5 }))).toThrow(RangeError);
    expect(() => costTokens(own, mixed(10, { written: 1, hour: 2 }))).toThrow(RangeError);
  });

  it("are never above the hold, for every reachable mix of classes, any rates and tiers", () => {
    const rate = fc.integer({ min: 0, max: 5_000_000 });
    const optional = fc.option(rate, { nil: null });
    const classes = {
      input_rate_micro: rate,
      output_rate_micro: rate,
      cached_input_rate_micro: optional,
      cache_write_rate_micro: optional,
      cache_write_1h_rate_micro: optional,
    };
    const steps = fc.uniqueArray(fc.integer({ min: 1, max: 4_000 }), { maxLength: 3 });
    const tiered = fc
      .tuple(fc.record(classes), steps, fc.array(fc.record(classes), { minLength: 3, maxLength: 3 }))
      .map(([base, above, higher]): Rates => {
        const tiers = above
          .toSorted((a, b) => a - b)
          .map((each, index) => ({ above_input_tokens: each, ...(higher[index] ?? base) }));
        return { ...base, tiers };
      });
    const share = fc.nat(1_000);
    const reach = fc.constantFrom("none", "5m", "1h", undefined);
    fc.assert(
      fc.property(
        tiered,
        reach,
        fc.tuple(share, share, share, share),
        share,
        share,
        (model, cache_writes, mix, spare, output) => {
          const [fresh, cached, five_minutes, an_hour] = mix;
          const written = cache_writes === "none" ? 0 : five_minutes;
          const hour = cache_writes === "none" || cache_writes === "5m" ? 0 : an_hour;
          const used = mixed(fresh + cached + written + hour, { cached, written: written + hour, hour, output });
          const bound = {
            input_tokens: used.input_tokens + spare,
            ...(cache_writes === undefined ? {} : { cache_writes }),
          };
          const held = worstCaseTokens(model, { ...bound, max_output_tokens: output });
          expect(costTokens(model, used)).toBeLessThanOrEqual(held);
          const affordable = affordableOutputTokens(model, { ...bound, amount_tokens: held });
          expect(affordable).toBeGreaterThanOrEqual(output);
          expect(costTokens(model, { ...used, output_tokens: Math.min(affordable, 1e9) })).toBeLessThanOrEqual(held);
        },
      ),
      { numRuns: 2_000 },
    );
  });
});

describe("the output that an amount pays for", () => {
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

  it("is none if the input alone is too expensive, and unlimited if output is free", () => {
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
  ])("of $usd dollars per million × $margin is $rate", ({ usd, margin, rate }) => {
    expect(rateOf(rateOfPrice(usd, margin))).toBe(rate);
  });

  it.each(["-1", "NaN", "", "1,5", "0x10", "Infinity", "1e9999"])("rejects the price %j", (usd) => {
    expect(() => rateOfPrice(usd, 1)).toThrow(RangeError);
  });

  it("is never below the price and at most a millionth above it", () => {
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
