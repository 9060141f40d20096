import { codeAt } from "./letters.ts";
import type { Piece } from "./pieces.ts";
import type { Window } from "./windows.ts";

/**
 * Judges a passage by its page. An injected order is often in another language than the page. A page full of
 * instructions (a manual, a guide to prompting) has many passages that look slightly like orders.
 */

/** The most common words of languages in Latin letters, folded (fold.ts). A word may belong to several languages. */
const COMMON_WORDS = {
  english: "the and of to in is that for with on are this be as at by from you your it not or have was all can an will",
  german: "der die das und ist nicht mit den von ein eine auf dem des sich fur werden sie wir ich zu im auch wird es",
  french: "le la les des une est et dans pour que qui sur avec vous pas par ce au plus sont nous votre du cette",
  spanish: "el los las una del que en por con para su es se como mas no lo al sus y le este tu",
  italian: "il di che per con non una del della sono gli le si da nel alla anche come dei piu questo",
  portuguese: "o os um uma que nao com para por do da em dos no na se ao mais as seu voce",
  dutch: "de het een van en dat op te zijn met voor niet er aan ook als bij naar je",
  polish: "i w nie na sie z do jest to ze jak co po dla od za czy ale",
  turkish: "ve bir bu icin ile da de olarak cok daha gibi ne ama en sonra",
};

const LANGUAGES = Object.keys(COMMON_WORDS);
/** The first and last letter of each script. */
const SCRIPTS: readonly (readonly [first: number, last: number])[] = [
  [0x0400, 0x04ff],
  [0x0900, 0x097f],
  [0x3040, 0x30ff],
  [0x4e00, 0x9fff],
  [0xac00, 0xd7af],
  [0x0600, 0x06ff],
  [0x0370, 0x03ff],
  [0x0590, 0x05ff],
  [0x0e00, 0x0e7f],
];
const LANGUAGE_COUNT = LANGUAGES.length + SCRIPTS.length;
/** This many letters of a script count as one common word. */
const LETTERS_PER_VOTE = 3;

/** Maps each common word, encoded as a number, to its languages. */
const speakers = new Map<number, number[]>();
Object.values(COMMON_WORDS).forEach((words, language) => {
  for (const word of words.split(" ")) {
    let number = 0;
    for (let at = 0; at < word.length; at++) number = lengthened(number, word.charCodeAt(at));
    speakers.set(number, [...(speakers.get(number) ?? []), language]);
  }
});

/** Encodes words of letters a to z as numbers. The numbers are unique up to LONGEST letters. */
function lengthened(number: number, code: number): number {
  return number * 27 + code - 96;
}

/** The length of the longest common word. */
const LONGEST = Math.max(
  ...Object.values(COMMON_WORDS).flatMap((words) => words.split(" ").map((word) => word.length)),
);
/** The kind of each code unit: 1 for a to z, then one number per script. */
const KINDS = new Uint8Array(1 << 16).fill(1, 97, 123);
SCRIPTS.forEach(([first, last], script) => {
  KINDS.fill(script + 2, first, last + 1);
});

/** A language is recognised with this many votes, and with this many times the votes of any other. */
const MIN_VOTES = 2;
const MIN_LEAD = 1.6;
/** The number of pieces that are read to find the page's languages. */
const SAMPLE = 80;
/** A page with fewer characters in known languages has no language of its own to compare with. */
const MIN_PAGE = 400;
/** A language with at least this share of the page is not foreign to it. */
const AT_HOME = 0.25;

/** Evidence against a passage in a foreign language, in logits. */
const FOREIGN = 1.5;
/** Evidence against a passage that forges a chat frame, in logits. normalise.ts has already rewritten its tokens. */
const FRAMED = 1;
const FORGED_FRAME =
  /\(\/?(?:system|im_start|im_end|inst|sys|end_?of_?text|eot_id|(?:start|end)_header_id|(?:start|end)_of_turn|tool_calls?|tool_results?|tool_response|function_(?:calls?|results?)|system-reminder)\)/;
/**
 * The rest of the page starts this many characters away from the strongest passage, so that an order does not support
 * itself.
 */
const REST_DISTANCE = 300;
/** The score of the sentence at this rank in the rest of the page shows how many sentences look like orders. */
const CROWD_RANK = 2;
const CROWD_FROM = -2;
const CROWD_STEP = 0.6;
const CROWD_MOST = 1.5;

interface Judged extends Window {
  readonly logit: number;
}

/**
 * Adjusts windows by their page, in logits. `extras` is added to each window. `allowance` raises the threshold on a
 * page with many instructions or one that discusses attacks. Windows below `floor` are skipped.
 */
export function inContext(
  pieces: readonly Piece[],
  windows: readonly Judged[],
  floor: number,
): { allowance: number; extras: readonly number[] } {
  const foreignness = createForeignness(pieces);
  // Windows overlap, so the answer for each piece is cached.
  const framed: (boolean | undefined)[] = [];
  const extras = windows.map(({ first, last, logit }) => {
    if (logit < floor) return 0;
    let isFramed = false;
    for (let at = first; at <= last && !isFramed; at++)
      isFramed = framed[at] ??= FORGED_FRAME.test(pieces[at]?.folded ?? "");
    return FOREIGN * foreignness(first, last) + (isFramed ? FRAMED : 0);
  });
  return { allowance: allowanceOf(pieces, windows, extras), extras };
}

function allowanceOf(pieces: readonly Piece[], windows: readonly Judged[], extras: readonly number[]): number {
  let strongest: Judged | undefined;
  let most = Number.NEGATIVE_INFINITY;
  windows.forEach((window, at) => {
    if (window.logit + (extras[at] ?? 0) <= most) return;
    strongest = window;
    most = window.logit + (extras[at] ?? 0);
  });
  if (strongest === undefined) return 0;
  const from = (pieces[strongest.first]?.start ?? 0) - REST_DISTANCE;
  const to = (pieces[strongest.last]?.end ?? 0) + REST_DISTANCE;
  const others = windows
    .filter(
      ({ first, last, logit }) => first === last && logit > CROWD_FROM && isOutside(pieces[first] as Piece, from, to),
    )
    .map(({ logit }) => logit)
    .sort((a, b) => b - a);
  const level = others[CROWD_RANK - 1] ?? CROWD_FROM;
  const discussing = caution(pieces.filter((piece) => isOutside(piece, from, to)));
  return discussing + Math.min(CROWD_MOST, CROWD_STEP * (level - CROWD_FROM));
}

function isOutside(piece: Piece, from: number, to: number): boolean {
  return piece.end < from || piece.start > to;
}

/** How foreign the pieces from `first` to `last` are to their page: 0 to 1. */
type Foreignness = (first: number, last: number) => number;

/** Reads a sample of the page on the first call; a few words are enough to recognise a language. */
function createForeignness(pieces: readonly Piece[]): Foreignness {
  let page: { shares: Float64Array; home: number } | undefined;
  return (first, last) => {
    page ??= languagesOf(pieces);
    if (page.home < 0) return 0;
    sum.fill(0);
    for (let at = first; at <= last; at++) {
      const own = votesOf(pieces[at]?.folded ?? "");
      for (let language = 0; language < LANGUAGE_COUNT; language++)
        sum[language] = (sum[language] as number) + (own[language] as number);
    }
    const language = languageOf(sum);
    if (language < 0 || language === page.home) return 0;
    return Math.max(0, 1 - (page.shares[language] as number) / AT_HOME);
  };
}

function languagesOf(pieces: readonly Piece[]): { shares: Float64Array; home: number } {
  const shares = new Float64Array(LANGUAGE_COUNT);
  let known = 0;
  const step = Math.ceil(pieces.length / SAMPLE);
  for (let at = 0; at < pieces.length; at += step) {
    const { folded } = pieces[at] as Piece;
    const language = languageOf(votesOf(folded));
    if (language < 0) continue;
    shares[language] = (shares[language] as number) + folded.length;
    known += folded.length;
  }
  const home = known < MIN_PAGE ? -1 : shares.indexOf(Math.max(...shares));
  return { shares: shares.map((length) => length / known), home };
}

/** Buffers that each call uses again, because allocating them would cost more than reading a short piece. */
const votes = new Float32Array(LANGUAGE_COUNT);
const sum = new Float32Array(LANGUAGE_COUNT);
/** The letters of each script in the piece that is read. All zero between calls. */
const letters = new Uint32Array(SCRIPTS.length);

/** The votes of a piece, in a buffer that the next call overwrites. */
function votesOf(folded: string): Float32Array {
  votes.fill(0);
  let word = 0;
  let length = 0;
  const end = folded.length;
  for (let at = 0; at <= end; at++) {
    const code = at < end ? codeAt(folded, at) : 0;
    const kind = KINDS[code] as number;
    if (kind === 1) {
      if (++length <= LONGEST) word = lengthened(word, code);
      continue;
    }
    if (length > 0 && length <= LONGEST) vote(word);
    word = 0;
    length = 0;
    if (kind > 1) letters[kind - 2] = (letters[kind - 2] as number) + 1;
  }
  for (let script = 0; script < SCRIPTS.length; script++)
    votes[LANGUAGES.length + script] = (letters[script] as number) / LETTERS_PER_VOTE;
  letters.fill(0);
  return votes;
}

function vote(word: number): void {
  const languages = speakers.get(word);
  if (languages !== undefined) for (const language of languages) votes[language] = (votes[language] as number) + 1;
}

/** The recognised language, or -1. */
function languageOf(votes: Float32Array): number {
  let most = 0;
  let second = 0;
  let language = -1;
  for (let at = 0; at < LANGUAGE_COUNT; at++) {
    const count = votes[at] as number;
    if (count > most) {
      second = most;
      most = count;
      language = at;
    } else if (count > second) second = count;
  }
  return most >= MIN_VOTES && most >= MIN_LEAD * second ? language : -1;
}

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
function caution(pieces: Iterable<Piece>): number {
  const kinds = new Set<string>();
  for (const { folded } of pieces) {
    for (const word of folded.match(DISCUSSION) ?? []) kinds.add(word.slice(0, KIND_LENGTH));
  }
  return Math.min(DISCUSSION_MOST, Math.max(0, kinds.size - DISCUSSION_FREE) * DISCUSSION_STEP);
}
