import { expect } from "vitest";

const TURN_MS = 400;
/** In one piece: the first use of a text from repeat() copies it, which takes twice as long as the JSON of it. */
const TEXT = Buffer.alloc(31_000_000, "ten bytes.").toString("latin1");

/**
 * This thread's processor time in milliseconds: other processes of a busy machine do not count. Nor does the system's
 * part, most of which hands out new memory: for a copy of 30 MB, 4 ms on one machine and 150 ms on another.
 */
export const threadMs = () => process.threadCpuUsage().user / 1_000;

/** The longest time that `work` blocked the event loop, in milliseconds of `threadMs`. */
export async function heldDuring(work: () => Promise<unknown>): Promise<number> {
  let worst_ms = 0;
  let over = false;
  let last_ms = threadMs();
  const look = () => {
    worst_ms = Math.max(worst_ms, threadMs() - last_ms);
    last_ms = threadMs();
    if (!over) setTimeout(look);
  };
  look();
  await work();
  over = true;
  look();
  return worst_ms;
}

/**
 * Prints and asserts that one turn was short. It should take under 50 ms. A busy machine needs up to six times the
 * processor time for the same work, so it may take 400 ms, or three times as long as 31 MB take as JSON at this moment.
 * A test that uses this has three attempts.
 */
export async function expectShortTurn(what: string, held_ms: number): Promise<void> {
  console.log(`${what}: held for ${held_ms.toFixed(0)} ms`);
  if (held_ms < TURN_MS) return;
  const written_ms = await heldDuring(async () => JSON.stringify(TEXT));
  expect(held_ms, what).toBeLessThan(Math.max(TURN_MS, 3 * written_ms));
}
