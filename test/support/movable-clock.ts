import { readFileSync } from "node:fs";

// Preloaded into a process (NODE_OPTIONS=--import): its system clock is ahead by the milliseconds in the file CLOCK_FILE.

const file = process.env.CLOCK_FILE ?? "";
const real = Date.now;
let ahead_ms = 0;
let read_at_ms = Number.NEGATIVE_INFINITY;

Date.now = () => {
  if (performance.now() - read_at_ms > 10) {
    read_at_ms = performance.now();
    ahead_ms = Number(readFileSync(file, "utf8"));
  }
  return real() + ahead_ms;
};
globalThis.Date = new Proxy(Date, {
  construct: (target, args, as) => Reflect.construct(target, args.length === 0 ? [Date.now()] : args, as),
});
