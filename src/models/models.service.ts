import { type Clock, createSystemClock } from "../platform/clock.ts";
import { createProvider } from "./adapters.ts";
import { createModelHealth, type ModelHealth } from "./model-health.ts";
import type { Model, ModelsConfig, Provider } from "./models.types.ts";
import { nearestNames } from "./nearest.ts";
import { type Offer, offerAt } from "./offer.ts";
import { costMultiplier } from "./pricing.ts";
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
