import { afterAll } from "vitest";

/** Attacks that a file tried, and what of them got through. */
export interface Score {
  /** Counts an attack. */
  tried(count?: number): void;
  /** Counts what got through; nothing, as a rule. */
  slipped(...what: readonly string[]): void;
}

/** Counts a file's attacks and prints, once they are done, `title: N attacks, 0 leaks`; `slip` is what one that succeeds makes. */
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
