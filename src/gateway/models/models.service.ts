import { nearestNames } from "../../kernel/nearest.ts";
import { type Clock, createSystemClock } from "../../platform/lib/clock.ts";
import { createOutbound } from "../../platform/net/outbound.ts";
import { createProvider } from "./adapters.ts";
import { createModelHealth, type ModelHealth, modelsByRoute, routeOrder } from "./model-routes.ts";
import type { Model, ModelKind, ModelsConfig, Provider } from "./models.types.ts";
import { type Offer, offerAt } from "./offer.ts";
import { type PictureGuard, withPictures } from "./picture-addresses.ts";
import { costMultiplier } from "./pricing.ts";
import { withSpans } from "./provider-spans.ts";
import { BUILT_IN_PROVIDERS, type ProviderKind, traitsOf } from "./providers.ts";
import { createRehearsal, REHEARSAL } from "./rehearsal.ts";
import { withDialect } from "./request-dialect.ts";
import { type RouteRequest, type RoutingDecision, rankModels } from "./routing.ts";
import { withStructuredOutput } from "./structured-output.ts";

/** The models on offer and their providers. */
export interface Models {
  /** The chat models on offer, the cheapest first. The same array until a price or the configuration changes. */
  list(): readonly Model[];
  /** Finds a chat model by id or UUID; null if no such model is on offer. */
  find(id: string): Model | null;
  /** The embedding models on offer, the cheapest first. */
  embeddings(): readonly Model[];
  /** Finds an embedding model by id or UUID. */
  findEmbedding(id: string): Model | null;
  /** The provider of a model, also of one from before a reload. */
  provider(model: Model): Provider;
  /** Suggestions for an unknown id of a chat model, the likeliest first. */
  nearest(id: string): string[];
  /** The same for embedding models. */
  nearestEmbedding(id: string): string[];
  /** Candidates for `model: "auto"`, best first. */
  route(request: Omit<RouteRequest, "models" | "isResting">): RoutingDecision;
  /**
   * The model by each route that can be called, in the order to try them: first the route `kept`, then the order for
   * `key`, and routes whose provider failed recently last. Without routes, the model alone.
   */
  byRoute(model: Model, wanted: { key: string; kept: string | null }): readonly Model[];
  /** The built-in providers and those of the configuration, also those whose key is not set. */
  providers(): readonly KnownProvider[];
  /** Whether the provider of each route failed recently. */
  isResting(model: Model): boolean;
  /** Records the failures and answers of every model's provider. `route` puts recently failed models last. */
  health: Omit<ModelHealth, "isResting">;
  /** Replaces models, prices and providers. Calls that have started keep theirs. */
  reload(config: ModelsConfig): void;
}

/** A provider, whether or not it can be called. */
export interface KnownProvider {
  name: string;
  kind: ProviderKind;
  /** The variable that holds the key; null: no key is sent. */
  key_variable: string | null;
  key: "set" | "not_set" | "not_needed";
}

/** The models of one kind that can be called, the cheapest first. */
interface ModelIndex {
  all: readonly Model[];
  by_id: ReadonlyMap<string, Model>;
  by_uuid: ReadonlyMap<string, Model>;
}

/** What can be called until the next change of a price. */
interface Callable extends Record<ModelKind, ModelIndex> {
  until: Offer["until"];
}

/**
 * The models whose provider can be called: those in the catalogue whose provider's key is set, the operator's models
 * (which replace a catalogue entry with the same id), and the rehearsal model. Their prices are those in force by
 * `clock`.
 */
export function createModels(options: { config: ModelsConfig; outbound?: PictureGuard; clock?: Clock }): Models {
  const clock = options.clock ?? createSystemClock();
  const health = createModelHealth();
  /** By model object, so that a call that has started keeps its provider over a reload. */
  const provider_of = new WeakMap<Model, Provider>();
  /** The models on offer that have routes, by each route that can be called. */
  const by_route = new WeakMap<Model, readonly Model[]>();
  const { outbound = createOutbound({ allow: [] }) } = options;
  let { config } = options;
  let providers = collectProviders(config, outbound);
  let callable = callableAt(clock.now());

  function callableAt(now: string): Callable {
    const { models, until } = offerAt(config, now);
    const offered = models.flatMap((model) => {
      const routed = modelsByRoute(model).filter(({ owned_by }) => providers.has(owned_by));
      for (const each of routed) provider_of.set(each, providers.get(each.owned_by) as Provider);
      const [first] = routed;
      if (first === undefined) return [];
      by_route.set(first, routed);
      return [first];
    });
    const of = (kind: ModelKind) => indexed(offered.filter(({ model_kind }) => model_kind === kind));
    return { chat: of("chat"), embedding: of("embedding"), until };
  }

  function current(): Callable {
    const now = clock.now();
    if (callable.until !== null && now >= callable.until) callable = callableAt(now);
    return callable;
  }

  const isResting = (model: Model) => (by_route.get(model) ?? [model]).every(health.isResting);

  return {
    list: () => current().chat.all,
    find: (id) => foundIn(current().chat, id),
    embeddings: () => current().embedding.all,
    findEmbedding: (id) => foundIn(current().embedding, id),
    provider(model) {
      const provider = provider_of.get(model) ?? providers.get(model.owned_by);
      if (provider === undefined) throw new Error(`no provider for ${model.id}`);
      return provider;
    },
    byRoute(model, { key, kept }) {
      const routed = by_route.get(model) ?? [model];
      if (routed.length === 1) return routed;
      const places = routeOrder(model.routes, key).map(({ route }) => route);
      const getPlace = ({ route }: Model) => (route === kept ? -1 : places.indexOf(route as string));
      const resting = (each: Model) => Number(health.isResting(each));
      return routed.toSorted((a, b) => resting(a) - resting(b) || getPlace(a) - getPlace(b));
    },
    providers: () => listProviders(config),
    isResting,
    nearest: (id) => nearestNames(id, [...current().chat.by_id.keys()]),
    nearestEmbedding: (id) => nearestNames(id, [...current().embedding.by_id.keys()]),
    route: (request) => rankModels({ ...request, models: current().chat.all, isResting }),
    health,
    reload(next) {
      config = next;
      providers = collectProviders(next, outbound);
      callable = callableAt(clock.now());
    },
  };
}

function indexed(models: readonly Model[]): ModelIndex {
  const all = models.toSorted((a, b) => costMultiplier(a) - costMultiplier(b) || (a.id < b.id ? -1 : 1));
  const by = (key: "id" | "uuid") => new Map(all.map((model) => [model[key], model]));
  return { all, by_id: by("id"), by_uuid: by("uuid") };
}

function foundIn({ by_id, by_uuid }: ModelIndex, id: string): Model | null {
  return by_id.get(id) ?? by_uuid.get(id.toLowerCase()) ?? null;
}

function listProviders({ providers, provider_keys }: ModelsConfig): KnownProvider[] {
  const by_name = new Map([...BUILT_IN_PROVIDERS, ...providers].map((each) => [each.name, each]));
  return [...by_name.values()].map(({ name, kind, api_key_env: key_variable }) => {
    const key = key_variable === null ? "not_needed" : provider_keys[key_variable] === undefined ? "not_set" : "set";
    return { name, kind, key_variable, key };
  });
}

function collectProviders(config: ModelsConfig, outbound: PictureGuard): Map<string, Provider> {
  const providers = new Map<string, Provider>([[REHEARSAL.owned_by, withSpans(createRehearsal())]]);
  for (const settings of [...BUILT_IN_PROVIDERS, ...config.providers]) {
    const provider = createProvider(settings, config.provider_keys);
    if (provider === null) continue;
    const { kind, base_url } = settings;
    // A kind without addresses rejects them itself.
    const safe = traitsOf(kind).takes_image_addresses
      ? withPictures(provider, { outbound, fetches: base_url !== null })
      : provider;
    providers.set(settings.name, withSpans(withDialect(withStructuredOutput(safe), settings)));
  }
  return providers;
}
