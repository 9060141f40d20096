/**
 * The rehearsal model's tokeniser: a token is a run of up to eight letters and digits with the blanks before it, or one
 * other character with the blanks before it. One pass, linear on any input; the tokens joined are the text.
 */
const TOKEN = /\s{0,8}[\p{L}\p{N}_]{1,8}|\s{0,8}[^\s\p{L}\p{N}_]|\s{1,8}/gu;

/** The tokens of `text`, in order. */
export function rehearsalTokens(text: string): string[] {
  return text.match(TOKEN) ?? [];
}
