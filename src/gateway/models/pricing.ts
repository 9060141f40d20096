import { RATE_SCALE, TOKENS_PER_USD } from "../../kernel/constants.ts";
import type { CachePricing, ClassRates, Counts, ProviderRequest, Rates } from "./models.types.ts";

const SCALE = BigInt(RATE_SCALE);
const DECIMAL = /^(\d+)(?:\.(\d+))?(?:e([+-]?\d{1,3}))?$/i;

/** A decimal number as it was written: `digits / 10^places`. */
interface Decimal {
  digits: bigint;
  places: number;
}

/**
 * Reads a decimal of 0 or more exactly, from its text or from a number's shortest text: 0.333333 is 333333 millionths,
 * not the nearest binary fraction. Throws a RangeError for any other value.
 */
function parseDecimal(value: number | string): Decimal {
  const match = DECIMAL.exec(String(value).trim());
  if (match === null) throw new RangeError(`${JSON.stringify(value)} is not a decimal number of 0 or more`);
  const [, whole = "0", fraction = "", exponent = "0"] = match;
  const digits = BigInt(whole + fraction);
  const places = fraction.length - Number(exponent);
  return places < 0 ? { digits: digits * 10n ** BigInt(-places), places: 0 } : { digits, places };
}

/**
 * The rate for a provider's price: USD per million tokens × margin × 625,000 tokens per dollar. It is rounded up to the
 * next millionth, so the rate is never below the price.
 */
export function rateOfPrice(usd_per_million: number | string, margin: number | string): number {
  const price = parseDecimal(usd_per_million);
  const factor = parseDecimal(margin);
  // (USD per million / 10^6) × 625,000 in millionths: the two millions cancel out.
  const numerator = price.digits * factor.digits * BigInt(TOKENS_PER_USD);
  return Number(ceilDivide(numerator, 10n ** BigInt(price.places + factor.places)));
}

/** The provider's price as the rate of an upstream cost: micro-dollars per million tokens, rounded up. */
export function upstreamRateOfPrice(usd_per_million: number | string): number {
  const price = parseDecimal(usd_per_million);
  return Number(ceilDivide(price.digits * SCALE, 10n ** BigInt(price.places)));
}

/** A rate as the decimal number of the contract, at most 6 decimals. */
export function rateOf(rate_micro: number): number {
  return rate_micro / RATE_SCALE;
}

/** contract 4: the blended reference rate, (3 × input + output) / 4. */
export function costMultiplier({
  input_rate_micro,
  output_rate_micro,
}: Pick<Rates, "input_rate_micro" | "output_rate_micro">): number {
  // A quarter of a millionth has 8 decimals; the nearest double prints exactly these decimals.
  return (3 * input_rate_micro + output_rate_micro) / (4 * RATE_SCALE);
}

/** The tokens of one request by class, as `Counts` has them. */
type PricedCounts = Pick<
  Counts,
  | "input_tokens"
  | "cached_input_tokens"
  | "cache_write_tokens"
  | "cache_write_1h_tokens"
  | "output_tokens"
  | "call_input_tokens"
>;

/** The most that a request can use: see `ProviderRequest`. */
export type InputBound = Pick<
  ProviderRequest,
  "input_tokens" | "cache_writes" | "call_input_tokens" | "resends_output"
>;

/** The rates of a request: from the highest tier below the input of one call, otherwise the model's own. */
export function ratesFor(
  rates: Rates,
  { input_tokens, call_input_tokens = input_tokens }: Pick<PricedCounts, "input_tokens" | "call_input_tokens">,
): ClassRates {
  return rates.tiers.findLast((tier) => call_input_tokens > tier.above_input_tokens) ?? rates;
}

/** Whether two calls with this much input are billed at the same rates. */
export function isSameTier(rates: Rates, one: number, other: number): boolean {
  return ratesFor(rates, { input_tokens: one }) === ratesFor(rates, { input_tokens: other });
}

/**
 * Billed tokens of one request: the tokens of each class × the rate of that class, rounded up once. The input decides
 * the tier of all classes. With upstream prices for `rates`, the result is the cost in micro-dollars.
 */
export function costTokens(rates: Rates, counts: PricedCounts): number {
  return Number(ceilDivide(costMicro(ratesFor(rates, counts), counts), SCALE));
}

/** The dearest rate of input and of output that a request with at most this much input can reach. */
export function dearestRates(
  rates: Rates,
  { input_tokens, call_input_tokens = input_tokens, cache_writes }: InputBound,
): Pick<ClassRates, "input_rate_micro" | "output_rate_micro"> {
  let input_rate_micro = dearestInputRate(rates, cache_writes);
  let { output_rate_micro } = rates;
  for (const tier of rates.tiers) {
    if (call_input_tokens <= tier.above_input_tokens) continue;
    input_rate_micro = Math.max(input_rate_micro, dearestInputRate(tier, cache_writes));
    output_rate_micro = Math.max(output_rate_micro, tier.output_rate_micro);
  }
  return { input_rate_micro, output_rate_micro };
}

/** The highest cost of a request: all its input in the dearest class and tier, and `max_output_tokens` of output. */
export function worstCaseTokens(rates: Rates, size: InputBound & { max_output_tokens: number }): number {
  const input = BigInt(size.input_tokens) * BigInt(dearestRates(rates, size).input_rate_micro);
  const output = BigInt(size.max_output_tokens) * outputMicro(rates, size);
  return Number(ceilDivide(input + output, SCALE));
}

/** The most that a token of output costs: also as input, if it may be sent back. */
function outputMicro(rates: Rates, size: InputBound): bigint {
  const { input_rate_micro, output_rate_micro } = dearestRates(rates, size);
  return BigInt(output_rate_micro) + (size.resends_output === true ? BigInt(input_rate_micro) : 0n);
}

/** The most output that `amount_tokens` pays for after the dearest input; 0 when not even the input is covered. */
export function affordableOutputTokens(rates: Rates, budget: InputBound & { amount_tokens: number }): number {
  const { input_rate_micro } = dearestRates(rates, budget);
  const output_micro = outputMicro(rates, budget);
  const left = BigInt(budget.amount_tokens) * SCALE - BigInt(budget.input_tokens) * BigInt(input_rate_micro);
  if (left < 0n) return 0;
  if (output_micro === 0n) return Number.MAX_SAFE_INTEGER;
  return Number(left / output_micro);
}

/**
 * The rates that are billed. `flat`: every class of input at the input rate, the formula of contract 4.5. `provider`:
 * each class at its own rate, but that formula for rates without one for cached input.
 */
export function billedRates(rates: Rates, cache_pricing: CachePricing): Rates {
  const none = { cached_input_rate_micro: null, cache_write_rate_micro: null, cache_write_1h_rate_micro: null };
  const isOwn = ({ cached_input_rate_micro }: ClassRates) =>
    cache_pricing === "provider" && cached_input_rate_micro !== null;
  const tiers = rates.tiers.map((tier) => (isOwn(tier) ? tier : { ...tier, ...none }));
  return { ...rates, ...(isOwn(rates) ? {} : none), tiers };
}

/** The rate of each class of input, with the rate that applies where a class has none of its own. */
export function ratesByClass(rates: ClassRates): { [rate in keyof ClassRates]: number } {
  const { input_rate_micro, output_rate_micro } = rates;
  const cache_write_rate_micro = rates.cache_write_rate_micro ?? input_rate_micro;
  return {
    input_rate_micro,
    cached_input_rate_micro: rates.cached_input_rate_micro ?? input_rate_micro,
    cache_write_rate_micro,
    cache_write_1h_rate_micro: rates.cache_write_1h_rate_micro ?? cache_write_rate_micro,
    output_rate_micro,
  };
}

function dearestInputRate(rates: ClassRates, cache_writes: ProviderRequest["cache_writes"] = "1h"): number {
  const by_class = ratesByClass(rates);
  const read = Math.max(by_class.input_rate_micro, by_class.cached_input_rate_micro);
  if (cache_writes === "none") return read;
  const written = Math.max(read, by_class.cache_write_rate_micro);
  return cache_writes === "1h" ? Math.max(written, by_class.cache_write_1h_rate_micro) : written;
}

function costMicro(rates: ClassRates, counts: PricedCounts): bigint {
  const { input_tokens, cached_input_tokens, cache_write_tokens, cache_write_1h_tokens } = counts;
  const by_class = ratesByClass(rates);
  const parts = [
    [input_tokens - cached_input_tokens - cache_write_tokens, by_class.input_rate_micro],
    [cached_input_tokens, by_class.cached_input_rate_micro],
    [cache_write_tokens - cache_write_1h_tokens, by_class.cache_write_rate_micro],
    [cache_write_1h_tokens, by_class.cache_write_1h_rate_micro],
    [counts.output_tokens, by_class.output_rate_micro],
  ] as const;
  let cost_micro = 0n;
  for (const [tokens, rate_micro] of parts) {
    if (tokens < 0) throw new RangeError("the parts of the input are more than the input");
    if (tokens > 0) cost_micro += BigInt(tokens) * BigInt(rate_micro);
  }
  return cost_micro;
}

function ceilDivide(numerator: bigint, divisor: bigint): bigint {
  return (numerator + divisor - 1n) / divisor;
}
