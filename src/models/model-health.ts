import { monotonicMs } from "../platform/clock.ts";

/** A model whose provider has just failed is tried last for this long. */
const REST_SECONDS = 10;
/** Whatever a provider's Retry-After says, a model is tried again after this long. */
const MAX_REST_SECONDS = 120;

/** Which models have just failed on this node. Kept in memory: another node finds out by itself. */
export interface ModelHealth {
  /** The model's provider failed before its first word; `retry_after_s` is what it asked for, if anything. */
  failed(model_id: string, retry_after_s: number | undefined): void;
  /** The model answered. */
  answered(model_id: string): void;
  isResting(model_id: string): boolean;
}

/** `now_ms` only goes forward. */
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
