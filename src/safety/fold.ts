import { LEET, LOOKALIKES, unframed } from "./letters.ts";

/**
 * The detection view of a text: one spelling for what many tricks write differently. Read by the cues only, never
 * given to a model.
 */

const MIXED_WORD = /[\p{L}\p{N}@$]{2,40}/gu;
/** Most pieces have none of these, and are as they are in lower case. */
const NOT_ASCII = /[^\s!-~]|[\u0080-\uffff]/;
const MASKED = /[a-z][013457@$]|[013457@$][a-z]|[a-z][\u0080-\uffff]|[\u0080-\uffff][a-z]/;
const FRAMED = /[\u20d0-\u20ff\u249c-\u24b5\ud83c]/;

/** Lower case, compatibility forms, accents off Latin letters, look-alikes and leet read as Latin within mixed words. */
export function fold(text: string): string {
  const plain = spaced(NOT_ASCII.test(text) ? composed(text) : text.toLowerCase());
  if (!MASKED.test(plain)) return plain;
  return plain.replace(MIXED_WORD, (word) => (/[a-z]/.test(word) && /[^a-z]/.test(word) ? unmasked(word) : word));
}

function composed(text: string): string {
  return (
    (FRAMED.test(text) ? unframed(text) : text)
      // One character each that compatibility forms spell out as eighteen, or eight: a text of them would grow as much.
      .replace(/[\ufdfa\ufdfb]/g, " ")
      .normalize("NFKD")
      .replace(/[\u0300-\u036f]/g, "")
      .normalize("NFC")
      .toLowerCase()
      .replace(/[\u2018\u2019\u02bc]/g, "'")
      .replace(/[\u201c\u201d\u00ab\u00bb]/g, '"')
  );
}

function spaced(text: string): string {
  return /\s\s|[^\S ]/.test(text) ? text.replace(/\s+/g, " ") : text;
}

function unmasked(word: string): string {
  const latin = word.replace(/[\u0080-\uffff]/g, (char) => LOOKALIKES.get(char) ?? char);
  // Digits between letters only: 2024, 3d and v1 stay.
  return latin.replace(/(?<=[a-z])[013457@$]+(?=[a-z])|^[013457@$](?=[a-z]{2})/g, (run) =>
    Array.from(run, (char) => LEET[char] ?? char).join(""),
  );
}
