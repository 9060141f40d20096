import type { Piece } from "./pieces.ts";

/** Words of a text about attacks on models: what quotes an injection to explain it. */
const DISCUSSION =
  /\b(?:prompt injections?|injections?|jailbreak(?:s|ing)?|owasp|red[- ]team\w*|adversarial\w*|guardrails?|attack(?:s|ers?)|mitigat\w+|vulnerabilit\w+|payloads?|threat model\w*|exploit\w*|benchmark\w*|dataset\w*|malicious|defen[cs]es?|detectors?|classifiers?|llm security|evaluations?|untrusted|harmful|prompt engineering|(?:zero|few)-shot|chain[- ]of[- ]thought|fine-?tun\w+|retrieval[- ]augmented|hallucinat\w+)\b/g;

/** A text that talks about attacks quotes them: each kind of word beyond the first few asks for this much more. */
const DISCUSSION_FREE = 3;
const DISCUSSION_STEP = 0.6;
const DISCUSSION_MOST = 4;
/** Words of a discussion count as one kind when they begin alike. */
const KIND_LENGTH = 6;
/** What is asked beyond the threshold of a text that discusses attacks. */
export function caution(pieces: readonly Piece[]): number {
  const kinds = new Set<string>();
  for (const { folded } of pieces) {
    for (const word of folded.match(DISCUSSION) ?? []) kinds.add(word.slice(0, KIND_LENGTH));
  }
  return Math.min(DISCUSSION_MOST, Math.max(0, kinds.size - DISCUSSION_FREE) * DISCUSSION_STEP);
}
