import { monotonicMs } from "../../platform/lib/clock.ts";
import type { Model } from "./models.types.ts";

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
  const keyOf = ({ id, route }: RoutedModel) => JSON.stringify([id, route]);
  return {
    failed(model, retry_after_s = REST_SECONDS) {
      resting_until.set(keyOf(model), now_ms() + Math.min(retry_after_s, MAX_REST_SECONDS) * 1_000);
    },
    answered: (model) => void resting_until.delete(keyOf(model)),
    isResting: (model) => (resting_until.get(keyOf(model)) ?? 0) > now_ms(),
  };
}
