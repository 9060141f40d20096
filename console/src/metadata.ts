/** A run's metadata as text: a name=value on each line. */

export function parsePair(line: string): [name: string, value: string] {
  const [name = "", ...value] = line.split("=");
  return [name.trim(), value.join("=").trim()];
}

const splitLines = (text: string) => text.split("\n").filter((line) => line.trim() !== "");

/** null: there are none. */
export const parseMetadata = (text: string): Record<string, string> | null =>
  text.trim() === "" ? null : Object.fromEntries(splitLines(text).map(parsePair));

/** What a person must change in the text; null: nothing. */
export function wrongMetadata(text: string): string | null {
  const wrong = splitLines(text).find((line) => line.indexOf("=") < 1);
  return wrong === undefined ? null : `Write “${wrong}” as name=value.`;
}
