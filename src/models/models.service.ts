import { type Clock, createSystemClock } from "../platform/clock.ts";
import { createProvider } from "./adapters.ts";
import { createModelHealth, type ModelHealth } from "./model-health.ts";
import { modelsByRoute, routeOrder } from "./model-routes.ts";
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
  /**
   * The model by each route that can be called, in the order to try them: first the route `kept`, then the order for
   * `key`, and routes whose provider failed recently last. Without routes, the model alone.
   */
  byRoute(model: Model, wanted: { key: string; kept: string | null }): readonly Model[];
  /** Whether the provider of each route failed recently. */
  isResting(model: Model): boolean;
  /** Records the failures and answers of every model's provider. `route` puts recently failed models last. */
  health: Omit<ModelHealth, "isResting">;
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
  /** The models on offer that have routes, by each route that can be called. */
  const by_route = new WeakMap<Model, readonly Model[]>();
  let { config } = options;
  let providers = providersOf(config);
  let stock = stockAt(clock.now());

  function stockAt(now: string): Stock {
    const { models, until } = offerAt(config, now);
    const offered = models.flatMap((model) => {
      const routed = modelsByRoute(model).filter(({ owned_by }) => providers.has(owned_by));
      for (const each of routed) provider_of.set(each, providers.get(each.owned_by) as Provider);
      const [first] = routed;
      if (first === undefined) return [];
      by_route.set(first, routed);
      return [first];
    });
    const all = offered.toSorted((a, b) => costMultiplier(a) - costMultiplier(b) || (a.id < b.id ? -1 : 1));
    const by_id = new Map(all.map((model) => [model.id, model]));
    return { all, by_id, by_uuid: new Map(all.map((model) => [model.uuid, model])), until };
  }

  function current(): Stock {
    const now = clock.now();
    if (stock.until !== null && now >= stock.until) stock = stockAt(now);
    return stock;
  }

  const isResting = (model: Model) => (by_route.get(model) ?? [model]).every(health.isResting);

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
    byRoute(model, { key, kept }) {
      const routed = by_route.get(model) ?? [model];
      if (routed.length === 1) return routed;
      const places = routeOrder(model.routes, key).map(({ route }) => route);
      const placeOf = ({ route }: Model) => (route === kept ? -1 : places.indexOf(route as string));
      const resting = (each: Model) => Number(health.isResting(each));
      return routed.toSorted((a, b) => resting(a) - resting(b) || placeOf(a) - placeOf(b));
    },
    isResting,
    nearest: (id) => nearestNames(id, [...current().by_id.keys()]),
    route: (request) => routeOf({ ...request, models: current().all, isResting }),
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
