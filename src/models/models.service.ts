import type { ModelRecord } from "../contract/models.ts";
import { type Clock, createSystemClock } from "../platform/clock.ts";
import { createProvider } from "./adapters.ts";
import { createModelHealth, type ModelHealth } from "./model-health.ts";
import type { ClassRates, Model, ModelsConfig, Provider } from "./models.types.ts";
import { nearestNames } from "./nearest.ts";
import { type Offer, offerAt } from "./offer.ts";
import { costMultiplier, rateOf, ratesByClass } from "./pricing.ts";
import { BUILT_IN_PROVIDERS } from "./providers.ts";
import { createRehearsal, REHEARSAL } from "./rehearsal.ts";
import { type Route, type RouteRequest, routeOf } from "./routing.ts";
import { withStructuredOutput } from "./structured-output.ts";

/** The models on offer and their providers. */
export interface Models {
  /** All models on offer, the cheapest first. The same array until a price or the configuration changes. */
  list(): readonly Model[];
  /** Finds a model by id or UUID; null if no such model is on offer. */
  find(id: string): Model | null;
  /** The provider of a model, also of one from before a reload. */
  provider(model: Model): Provider;
  /** Suggestions for an unknown id, the likeliest first. */
  nearest(id: string): string[];
  /** Candidates for `model: "auto"`, best first. */
  route(request: Omit<RouteRequest, "models" | "isResting">): Route;
  /** Records the failures and answers of every model's provider. `route` puts recently failed models last. */
  health: ModelHealth;
  /** Replaces models, prices and providers. Calls that have started keep theirs. */
  reload(config: ModelsConfig): void;
}

/** The models that can be called, at one time. */
interface Stock {
  all: readonly Model[];
  by_id: ReadonlyMap<string, Model>;
  by_uuid: ReadonlyMap<string, Model>;
  until: Offer["until"];
}

/**
 * The models whose provider can be called: those in the catalogue whose provider's key is set, the operator's models
 * (which replace a catalogue entry with the same id), and the rehearsal model. Their prices are those in force by
 * `clock`.
 */
export function createModels(options: { config: ModelsConfig; clock?: Clock }): Models {
  const clock = options.clock ?? createSystemClock();
  const health = createModelHealth();
  /** By model object, so that a call that has started keeps its provider over a reload. */
  const provider_of = new WeakMap<Model, Provider>();
  let { config } = options;
  let providers = providersOf(config);
  let stock = stockAt(clock.now());

  function stockAt(now: string): Stock {
    const { models, until } = offerAt(config, now);
    const offered = models.filter(({ owned_by }) => providers.has(owned_by));
    for (const model of offered) provider_of.set(model, providers.get(model.owned_by) as Provider);
    const all = offered.toSorted((a, b) => costMultiplier(a) - costMultiplier(b) || (a.id < b.id ? -1 : 1));
    const by_id = new Map(all.map((model) => [model.id, model]));
    return { all, by_id, by_uuid: new Map(all.map((model) => [model.uuid, model])), until };
  }

  function current(): Stock {
    const now = clock.now();
    if (stock.until !== null && now >= stock.until) stock = stockAt(now);
    return stock;
  }

  return {
    list: () => current().all,
    find(id) {
      const { by_id, by_uuid } = current();
      return by_id.get(id) ?? by_uuid.get(id.toLowerCase()) ?? null;
    },
    provider(model) {
      const provider = provider_of.get(model) ?? providers.get(model.owned_by);
      if (provider === undefined) throw new Error(`no provider for ${model.id}`);
      return provider;
    },
    nearest: (id) => nearestNames(id, [...current().by_id.keys()]),
    route: (request) => routeOf({ ...request, models: current().all, isResting: health.isResting }),
    health,
    reload(next) {
      config = next;
      providers = providersOf(next);
      stock = stockAt(clock.now());
    },
  };
}

function providersOf(config: ModelsConfig): Map<string, Provider> {
  const providers = new Map<string, Provider>([[REHEARSAL.owned_by, createRehearsal()]]);
  for (const settings of [...BUILT_IN_PROVIDERS, ...config.providers]) {
    const provider = createProvider(settings, config.provider_keys);
    if (provider !== null) providers.set(settings.name, withStructuredOutput(provider));
  }
  return providers;
}

/** A model in the shape of the API. */
export function modelRecord(model: Model): ModelRecord {
  const { id, uuid, owned_by, name, context_window, max_output_tokens, trial_eligible, supports, tier } = model;
  return {
    id,
    uuid,
    object: "model",
    created: 0,
    owned_by,
    name,
    context_window,
    max_output_tokens,
    ...rateFields(model),
    tiers: model.tiers.map((each) => ({ above_input_tokens: each.above_input_tokens, ...rateFields(each) })),
    cost_multiplier: costMultiplier(model),
    price_version: model.price_version,
    tier,
    trial_eligible,
    supports,
    deprecation: model.deprecation,
  };
}

/** The rates as decimals. A class without a rate of its own has the rate that it is billed at. */
function rateFields(rates: ClassRates) {
  const by_class = ratesByClass(rates);
  return {
    input_rate: rateOf(by_class.input_rate_micro),
    cached_input_rate: rateOf(by_class.cached_input_rate_micro),
    cache_write_rate: rateOf(by_class.cache_write_rate_micro),
    cache_write_1h_rate: rateOf(by_class.cache_write_1h_rate_micro),
    output_rate: rateOf(by_class.output_rate_micro),
  };
}
