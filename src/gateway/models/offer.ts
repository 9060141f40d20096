import { createHash } from "node:crypto";
import { stableId } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { CATALOGUE } from "./catalogue.ts";
import type {
  CatalogueEntry,
  CataloguePrice,
  ClassRates,
  DatedRates,
  Model,
  ModelSettings,
  ModelsConfig,
  Rates,
  UsdPrices,
} from "./models.types.ts";
import { billedRates, rateOfPrice, upstreamRateOfPrice } from "./pricing.ts";
import { BUILT_IN_PROVIDERS, type ProviderSettings } from "./providers.ts";
import { REHEARSAL } from "./rehearsal.ts";
import { tierByPrice } from "./routing.ts";

/** The models of a configuration with the prices that are in force at an instant. Pure. */
export interface Offer {
  models: readonly Model[];
  /** The next instant at which a price changes; null: none is announced. */
  until: Instant | null;
}

/** Length of the SHA-256 prefix. It is enough to distinguish the price lists of one installation. */
const VERSION_CHARACTERS = 16;

type Unversioned = Omit<Model, "price_version">;

/**
 * Returns the rehearsal model, the catalogue's models and the operator's, which replace those with the same id. A
 * catalogue model without a price in force is left out.
 */
export function offerAt(config: ModelsConfig, now: Instant): Offer {
  const settings_of = new Map([...BUILT_IN_PROVIDERS, ...config.providers].map((each) => [each.name, each]));
  const catalogue = config.catalogue ?? CATALOGUE;
  const priced = [
    REHEARSAL,
    ...catalogue.flatMap((entry) => catalogueModel(entry, settings_of.get(entry.provider), { config, now })),
    ...config.models.map((model) => configuredModel(model, settings_of, now)),
  ];
  const billed = priced.map((model) => ({ ...model, ...billedRates(model, config.cache_pricing ?? "flat") }));
  const by_id = [...new Map(billed.map((model) => [model.id, model])).values()];
  const price_version = priceVersion(by_id);
  const dated = [...catalogue, ...config.models].flatMap(({ prices }) => [...prices]);
  return { models: by_id.map((model) => ({ ...model, price_version })), until: nextChange(dated, now) };
}

/** The version of a price list. The same models at the same rates have the same version, in any order. */
export function priceVersion(models: readonly (Pick<Model, "id"> & Rates)[]): string {
  const ratesOf = (rates: ClassRates) => [
    rates.input_rate_micro,
    rates.cached_input_rate_micro,
    rates.cache_write_rate_micro,
    rates.cache_write_1h_rate_micro,
    rates.output_rate_micro,
  ];
  const lines = models.map((model) => {
    const tiers = model.tiers.map((tier) => [tier.above_input_tokens, ...ratesOf(tier)]);
    return JSON.stringify([model.id, ...ratesOf(model), tiers]);
  });
  return createHash("sha256").update(lines.sort().join("\n")).digest("hex").slice(0, VERSION_CHARACTERS);
}

type Dated = Pick<DatedRates, "valid_from" | "valid_until">;

/** The last price of `dated` that is in force at `now`. */
function inForce<Price extends Dated>(dated: readonly Price[], now: Instant): Price | undefined {
  return dated.findLast(
    ({ valid_from, valid_until }) =>
      (valid_from === null || valid_from <= now) && (valid_until === null || now < valid_until),
  );
}

function nextChange(dated: readonly Dated[], now: Instant): Instant | null {
  const bounds = dated.flatMap(({ valid_from, valid_until }) => [valid_from, valid_until]);
  return bounds.filter((bound) => bound !== null && bound > now).sort()[0] ?? null;
}

function catalogueModel(
  entry: CatalogueEntry,
  settings: ProviderSettings | undefined,
  { config, now }: { config: ModelsConfig; now: Instant },
): Unversioned[] {
  const { id, provider, prices, ...described } = entry;
  const price = inForce(prices, now);
  if (price === undefined) return [];
  const rates = ratesOfPrice(price, (usd) => rateOfPrice(usd, config.margin));
  return [
    {
      ...described,
      ...kindOf(settings),
      ...rates,
      id,
      uuid: stableId(`model:${id}`),
      owned_by: provider,
      provider_model: id,
      route: null,
      routes: [],
      rehearsal: false,
      tier: tierByPrice(rates),
      upstream: ratesOfPrice(price, upstreamRateOfPrice),
    },
  ];
}

function configuredModel(
  { provider, prices, ...model }: ModelSettings,
  settings_of: ReadonlyMap<string, ProviderSettings>,
  now: Instant,
): Unversioned {
  const rates = toClassRates(inForce(prices, now) ?? model);
  const routes = model.routes.map(({ provider: name, provider_model, weight, upstream }) => {
    const { kind, forward } = kindOf(settings_of.get(name));
    const fields = { kind, forward: [...forward, ...model.forward], provider_model, upstream };
    return { ...fields, route: name, owned_by: name, weight };
  });
  const { kind, forward } = kindOf(settings_of.get(provider));
  return {
    ...model,
    ...rates,
    kind,
    forward: [...forward, ...model.forward],
    route: routes[0]?.route ?? null,
    routes,
    tier: model.tier ?? tierByPrice(rates),
    uuid: stableId(`model:${model.id}`),
    owned_by: provider,
    rehearsal: false,
    deprecation: null,
  };
}

/** Only the rates of `rates`. */
function toClassRates(rates: Rates): Rates {
  const { input_rate_micro, cached_input_rate_micro, cache_write_rate_micro, cache_write_1h_rate_micro } = rates;
  const { output_rate_micro, tiers } = rates;
  return {
    input_rate_micro,
    cached_input_rate_micro,
    cache_write_rate_micro,
    cache_write_1h_rate_micro,
    output_rate_micro,
    tiers,
  };
}

function kindOf(settings: ProviderSettings | undefined): Pick<Model, "kind" | "forward"> {
  return { kind: settings?.kind ?? "openai-compatible", forward: settings?.forward ?? [] };
}

function ratesOfPrice({ usd_per_million, tiers }: CataloguePrice, rateOf: (usd: string) => number): Rates {
  const optional = (usd: string | undefined) => (usd === undefined ? null : rateOf(usd));
  const ofClasses = (usd: UsdPrices): ClassRates => ({
    input_rate_micro: rateOf(usd.input),
    cached_input_rate_micro: optional(usd.cached_input),
    cache_write_rate_micro: optional(usd.cache_write),
    cache_write_1h_rate_micro: optional(usd.cache_write_1h),
    output_rate_micro: rateOf(usd.output),
  });
  // A tier has the prices of the model for the classes that it does not name.
  const higher = tiers.map(({ above_input_tokens, ...usd }) => ({
    above_input_tokens,
    ...ofClasses({ ...usd_per_million, ...usd }),
  }));
  return { ...ofClasses(usd_per_million), tiers: higher };
}
