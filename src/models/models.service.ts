import type { ModelRecord } from "../contract/models.ts";
import { stableId } from "../platform/ids.ts";
import { createProvider } from "./adapters.ts";
import { CATALOGUE, type CatalogueEntry } from "./catalogue.ts";
import { UNBOUNDED_PART_TOKENS } from "./media-tokens.ts";
import { createModelHealth, type ModelHealth } from "./model-health.ts";
import type { Model, ModelSettings, ModelsConfig, Provider } from "./models.types.ts";
import { nearestNames } from "./nearest.ts";
import { costMultiplier, rateOf, rateOfPrice } from "./pricing.ts";
import { BUILT_IN_PROVIDERS, type ProviderSettings } from "./providers.ts";
import { createRehearsal, REHEARSAL } from "./rehearsal.ts";
import { type Route, type RouteRequest, routeOf, tierByPrice } from "./routing.ts";

/** The models on offer and their providers. */
export interface Models {
  /** All models on offer, the cheapest first. */
  list(): readonly Model[];
  /** Finds a model by id or UUID; null if no such model is on offer. */
  find(id: string): Model | null;
  provider(model: Model): Provider;
  /** Suggestions for an unknown id, the likeliest first. */
  nearest(id: string): string[];
  /** Candidates for `model: "auto"`, best first. */
  route(request: Omit<RouteRequest, "models" | "isResting">): Route;
  /** Records the failures and answers of every model's provider. `route` puts recently failed models last. */
  health: ModelHealth;
}

/**
 * The models whose provider can be called: those in the catalogue whose provider's key is set, the operator's models
 * (which replace a catalogue entry with the same id), and the rehearsal model.
 */
export function createModels({ config }: { config: ModelsConfig }): Models {
  const providers = new Map<string, Provider>([[REHEARSAL.owned_by, createRehearsal()]]);
  for (const settings of [...BUILT_IN_PROVIDERS, ...config.providers]) {
    const provider = createProvider(settings, config.provider_keys);
    if (provider !== null) providers.set(settings.name, provider);
  }
  const settings_of = new Map([...BUILT_IN_PROVIDERS, ...config.providers].map((each) => [each.name, each]));
  const offered = [
    REHEARSAL,
    ...CATALOGUE.map((entry) => catalogueModel(entry, settings_of.get(entry.provider), config.margin)),
    ...config.models.map((model) => configuredModel(model, settings_of.get(model.provider))),
  ];
  const by_id = new Map(offered.filter((model) => providers.has(model.owned_by)).map((model) => [model.id, model]));
  const all = [...by_id.values()].toSorted((a, b) => costMultiplier(a) - costMultiplier(b) || (a.id < b.id ? -1 : 1));
  const health = createModelHealth();
  const by_uuid = new Map(all.map((model) => [model.uuid, model]));
  return {
    list: () => all,
    find: (id) => by_id.get(id) ?? by_uuid.get(id.toLowerCase()) ?? null,
    provider(model) {
      const provider = providers.get(model.owned_by);
      if (provider === undefined) throw new Error(`no provider for ${model.id}`);
      return provider;
    },
    nearest: (id) => nearestNames(id, [...by_id.keys()]),
    route: (request) => routeOf({ ...request, models: all, isResting: health.isResting }),
    health,
  };
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
    input_rate: rateOf(model.input_rate_micro),
    output_rate: rateOf(model.output_rate_micro),
    ...(model.cached_input_rate_micro === null ? {} : { cached_input_rate: rateOf(model.cached_input_rate_micro) }),
    cost_multiplier: costMultiplier(model),
    tier,
    trial_eligible,
    supports,
  };
}

function catalogueModel(entry: CatalogueEntry, settings: ProviderSettings | undefined, margin: number): Model {
  const { id, provider, part_tokens, name, context_window, max_output_tokens, trial_eligible, supports } = entry;
  const rates = {
    input_rate_micro: rateOfPrice(entry.usd_per_million_input, margin),
    output_rate_micro: rateOfPrice(entry.usd_per_million_output, margin),
    cached_input_rate_micro: null,
  };
  return {
    id,
    uuid: stableId(`model:${id}`),
    name,
    owned_by: provider,
    kind: settings?.kind ?? "openai-compatible",
    forward: settings?.forward ?? [],
    provider_model: id,
    part_tokens: part_tokens ?? UNBOUNDED_PART_TOKENS,
    context_window,
    max_output_tokens,
    trial_eligible,
    supports,
    rehearsal: false,
    tier: tierByPrice(rates),
    ...rates,
  };
}

function configuredModel({ provider, ...model }: ModelSettings, settings: ProviderSettings | undefined): Model {
  const kind = settings?.kind ?? "openai-compatible";
  const forward = [...(settings?.forward ?? []), ...model.forward];
  const tier = model.tier ?? tierByPrice(model);
  return { ...model, kind, forward, tier, uuid: stableId(`model:${model.id}`), owned_by: provider, rehearsal: false };
}
