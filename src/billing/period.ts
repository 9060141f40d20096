import { addMonths } from "../platform/clock.ts";
import type { Instant } from "../platform/db.ts";

/**
 * The `number`th monthly period of a subscription (1 is the first), counted from its anchor, so that one begun on
 * 31 January renews on 28 February and then on 31 March.
 */
export function periodOf(anchor: Instant, number: number): { start: Instant; end: Instant } {
  return { start: addMonths(anchor, number - 1), end: addMonths(anchor, number) };
}
