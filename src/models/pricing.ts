import { RATE_SCALE, TOKENS_PER_USD } from "../constants.ts";
import type { Rates } from "./models.types.ts";

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

/** A rate as the decimal number of the contract, at most 6 decimals. */
export function rateOf(rate_micro: number): number {
  return rate_micro / RATE_SCALE;
}

/** contract 4: the blended reference rate, (3 × input + output) / 4. */
export function costMultiplier({ input_rate_micro, output_rate_micro }: Rates): number {
  // A quarter of a millionth has 8 decimals; the nearest double prints exactly these decimals.
  return (3 * input_rate_micro + output_rate_micro) / (4 * RATE_SCALE);
}

/**
 * Billed tokens of one request: input × input rate + output × output rate, rounded up once. Cached input is part of
 * the input and is priced once: at its own rate if the model has one, otherwise as input.
 */
export function costTokens(
  rates: Rates,
  counts: { input_tokens: number; cached_input_tokens: number; output_tokens: number },
): number {
  return Number(ceilDivide(costMicro(rates, counts), SCALE));
}

/** The cost of a request if the model generates `max_output_tokens` and no input is cached. */
export function worstCaseTokens(rates: Rates, size: { input_tokens: number; max_output_tokens: number }): number {
  return costTokens(rates, {
    input_tokens: size.input_tokens,
    cached_input_tokens: 0,
    output_tokens: size.max_output_tokens,
  });
}

/** The most output that `amount_tokens` pays for after the input; 0 when not even the input is covered. */
export function affordableOutputTokens(rates: Rates, budget: { amount_tokens: number; input_tokens: number }): number {
  const left = BigInt(budget.amount_tokens) * SCALE - BigInt(budget.input_tokens) * BigInt(rates.input_rate_micro);
  if (left < 0n) return 0;
  if (rates.output_rate_micro === 0) return Number.MAX_SAFE_INTEGER;
  return Number(left / BigInt(rates.output_rate_micro));
}

function costMicro(
  rates: Rates,
  counts: { input_tokens: number; cached_input_tokens: number; output_tokens: number },
): bigint {
  const cached = Math.min(counts.cached_input_tokens, counts.input_tokens);
  const cached_rate = rates.cached_input_rate_micro ?? rates.input_rate_micro;
  return (
    BigInt(counts.input_tokens - cached) * BigInt(rates.input_rate_micro) +
    BigInt(cached) * BigInt(cached_rate) +
    BigInt(counts.output_tokens) * BigInt(rates.output_rate_micro)
  );
}

function ceilDivide(numerator: bigint, divisor: bigint): bigint {
  return (numerator + divisor - 1n) / divisor;
}
