/** The middle of `values`, the upper one of two; NaN when there are none. */
export function median(values: readonly number[]): number {
  return percentile(
    values.toSorted((a, b) => a - b),
    0.5,
  );
}

/** The value below which the share `at` (0 to 1) of `sorted`, ascending, lies; NaN when it is empty. */
export function percentile(sorted: readonly number[], at: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(at * sorted.length))] ?? Number.NaN;
}

/** Rounds to three significant digits, so that no figure looks more precise than it is. */
export function rounded(value: number): number {
  return Number(value.toPrecision(3));
}

/**
 * Runs every contender once per round, in turn, so that a slow phase of the machine affects all. Every other round is in
 * the reverse order. Returns the rounds by name.
 */
export async function inTurn<Measure>(
  contenders: ReadonlyMap<string, () => Promise<Measure>>,
  rounds: number,
): Promise<Map<string, Measure[]>> {
  const measures = new Map<string, Measure[]>([...contenders.keys()].map((name) => [name, []]));
  for (let round = 0; round < rounds; round += 1) {
    const order = round % 2 === 0 ? [...contenders] : [...contenders].reverse();
    for (const [name, measure] of order) measures.get(name)?.push(await measure());
  }
  return measures;
}

/** The median of one figure over rounds. */
export function medianOf<Measure>(
  rounds: readonly Measure[] | undefined,
  figure: (measure: Measure) => number,
): number {
  return median((rounds ?? []).map(figure));
}

/** The median of a figure's ratios, of the rounds beside each other, because a machine's speed changes within a run. */
export function pairedRatio<Measure>(
  of: readonly Measure[] | undefined,
  to: readonly Measure[] | undefined,
  figure: (measure: Measure) => number,
): number {
  const base = (to ?? []).map(figure);
  return median((of ?? []).map((measure, round) => figure(measure) / (base[round] ?? Number.NaN)));
}

/** Numbers from 0 to 1 that are the same for the same seed (a 32-bit xorshift). */
export function seededRandom(seed: number): () => number {
  let state = (seed * 2_654_435_761 + 88_675_123) >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state / 4_294_967_296;
  };
}
