import { afterAll } from "vitest";

/** Counts a file's attacks and successful attacks. */
export interface Score {
  /** Counts an attack. */
  tried(count?: number): void;
  /** Counts leaks, usually none. */
  slipped(...what: readonly string[]): void;
}

/** Prints `title: N attacks, 0 leaks` after the file's tests. `slip` names a successful attack. */
export function scoreOf(title: string, slip: "leaks" | "escapes"): Score {
  let attacks = 0;
  const slips: string[] = [];
  afterAll(() => console.log(`${title}: ${attacks} attacks, ${slips.length} ${slip}`));
  return {
    tried(count = 1) {
      attacks += count;
    },
    slipped(...what) {
      slips.push(...what);
    },
  };
}
