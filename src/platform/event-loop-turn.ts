import { setImmediate } from "node:timers";
import { setImmediate as nextTurn } from "node:timers/promises";
import { monotonicMs } from "./clock.ts";

/**
 * Divides the event loop among everything that works in slices, so that many large requests at one time delay other
 * requests no longer than one does.
 */

/** The time of one turn of the event loop that all slices share. */
const TURN_MS = 8;
let began_ms: number | null = null;

/** Whether slices have used up this turn. The first call of a turn starts its time. */
export function isTurnUsed(): boolean {
  const now = monotonicMs();
  if (began_ms === null) {
    began_ms = now;
    setImmediate(() => {
      began_ms = null;
    });
  }
  return now - began_ms >= TURN_MS;
}

/** Resolves in a turn that has time left: at once, or in a later turn. */
export async function untilTurn(): Promise<void> {
  while (isTurnUsed()) await nextTurn();
}
