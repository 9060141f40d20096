import { type AgentNames, withAgentNames } from "../../api/contract/agent-name.ts";
import type { explanationSchema } from "../../api/contract/ledger-export.ts";
import type { z } from "../../api/contract/zod.ts";
import { RATE_SCALE } from "../../kernel/constants.ts";
import type { ChargeRecord, HoldEstimate, SettledCharge } from "../ledger/ledger.types.ts";

type Explanation = z.infer<typeof explanationSchema>;
type Explained = Omit<Explanation, "request_id" | "others">;
type PricedClass = Explained["priced"][number]["tokens_of"];

const DECIMALS = String(RATE_SCALE).length - 1;

/** Explains the charges of a request, newest first. Returns null when there are none. */
export function explain(request_id: string, charges: readonly ChargeRecord[], names: AgentNames): Explanation | null {
  const [newest, ...others] = charges.map((charge) => explainCharge(charge, names));
  return newest === undefined ? null : { request_id, ...newest, others };
}

function explainCharge({ charge, estimate, hold, ...of_call }: ChargeRecord, names: AgentNames): Explained {
  const { slices = [], ...amounts } = hold ?? {};
  const priced = charge === null ? [] : pricedParts(charge);
  const exact_micro = priced.reduce((sum, { micro }) => sum + micro, 0n);
  return {
    ...of_call,
    model: charge?.model ?? estimate?.model ?? null,
    estimate: estimate === null ? null : worstCase(estimate),
    hold: hold === null ? null : (amounts as Explained["hold"]),
    slices,
    rates: toRates(charge ?? estimate),
    priced: priced.map(({ micro, ...part }) => ({ ...part, amount: decimal(micro) })),
    rounding: charge === null ? null : rounding(exact_micro, charge.cost_tokens),
    cost_tokens: charge?.cost_tokens ?? null,
    charged_tokens: charge?.charged_tokens ?? null,
    overage_tokens: charge?.overage_tokens ?? null,
    absorbed_tokens: charge?.absorbed_tokens ?? null,
    from_progress: charge?.from_progress ?? false,
    estimated: charge !== null && (charge.from_progress || estimate?.is_usage_estimated === true),
    legs: withAgentNames(charge?.entries ?? [], names),
    created_at: charge?.created_at ?? null,
  };
}

/** Prices each token once, in its class. A class of cache writes has a line only where there are any. */
function pricedParts(charge: SettledCharge) {
  const { input_tokens, cached_input_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens } = charge;
  const rates = appliedRates(charge);
  const part = (tokens_of: PricedClass, tokens: number, rate_micro: number) => ({
    tokens_of,
    tokens,
    rate: rate_micro / RATE_SCALE,
    micro: BigInt(tokens) * BigInt(rate_micro),
  });
  const written = [
    part("cache_write", cache_write_tokens - cache_write_1h_tokens, rates.cache_write),
    part("cache_write_1h", cache_write_1h_tokens, rates.cache_write_1h),
  ];
  return [
    part("input", input_tokens - cached_input_tokens - cache_write_tokens, rates.input),
    part("cached_input", cached_input_tokens, rates.cached_input),
    ...written.filter(({ tokens }) => tokens > 0),
    part("output", output_tokens, rates.output),
  ];
}

function worstCase(estimate: HoldEstimate): NonNullable<Explained["estimate"]> {
  const { input_tokens, max_output_tokens, input_rate_micro, output_rate_micro } = estimate;
  const micro = BigInt(input_tokens) * BigInt(input_rate_micro) + BigInt(max_output_tokens) * BigInt(output_rate_micro);
  const scale = BigInt(RATE_SCALE);
  return {
    input_tokens,
    max_output_tokens,
    input_rate: input_rate_micro / RATE_SCALE,
    output_rate: output_rate_micro / RATE_SCALE,
    cost_tokens: Number((micro + scale - 1n) / scale),
  };
}

function toRates(charged: SettledCharge | HoldEstimate | null): Explained["rates"] {
  if (charged === null) return null;
  const rates = appliedRates(charged);
  return {
    input_rate: rates.input / RATE_SCALE,
    cached_input_rate: rates.cached_input / RATE_SCALE,
    cache_write_rate: rates.cache_write / RATE_SCALE,
    cache_write_1h_rate: rates.cache_write_1h / RATE_SCALE,
    output_rate: rates.output / RATE_SCALE,
    version: charged.price_version ?? null,
  };
}

/** The rate that each class was billed at, in millionths. */
function appliedRates(charged: SettledCharge | HoldEstimate): Record<PricedClass, number> {
  const { input_rate_micro: input, output_rate_micro: output } = charged;
  const cache_write = charged.cache_write_rate_micro ?? input;
  return {
    input,
    cached_input: charged.cached_input_rate_micro ?? input,
    cache_write,
    cache_write_1h: charged.cache_write_1h_rate_micro ?? cache_write,
    output,
  };
}

function rounding(exact_micro: bigint, cost_tokens: number): NonNullable<Explained["rounding"]> {
  const rounded_micro = BigInt(cost_tokens) * BigInt(RATE_SCALE);
  return { exact: decimal(exact_micro), rounded_up_by: decimal(rounded_micro - exact_micro) };
}

/** Formats millionths as a decimal without trailing zeros. */
function decimal(micro: bigint): string {
  const sign = micro < 0n ? "-" : "";
  const digits = String(micro < 0n ? -micro : micro).padStart(DECIMALS + 1, "0");
  const fraction = digits.slice(-DECIMALS).replace(/0+$/, "");
  return `${sign}${digits.slice(0, -DECIMALS)}${fraction === "" ? "" : `.${fraction}`}`;
}
