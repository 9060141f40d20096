import { stringify } from "yaml";
import type { PricedModel } from "../api/contract/admin-service.ts";
import type { ClassRates, Model, Rates } from "../gateway/models/models.types.ts";
import { rateOf } from "../gateway/models/pricing.ts";
import { RATE_SCALE, TOKENS_PER_USD } from "../kernel/constants.ts";
import type { Config } from "./config.ts";

/** The prices of the models on offer, and the lines of PURSER_CONFIG that change them. Pure. */

/** The models with their prices, and where the prices come from. */
export function listPricedModels(models: readonly Model[], { file }: Pick<Config, "file">): PricedModel[] {
  return models.map((model) => {
    const written = file?.models.get(model.id);
    const source = written !== undefined ? "file" : model.rehearsal ? "built_in" : "catalogue";
    const entry = written?.entry ?? createEntry(model);
    return {
      model_id: model.id,
      kind: model.model_kind,
      provider: model.owned_by,
      source,
      line: written?.line ?? null,
      input_usd_per_million: soldFor(model.input_rate_micro),
      output_usd_per_million: soldFor(model.output_rate_micro),
      upstream_input_usd_per_million: model.upstream === null ? null : rateOf(model.upstream.input_rate_micro),
      upstream_output_usd_per_million: model.upstream === null ? null : rateOf(model.upstream.output_rate_micro),
      lines: source === "built_in" ? null : writeEntry(entry, file?.path ?? ""),
    };
  });
}

/** US dollars per million tokens at a rate. */
function soldFor(rate_micro: number): number {
  return (rate_micro * (1_000_000 / TOKENS_PER_USD)) / RATE_SCALE;
}

function writeEntry(entry: unknown, path: string): string {
  if (path.endsWith(".json")) return `${JSON.stringify(entry, null, 2)}\n`;
  return stringify({ models: [entry] }, { lineWidth: 0 });
}

/** A model of the catalogue as an entry of the file, which replaces it, at the same prices. */
function createEntry(model: Model): Record<string, unknown> {
  const is_embedding = model.model_kind === "embedding";
  const tiers = model.tiers.map((tier) => ({
    above_input_tokens: tier.above_input_tokens,
    ...writtenRates(tier, is_embedding),
  }));
  const supports = Object.entries(model.supports).filter(([name, value]) => value !== (name === "streaming"));
  return {
    id: model.id,
    ...(is_embedding ? { kind: "embedding" } : {}),
    provider: model.owned_by,
    provider_model: model.provider_model,
    name: model.name,
    ...writtenRates(model, is_embedding),
    ...(tiers.length > 0 ? { tiers } : {}),
    ...(model.upstream === null ? {} : { upstream_usd_per_million: writtenCost(model.upstream) }),
    ...(model.trial_eligible ? { trial_eligible: true } : {}),
    context_window: model.context_window,
    ...(is_embedding ? {} : { max_output_tokens: model.max_output_tokens, supports: Object.fromEntries(supports) }),
    ...ifAny("part_tokens", model.part_tokens),
  };
}

function writtenRates(rates: ClassRates, is_embedding: boolean): Record<string, number> {
  const of_classes = {
    input_rate: rates.input_rate_micro,
    cached_input_rate: rates.cached_input_rate_micro,
    cache_write_rate: rates.cache_write_rate_micro,
    cache_write_1h_rate: rates.cache_write_1h_rate_micro,
    output_rate: is_embedding ? null : rates.output_rate_micro,
  };
  return withoutNulls(of_classes);
}

function writtenCost(upstream: Rates): Record<string, number> {
  return withoutNulls({
    input: upstream.input_rate_micro,
    cached_input: upstream.cached_input_rate_micro,
    cache_write: upstream.cache_write_rate_micro,
    cache_write_1h: upstream.cache_write_1h_rate_micro,
    output: upstream.output_rate_micro,
  });
}

/** Millionths as decimal numbers. */
function withoutNulls(millionths: Readonly<Record<string, number | null>>): Record<string, number> {
  const known = Object.entries(millionths).filter((entry): entry is [string, number] => entry[1] !== null);
  return Object.fromEntries(known.map(([name, value]) => [name, rateOf(value)]));
}

function ifAny(name: string, values: object): Record<string, unknown> {
  const known = Object.entries(values).filter(([, value]) => value !== null);
  return known.length === 0 ? {} : { [name]: Object.fromEntries(known) };
}
