import { createHash } from "node:crypto";
import { monotonicMs } from "../../platform/lib/clock.ts";
import type { Model } from "./models.types.ts";

/** Several ways to one model (`routes` in PURSER_CONFIG), and which models and ways rest after a failure. */

/** The bytes of a hash that decide a place. A number holds them exactly. */
const HASH_BYTES = 6;
const HASHES = 2 ** (8 * HASH_BYTES);
/** A longer key of a caller is cut, because only its hash counts. */
const MAX_KEY_CHARACTERS = 1_024;

/** The model by each of its routes, in the order of the configuration. Without routes, the model alone. */
export function modelsByRoute(model: Model): Model[] {
  return model.routes.length === 0 ? [model] : model.routes.map(({ weight: _, ...route }) => ({ ...model, ...route }));
}

/**
 * The routes in the order for a caller: weighted rendezvous hashing. Each key has its own order, which is the same on
 * every node and in every process, and the first places are distributed by weight. When a route is removed, only its
 * keys change their first route. A route of weight 0 comes after all others.
 */
export function routeOrder<Route extends { route: string; weight: number }>(
  routes: readonly Route[],
  key: string,
): Route[] {
  // The logarithm of a uniform hash, divided by the weight: the highest one wins with a probability equal to its share.
  const scores = new Map(routes.map((each) => [each, Math.log(uniform(key, each.route)) / each.weight]));
  return routes.toSorted((a, b) => Number(a.weight === 0) - Number(b.weight === 0) || order(scores, a, b));
}

function order<Route>(scores: ReadonlyMap<Route, number>, a: Route, b: Route): number {
  const [of_a, of_b] = [scores.get(a) ?? 0, scores.get(b) ?? 0];
  return of_a === of_b ? 0 : of_b - of_a;
}

/** The same number between 0 and 1, both excluded, for the same key and route. */
function uniform(key: string, route: string): number {
  const text = JSON.stringify([key.slice(0, MAX_KEY_CHARACTERS), route]);
  return (createHash("sha256").update(text).digest().readUIntBE(0, HASH_BYTES) + 0.5) / HASHES;
}

/** Time for which a model is tried last after its provider failed. */
const REST_SECONDS = 10;
/** The longest time for which a provider's Retry-After can delay a model. */
const MAX_REST_SECONDS = 120;

/** A model by one of its routes: each route rests by itself. */
type RoutedModel = Pick<Model, "id" | "route">;

/** The models that failed recently on this node. Kept in memory: each node detects failures by itself. */
export interface ModelHealth {
  /** The model's provider failed before its first output; `retry_after_s` is its Retry-After, if any. */
  failed(model: RoutedModel, retry_after_s: number | undefined): void;
  /** The model answered. */
  answered(model: RoutedModel): void;
  isResting(model: RoutedModel): boolean;
}

/** `now_ms` is a monotonic clock. */
export function createModelHealth(now_ms: () => number = monotonicMs): ModelHealth {
  const resting_until = new Map<string, number>();
  const getKey = ({ id, route }: RoutedModel) => JSON.stringify([id, route]);
  return {
    failed(model, retry_after_s = REST_SECONDS) {
      resting_until.set(getKey(model), now_ms() + Math.min(retry_after_s, MAX_REST_SECONDS) * 1_000);
    },
    answered: (model) => void resting_until.delete(getKey(model)),
    isResting: (model) => (resting_until.get(getKey(model)) ?? 0) > now_ms(),
  };
}
