import { type Phrases, readPhrases } from "./phrases.ts";

/**
 * Sentences built from parts: the addressee, what to forget, what to do, the purpose and the pretext. Attacks and
 * harmless sentences share their words on purpose, so that no single word decides. The parts are in grammar.txt; `{name}` takes one
 * of that list.
 */

/** A random number generator in [0, 1) with a fixed seed (mulberry32). */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const { shared, attack, benign } = Object.fromEntries(readPhrases("grammar.txt"));
const ATTACK: Phrases = { ...shared, ...attack };
const BENIGN: Phrases = { ...shared, ...benign };

export function attackSentence(random: () => number): string {
  return expand("{attack}", ATTACK, random);
}

export function benignSentence(random: () => number): string {
  return expand("{benign}", BENIGN, random);
}

/** A name written with a capital that has no rule of its own: the small one's, with a capital. */
function expand(template: string, grammar: Phrases, random: () => number): string {
  return template.replace(/\{([A-Za-z]+)\}/g, (_slot, name: string) => {
    const own = grammar[name];
    const options = own ?? grammar[name.toLowerCase()] ?? [];
    const text = expand(options[Math.floor(random() * options.length)] ?? "", grammar, random);
    return own === undefined ? text.charAt(0).toUpperCase() + text.slice(1) : text;
  });
}
