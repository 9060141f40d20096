import { caution } from "./discussion.ts";
import type { Piece } from "./pieces.ts";
import type { Window } from "./windows.ts";

/**
 * Whether a passage fits the page it stands on. An order put into somebody else's page often is in another language
 * than the page, while a page that itself is full of instructions (a manual, a guide to prompting) has many passages
 * that sound a little like orders.
 */

/** The commonest words of languages in Latin letters, folded (fold.ts); a word may speak for several. */
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
/** First and last letter of scripts. */
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
const TONGUES = LANGUAGES.length + SCRIPTS.length;
/** Letters of a script that count as one common word. */
const LETTERS_PER_VOTE = 3;

/** Of each common word, as a number, the tongues that it speaks for. */
const speakers = new Map<number, number[]>();
Object.values(COMMON_WORDS).forEach((words, tongue) => {
  for (const word of words.split(" ")) {
    let number = 0;
    for (let at = 0; at < word.length; at++) number = lengthened(number, word.charCodeAt(at));
    speakers.set(number, [...(speakers.get(number) ?? []), tongue]);
  }
});

/** Words of letters a to z as numbers: no two have the same up to the length where numbers lose places. */
function lengthened(number: number, code: number): number {
  return number * 27 + code - 96;
}

/** Longer words are none of the common ones. */
const LONGEST = Math.max(
  ...Object.values(COMMON_WORDS).flatMap((words) => words.split(" ").map((word) => word.length)),
);
/** What a code unit is: 1 for a to z, then a number for each script. */
const KINDS = new Uint8Array(1 << 16).fill(1, 97, 123);
SCRIPTS.forEach(([first, last], script) => {
  KINDS.fill(script + 2, first, last + 1);
});

/** A tongue is told by this many votes, and this many times as many as any other has. */
const MIN_VOTES = 2;
const MIN_LEAD = 1.6;
/** Pieces of a page that are read to know its tongues. */
const SAMPLE = 80;
/** A page of fewer characters in a known tongue has none that a passage could differ from. */
const MIN_PAGE = 400;
/** A tongue that makes up this share of the page is not foreign to it. */
const AT_HOME = 0.25;

/** What speaks against a passage in a tongue that is foreign to its page, in the model's logits. */
const FOREIGN = 1.5;
/** What speaks against a passage that forges the frame of a conversation: tokens that normalise.ts has defused. */
const FRAMED = 1;
const FORGED_FRAME =
  /\(\/?(?:system|im_start|im_end|inst|sys|end_?of_?text|eot_id|(?:start|end)_header_id|(?:start|end)_of_turn|tool_calls?|tool_results?|tool_response|function_(?:calls?|results?)|system-reminder)\)/;
/** The rest of the page begins this many characters from its strongest passage: an order is no witness for itself. */
const REST_DISTANCE = 300;
/** Of the rest of the sentences, the one at this rank tells how many sound like orders, from this logit up. */
const CROWD_RANK = 2;
const CROWD_FROM = -2;
const CROWD_STEP = 0.6;
const CROWD_MOST = 1.5;

interface Judged extends Window {
  readonly logit: number;
}

/**
 * What the page around them makes of its windows, in logits: `extras` is added to each, `allowance` is asked beyond
 * the threshold on a page of many instructions, or one that discusses attacks. Windows below `floor` are not looked at.
 */
export function inContext(
  pieces: readonly Piece[],
  windows: readonly Judged[],
  floor: number,
): { allowance: number; extras: readonly number[] } {
  const strangeness = createStrangeness(pieces);
  const extras = windows.map(({ first, last, logit }) => {
    if (logit < floor) return 0;
    let isFramed = false;
    for (let at = first; at <= last; at++) isFramed ||= FORGED_FRAME.test(pieces[at]?.folded ?? "");
    return FOREIGN * strangeness(first, last) + (isFramed ? FRAMED : 0);
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
type Strangeness = (first: number, last: number) => number;

/** Reads the page when it is first asked: a sample of it, as its tongue is told by little. */
function createStrangeness(pieces: readonly Piece[]): Strangeness {
  let page: { shares: Float64Array; home: number } | undefined;
  /** Of pieces read before: windows overlap. */
  const votes: (Float32Array | undefined)[] = [];
  return (first, last) => {
    page ??= tonguesOf(pieces);
    if (page.home < 0) return 0;
    const sum = new Float32Array(TONGUES);
    for (let at = first; at <= last; at++) {
      votes[at] ??= votesOf(pieces[at]?.folded ?? "");
      for (let tongue = 0; tongue < TONGUES; tongue++)
        sum[tongue] = (sum[tongue] as number) + (votes[at]?.[tongue] as number);
    }
    const tongue = tongueOf(sum);
    if (tongue < 0 || tongue === page.home) return 0;
    return Math.max(0, 1 - (page.shares[tongue] as number) / AT_HOME);
  };
}

function tonguesOf(pieces: readonly Piece[]): { shares: Float64Array; home: number } {
  const shares = new Float64Array(TONGUES);
  let known = 0;
  const step = Math.ceil(pieces.length / SAMPLE);
  for (let at = 0; at < pieces.length; at += step) {
    const { folded } = pieces[at] as Piece;
    const tongue = tongueOf(votesOf(folded));
    if (tongue < 0) continue;
    shares[tongue] = (shares[tongue] as number) + folded.length;
    known += folded.length;
  }
  const home = known < MIN_PAGE ? -1 : shares.indexOf(Math.max(...shares));
  return { shares: shares.map((length) => length / known), home };
}

function votesOf(folded: string): Float32Array {
  const votes = new Float32Array(TONGUES);
  const letters = new Uint32Array(SCRIPTS.length);
  let word = 0;
  let length = 0;
  for (let at = 0; at <= folded.length; at++) {
    const kind = at < folded.length ? (KINDS[folded.charCodeAt(at)] as number) : 0;
    if (kind === 1) {
      if (++length <= LONGEST) word = lengthened(word, folded.charCodeAt(at));
      continue;
    }
    if (length > 0 && length <= LONGEST) vote(votes, word);
    word = 0;
    length = 0;
    if (kind > 1) letters[kind - 2] = (letters[kind - 2] as number) + 1;
  }
  for (let script = 0; script < SCRIPTS.length; script++)
    votes[LANGUAGES.length + script] = (letters[script] as number) / LETTERS_PER_VOTE;
  return votes;
}

function vote(votes: Float32Array, word: number): void {
  const tongues = speakers.get(word);
  if (tongues !== undefined) for (const tongue of tongues) votes[tongue] = (votes[tongue] as number) + 1;
}

/** The tongue that is told, or -1. */
function tongueOf(votes: Float32Array): number {
  let most = 0;
  let second = 0;
  let tongue = -1;
  votes.forEach((count, at) => {
    if (count > most) {
      second = most;
      most = count;
      tongue = at;
    } else if (count > second) second = count;
  });
  return most >= MIN_VOTES && most >= MIN_LEAD * second ? tongue : -1;
}
