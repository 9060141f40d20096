import type { Readable } from "node:stream";

/**
 * The lines of a file of JSON lines in UTF-8, without their line feeds. Only a line feed ends a line: JSON may contain
 * U+2028 and U+2029 unescaped, at which `node:readline` splits, too. Rejects with the error of `input`.
 */
export async function* readLines(input: Readable): AsyncGenerator<string, undefined> {
  input.setEncoding("utf8");
  // The parts of a line that is not complete. Joined once, because a line can span many chunks.
  let begun: string[] = [];
  for await (const chunk of input as AsyncIterable<string>) {
    const [first = "", ...others] = chunk.split("\n");
    begun.push(first);
    const last = others.pop();
    if (last === undefined) continue;
    yield begun.join("");
    yield* others;
    begun = [last];
  }
  const rest = begun.join("");
  if (rest !== "") yield rest;
}
