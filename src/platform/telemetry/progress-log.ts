import { monotonicMs } from "../lib/clock.ts";
import type { Log } from "./log.ts";

const FIRST_LINE_MS = 1_000;
const LINE_MS = 5_000;

/** Does a step of a start. If it takes long, the log has a line after a second, one every 5 s, and one at its end. */
export async function loggingProgress<T>(
  log: Log | undefined,
  { step, about }: { step: string; about: object },
  work: () => Promise<T>,
): Promise<T> {
  const began_ms = monotonicMs();
  let is_slow = false;
  const write = (state: string) => {
    log?.info({ ...about, ms: Math.round(monotonicMs() - began_ms) }, `${step}: ${state}`);
  };
  const writeAtWork = () => {
    is_slow = true;
    write("at work");
    timer = setTimeout(writeAtWork, LINE_MS);
  };
  let timer = setTimeout(writeAtWork, FIRST_LINE_MS);
  try {
    const result = await work();
    if (is_slow) write("done");
    return result;
  } finally {
    clearTimeout(timer);
  }
}
