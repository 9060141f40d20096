import { unescaped } from "../../src/platform/lib/escapes.ts";

/**
 * A slow, simple reference of `holdsSecret` for values of up to 200 characters: it decodes up to two encodings in every
 * way, and searches each result completely.
 */
export function holdsByReference(bytes: Buffer, told: string): boolean {
  // the text, and its UTF-8 read as latin1
  const needles = [...new Set([told, Buffer.from(told).toString("latin1")])].flatMap(needlesOf);
  const least_bytes = Math.min(...needles.map(({ length }) => length));
  const levels = [[bytes], ...[0, 0].map((): Buffer[] => [])];
  for (const depth of [0, 1]) {
    for (const each of levels[depth] ?? []) {
      levels[depth + 1]?.push(...undone(each, least_bytes), ...(depth === 0 ? undone(turned(each), Infinity) : []));
    }
  }
  return levels.flat().some((each) => needles.some((needle) => each.includes(needle)));
}

function needlesOf(told: string): Buffer[] {
  const breaks = [told.replaceAll(/\r?\n/g, "\r\n"), told.replaceAll("\r\n", "\n")];
  const cases = [told.toLowerCase(), told.toUpperCase()];
  const spellings = [told, ...cases, ...breaks].flatMap((text) => [text, text.replaceAll(" ", "+")]);
  const texts = spellings.flatMap((text) => [text, [...text].reverse().join("")]);
  return [...texts.map((text) => Buffer.from(text)), Buffer.from(told, "utf16le").subarray(0, -1)];
}

const turned = (bytes: Buffer) => Buffer.from(bytes).reverse();

/** `bytes` without escapes, and the decoded runs of digits in them that may contain `least_bytes`. */
function undone(bytes: Buffer, least_bytes: number): Buffer[] {
  const plain = unescaped(bytes)?.plain;
  const least = Math.floor((least_bytes * 8) / 6) - 2;
  const runs = (bytes.toString("latin1").match(/[A-Za-z0-9+/_\r\n-]+/g) ?? []).filter((run) => run.length >= least);
  const digits = runs.map((run) => run.replaceAll(/[\r\n]/g, ""));
  const said = [...digits, ...digits.map((run) => turned(Buffer.from(run)).toString())].flatMap((run) => [
    ...[0, 1, 2, 3].map((from) => Buffer.from(run.slice(from), "base64")),
    ...(run.match(/[0-9a-f]{16,}/gi) ?? []).flatMap((hex) => [0, 1].map((from) => Buffer.from(hex.slice(from), "hex"))),
  ]);
  return [...(plain === undefined ? [] : [plain]), ...said];
}
