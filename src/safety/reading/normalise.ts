import { withoutOverridden } from "./bidi.ts";

/**
 * The output view of a text: the same words, without invisible characters and without chat-template tokens. It does not
 * judge meaning.
 */

export interface Normalised {
  readonly text: string;
  /** Text that invisible characters spelled out. */
  readonly smuggled: readonly string[];
  /** Text that bidi overrides display backwards, as written. It is removed. */
  readonly turned: readonly string[];
  /** The number of places with an invisible character between two Latin letters, soft hyphens excluded. */
  readonly split_words: number;
  /** The number of removed characters that are invisible and change the display: zero width, bidi, tags. */
  readonly unseen: number;
  /** Chat-frame tokens that were rewritten, by their words; a few of each kind. */
  readonly defused: readonly string[];
}

/** Unicode tag characters, an invisible copy of ASCII. */
const TAGS = /[\u{e0020}-\u{e007e}]{4,}/gu;
/** Several variation selectors in a row can carry bytes; a single one only selects a glyph. */
const SELECTORS = /[\ufe00-\ufe0f\u{e0100}-\u{e01ef}]{4,}/gu;
/** Joiners and selectors that change the display: inside emoji, and between letters of joining scripts. */
const JOINED_EMOJI = /(\p{Extended_Pictographic}[\ufe0f\u{1f3fb}-\u{1f3ff}]?)\u200d(?=\p{Extended_Pictographic})/gu;
const JOINED_LETTERS =
  /([\p{Script_Extensions=Arabic}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Gujarati}\p{Script=Gurmukhi}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Oriya}\p{Script=Sinhala}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Khmer}]|(?!\p{Script=Inherited})\p{M})([\u200c\u200d])(?=[\p{L}\p{M}])/gu;
const PICTURE_SELECTOR = /([\p{Extended_Pictographic}#*0-9])\ufe0f/gu;
/** Honest text never has these inside a Latin word; they hide the word from search. Soft hyphens are allowed. */
const SPLIT_WORD = /[a-z][\u200b-\u200d\u2060-\u2064\ufeff]+(?=[a-z])/gi;
/** Placeholders for the three above while the rest is removed. They are noncharacters, which no text may contain. */
const KEPT = { "\u200c": "\ufdd0", "\u200d": "\ufdd1", "\ufe0f": "\ufdd2" } as const;
const UNSTOOD = { "\ufdd0": "\u200c", "\ufdd1": "\u200d", "\ufdd2": "\ufe0f" } as const;

/** Characters that Unicode defines as invisible (zero width, bidi, tags, fillers, selectors), controls, private use. */
const UNSEEN = /[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Co}\p{Cs}\ufff9-\ufffb]/gu;
/**
 * A superset of the characters that these patterns look for. One check of code units lets most texts skip six searches.
 */
const SPECIAL = {
  unseen: anyOf(
    "\\0-\\x08\\v-\\x1f\\x7f-\\x9f\\xad\\u034f\\u0600-\\u070f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e",
    "\\u2060-\\u206f\\u3164\\ud800-\\uf8ff\\ufdd0-\\ufdef\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\uffff",
  ),
  /** Without these, no text is spelled out, no word is split and nothing steers the display. */
  carriers: anyOf("\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u2069\\ufe00-\\ufe0f\\ufeff\\udb40"),
  mark: anyOf(
    "\\u0300-\\u036f\\u0483-\\u1fff\\u20d0-\\u20ff\\u2cef-\\u2dff\\u302a-\\u309a\\ua66f-\\uabff\\ud800-\\udfff\\ufb1e\\ufe00-\\ufe2f",
  ),
} as const;

function anyOf(...ranges: readonly string[]): RegExp {
  return new RegExp(`[${ranges.join("")}]`);
}

/** A text of printable ASCII without a frame's bracket or a label's colon, as most hidden texts are. It stays as it is. */
const PLAIN = /^[\t\n -9;=-Z\\-~]*$/;

/** UAX 15 allows 30 marks on one letter. Composing sorts them in quadratic time, so more are removed. */
const MOST_MARKS = 30;
const TOO_MANY_MARKS = /(\p{M}{30})\p{M}+/gu;

/** Reads one character in 31: of as many in a row it meets one. */
function mayHaveTooManyMarks(text: string): boolean {
  for (let at = 0; at < text.length; at += MOST_MARKS + 1) if (SPECIAL.mark.test(text.charAt(at))) return true;
  return false;
}
const LINE_ENDS = /\r\n?|[\v\f\u0085\u2028\u2029]/g;

const NOTHING_FOUND = { smuggled: [], turned: [], split_words: 0, unseen: 0, defused: [] } as const;

/** Removes invisible characters, composes (NFC), and rewrites chat-template tokens. Linear. */
export function normalise(original: string): Normalised {
  if (PLAIN.test(original)) return { ...NOTHING_FOUND, text: original };
  const { rest: text, backwards } = withoutOverridden(original);
  const has_unseen = SPECIAL.unseen.test(text);
  const seen = has_unseen ? withoutUnseen(text) : text;
  const has_carriers = has_unseen && SPECIAL.carriers.test(text);
  const marked = mayHaveTooManyMarks(seen) ? seen.replace(TOO_MANY_MARKS, "$1") : seen;
  const composed = marked.replace(/\u2800/g, " ").normalize("NFC");
  const defused = defuseTemplates(composed);
  return {
    text: defused,
    smuggled: has_carriers ? spelledOut(text) : [],
    turned: backwards === "" ? [] : [backwards],
    split_words: has_carriers ? (text.match(SPLIT_WORD) ?? []).length : 0,
    unseen: has_carriers ? steeringIn(text) - steeringIn(seen) : 0,
    defused: defused === composed ? [] : framesIn(composed),
  };
}

/** Zero width, bidi and tag characters, without the byte order marks, soft hyphens and controls of honest pages. */
const STEERING = /[\u200b-\u200f\u202a-\u202e\u2060-\u2069]|[\u{e0000}-\u{e007f}]/gu;

function steeringIn(text: string): number {
  return text.match(STEERING)?.length ?? 0;
}

function withoutUnseen(text: string): string {
  let kept = text
    .toWellFormed()
    .replace(LINE_ENDS, "\n")
    .replace(/[\ufdd0-\ufdef]/g, "");
  if (/[\u200c\u200d]/.test(kept)) {
    kept = kept
      .replace(JOINED_EMOJI, `$1${KEPT["\u200d"]}`)
      .replace(JOINED_LETTERS, (_all, letter: string, joiner: "\u200c" | "\u200d") => letter + KEPT[joiner]);
  }
  if (kept.includes("\ufe0f")) kept = kept.replace(PICTURE_SELECTOR, `$1${KEPT["\ufe0f"]}`);
  return kept
    .replace(UNSEEN, (char) => (char === "\n" || char === "\t" ? char : ""))
    .replace(/[\ufdd0-\ufdd2]/g, (char) => UNSTOOD[char as keyof typeof UNSTOOD]);
}

function spelledOut(text: string): string[] {
  const tags = (text.match(TAGS) ?? []).map((run) => mapCodePoints(run, (code) => code - 0xe0000));
  const bytes = (text.match(SELECTORS) ?? []).map((run) =>
    mapCodePoints(run, (code) => (code >= 0xe0100 ? code - 0xe0100 + 16 : code - 0xfe00)),
  );
  return [...tags, ...bytes];
}

function mapCodePoints(run: string, change: (code: number) => number): string {
  return Array.from(run, (char) => String.fromCodePoint(change(char.codePointAt(0) ?? 0))).join("");
}

/** `<|im_start|>` and similar tokens of all model families; DeepSeek writes them in full width. */
const SPECIAL_TOKEN = /[<\uff1c][|\uff5c]([^<>|\n\uff5c]{1,60})[|\uff5c][>\uff1e]/g;
const BRACKET_TOKEN = /\[(\/?(?:INST|SYS|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)|gMASK)\]/gi;
/** Other tokens of Mistral and EXAONE. Case matters, because `[args]` and `[think]` are common words. */
const EXACT_TOKEN =
  /\[(\/?(?:TOOL_CONTENT|ARGS|CALL_ID|THINK|IMG|IMG_BREAK|IMG_END|AUDIO|BEGIN_AUDIO|PREFIX|MIDDLE|SUFFIX)|\|[a-z_]{1,30}\|)\]|<((?:BOS|EOS|PAD|UNK|CLS|SEP|MASK)_TOKEN|image_soft_token|extra_id_\d{1,3})>/g;
const DOUBLE_ANGLE = /<<(\/?SYS)>>/gi;
/** Tag names that frame conversations. Other tags stay text. */
const FRAME_TAG =
  /<(\/?(?:s|bos|eos|pad|sop|unk|(?:start|end)_of_(?:turn|text|image)|sep|begin_of_text|system|user|assistant|human|developer|think|thinking|tool_calls?|tool_results?|tool_response|tool_use|(?:[a-z]{1,20}:)?function_(?:calls?|results?)|(?:[a-z]{1,20}:)?invoke|system-reminder|instructions?|system_prompt|unused\d{1,4})(?:\s(?:[^<>\n]|\n(?![ \t]*\n)){0,1000})?)>/gi;
/**
 * A speaker's label after a blank line starts a turn for models trained on such transcripts. Assumes a line before the
 * text.
 */
const TURN_LABEL = /(?<=(?:^(?:[ \t]*\n)?|\n[ \t]*\n)[ \t]*)(?:Human|Assistant|System|H|A)(?=[ \t]*:)/g;

/** The most frames of each kind that are reported. */
const MAX_FRAMES_TOLD = 3;

function framesIn(text: string): string[] {
  return [SPECIAL_TOKEN, BRACKET_TOKEN, EXACT_TOKEN, DOUBLE_ANGLE, FRAME_TAG, TURN_LABEL].flatMap((pattern) =>
    (text.match(pattern) ?? [])
      .slice(0, MAX_FRAMES_TOLD)
      .map((frame) => frame.replace(/[^\p{L}\p{N} /_-]/gu, "").trim()),
  );
}

/** Rewrites the tokens with round brackets, which frame nothing. The words stay. */
function defuseTemplates(text: string): string {
  const framed = /[<[\uff1c]/.test(text)
    ? text
        .replace(SPECIAL_TOKEN, "($1)")
        .replace(BRACKET_TOKEN, "($1)")
        .replace(EXACT_TOKEN, "($1$2)")
        .replace(DOUBLE_ANGLE, "($1)")
        .replace(FRAME_TAG, "($1)")
    : text;
  return framed.replace(TURN_LABEL, "> $&");
}
