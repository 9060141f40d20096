/**
 * The detection view of a text: one spelling for what many tricks write differently. Read by the cues only, never
 * given to a model.
 */

const LOOKALIKES: Record<string, string> = Object.fromEntries(
  [..."аaвbеeкkмmнhоoрpсcтtуyхxіiјjѕsԁdɡgԛqԝwαaβbεeιiκkνvοoρpτtυuχxıiłlɩiσoѵvһhӏl".matchAll(/(.)(.)/gu)].map(
    ([, from = "", to = ""]) => [from, to],
  ),
);
const LEET: Record<string, string> = { "0": "o", "1": "i", "3": "e", "4": "a", "5": "s", "7": "t", "@": "a", $: "s" };

const MIXED_WORD = /[\p{L}\p{N}@$]{2,40}/gu;
const SPACED_LETTERS = /(?<![\p{L}\p{N}])(?:\p{L}[ .\-_*]){4,60}\p{L}(?![\p{L}\p{N}])/gu;

/** Lower case, compatibility forms, accents off Latin letters, look-alikes and leet read as Latin within mixed words. */
export function fold(text: string): string {
  const plain = text
    .replace(SPACED_LETTERS, (run) => run.replace(/[^\p{L}]/gu, ""))
    .normalize("NFKD")
    .replace(/[\u0300-\u036f]/g, "")
    .normalize("NFC")
    .toLowerCase()
    .replace(/[\u2018\u2019\u02bc]/g, "'")
    .replace(/[\u201c\u201d\u00ab\u00bb]/g, '"')
    .replace(/\s+/g, " ");
  if (!/[^\x20-\x7e]|[0-9@$]/.test(plain)) return plain;
  return plain.replace(MIXED_WORD, (word) => (/[a-z]/.test(word) && /[^a-z]/.test(word) ? unmasked(word) : word));
}

function unmasked(word: string): string {
  const latin = word.replace(/[\u0080-\uffff]/g, (char) => LOOKALIKES[char] ?? char);
  // Digits between letters only: 2024, 3d and v1 stay.
  return latin.replace(/(?<=[a-z])[013457@$]+(?=[a-z])|^[013457@$](?=[a-z]{2})/g, (run) =>
    Array.from(run, (char) => LEET[char] ?? char).join(""),
  );
}

const BASE64 = /[A-Za-z0-9+/_-]{32,20000}={0,2}/g;
const HEX = /(?:[0-9a-f]{2}[ :]?){16,10000}/gi;
/** What words of orders look like read backwards, and in ROT13. */
const BACKWARDS = /erongi|snoitcurtsni|tpmorp|drowssap|laever|drager|tnatsissa/;
const ROT13 = /vtaber|vafgehpgvba|cebzcg|cnffjbeq|erirny|qvfertneq|nffvfgnag/;

/** What encoded runs in a sentence say, where that is text; the sentence itself, where it is written backwards or in ROT13. */
export function decodedRuns(text: string): string[] {
  const runs = [
    ...(text.match(BASE64) ?? []).map((run) => Buffer.from(run, "base64")),
    ...(text.match(HEX) ?? []).map((run) => Buffer.from(run.replace(/[ :]/g, ""), "hex")),
  ].map((bytes) => bytes.toString("utf8"));
  const decoded = runs.filter((run) => /^[\p{L}\p{N}\p{P}\p{S}\p{M}\s]+$/u.test(run) && run.includes(" "));
  const lower = text.toLowerCase();
  if (BACKWARDS.test(lower)) decoded.push(Array.from(text).reverse().join(""));
  if (ROT13.test(lower)) decoded.push(rotated(lower));
  return decoded;
}

function rotated(lower: string): string {
  return lower.replace(/[a-z]/g, (letter) => String.fromCharCode(((letter.charCodeAt(0) - 97 + 13) % 26) + 97));
}
