import type { Piece } from "./pieces.ts";

/** Words of texts about models and about attacks on them. Such texts quote injections to explain them. */
const DISCUSSION = wordsOf([
  "prompt injections?|injections?|jailbreak(?:s|ing)?|owasp|red[- ]team\\w*|adversarial\\w*|guardrails?|attack(?:s|ers?)",
  "mitigat\\w+|vulnerabilit\\w+|payloads?|threat model\\w*|exploit\\w*|benchmark\\w*|dataset\\w*|malicious|defen[cs]es?",
  "detectors?|detection|classifiers?|evaluations?|untrusted|harmful|robustness|hijack\\w*|evad\\w+|bypass(?:es|ed)?",
  "advisor(?:y|ies)|cve|severity|patched|incidents?|bug bount\\w+|researchers?|security|sandbox\\w*|privileges?|filters?",
  "phishing|scam\\w*|spoof\\w*|manipulat\\w+|trick(?:s|ed)?|leak(?:s|ed|age)|attempts?",
  "prompts?|prompting|prompted|(?:zero|few)-shot|chain[- ]of[- ]thought|fine-?tun\\w+|retrieval[- ]augmented|hallucinat\\w+",
  "llms?|language models?|models|generative|transformers?|context window|chatbots?|assistants?|agents?",
  "chatgpt|gpt-?\\d|openai|anthropic",
]);

/** The number of kinds of these words that is free. Each further kind raises the threshold by one step. */
const DISCUSSION_FREE = 3;
const DISCUSSION_STEP = 0.6;
const DISCUSSION_MOST = 4;
/** Words with the same first letters count as one kind. */
const KIND_LENGTH = 6;

function wordsOf(lines: readonly string[]): RegExp {
  return new RegExp(`\\b(?:${lines.join("|")})\\b`, "g");
}

/** How much to raise the threshold when these pieces discuss attacks. The passage and its neighbours are excluded. */
export function caution(pieces: Iterable<Piece>): number {
  const kinds = new Set<string>();
  for (const { folded } of pieces) {
    for (const word of folded.match(DISCUSSION) ?? []) kinds.add(word.slice(0, KIND_LENGTH));
  }
  return Math.min(DISCUSSION_MOST, Math.max(0, kinds.size - DISCUSSION_FREE) * DISCUSSION_STEP);
}
