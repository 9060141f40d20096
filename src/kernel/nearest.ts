/** The most names to suggest. */
const MOST = 3;
/** Names that differ in a larger share of their letters are not suggested. */
const FARTHEST = 0.6;

/** A longer text is no misspelt name, and comparing it takes long. */
const MAX_CHARACTERS = 200;

/** The names most similar to `wanted`, best first; empty when none is similar. Pure. */
export function nearestNames(wanted: string, names: readonly string[]): string[] {
  if (wanted.length > MAX_CHARACTERS) return [];
  const text = wanted.toLowerCase();
  return names
    .map((name) => ({ name, far: distance(text, name.toLowerCase()) }))
    .filter(({ far }) => far <= FARTHEST)
    .toSorted((a, b) => a.far - b.far)
    .slice(0, MOST)
    .map(({ name }) => name);
}

/** 0: equal, 1: no letters in common. A name that contains the other is near, even if the rest is long. */
function distance(a: string, b: string): number {
  if (a.length >= 3 && (b.includes(a) || a.includes(b))) return 0.1;
  return editDistance(a, b) / Math.max(a.length, b.length, 1);
}

/** The Levenshtein distance: letters to insert, remove or replace. */
export function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const exchange = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(exchange, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
