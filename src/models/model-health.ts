import { monotonicMs } from "../platform/clock.ts";

/** Time for which a model is tried last after its provider failed. */
const REST_SECONDS = 10;
/** The longest time for which a provider's Retry-After can delay a model. */
const MAX_REST_SECONDS = 120;

/** The models that failed recently on this node. Kept in memory: each node detects failures by itself. */
export interface ModelHealth {
  /** The model's provider failed before its first output; `retry_after_s` is its Retry-After, if any. */
  failed(model_id: string, retry_after_s: number | undefined): void;
  /** The model answered. */
  answered(model_id: string): void;
  isResting(model_id: string): boolean;
}

/** `now_ms` is a monotonic clock. */
export function createModelHealth(now_ms: () => number = monotonicMs): ModelHealth {
  const resting_until = new Map<string, number>();
  return {
    failed(model_id, retry_after_s = REST_SECONDS) {
      resting_until.set(model_id, now_ms() + Math.min(retry_after_s, MAX_REST_SECONDS) * 1_000);
    },
    answered: (model_id) => void resting_until.delete(model_id),
    isResting: (model_id) => (resting_until.get(model_id) ?? 0) > now_ms(),
  };
}
