import type { Plan } from "./plan.ts";

/**
 * What choosing `wanted` means for somebody who has `current`: `keep` is the plan they have, an `upgrade` costs more (or
 * the same for no fewer tokens) and takes effect now, a `downgrade` at the period's end.
 */
export function planChange(current: Plan, wanted: Plan): "keep" | "upgrade" | "downgrade" {
  if (wanted.id === current.id) return "keep";
  if (wanted.price_cents !== current.price_cents) {
    return wanted.price_cents > current.price_cents ? "upgrade" : "downgrade";
  }
  return wanted.included_tokens >= current.included_tokens ? "upgrade" : "downgrade";
}
