import { setImmediate } from "node:timers";
import { monotonicMs } from "./clock.ts";

/**
 * Divides the event loop among everything that works in slices, so that many large requests at one time delay other
 * requests no longer than one does. Work that has used its slice waits behind all other work that waits.
 */

/** The time of one turn of the event loop that all slices share. */
const TURN_MS = 8;
let began_ms: number | null = null;
const waiting: (() => void)[] = [];
let is_serving = false;

/** Whether slices have used up this turn. The first call of a turn starts its time. */
export function isTurnUsed(): boolean {
  if (began_ms === null) beginTurn();
  return monotonicMs() - (began_ms ?? 0) >= TURN_MS;
}

/** Resolves in a turn that has time left: at once, or in a later turn, in the order of the calls. */
export function untilTurn(): Promise<void> {
  if (waiting.length === 0 && !isTurnUsed()) return Promise.resolve();
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (!is_serving) setImmediate(serveWaiting);
    is_serving = true;
  });
}

function beginTurn(): void {
  began_ms = monotonicMs();
  setImmediate(() => {
    began_ms = null;
  });
}

/** Serves waiting work in order until the turn is used. The rest waits for the next turn. */
async function serveWaiting(): Promise<void> {
  beginTurn();
  do {
    waiting.shift()?.();
    // A tick runs after the promises of the one that works, so that their time counts.
    await new Promise<void>((resolve) => process.nextTick(resolve));
  } while (waiting.length > 0 && !isTurnUsed());
  is_serving = waiting.length > 0;
  if (is_serving) setImmediate(serveWaiting);
}
