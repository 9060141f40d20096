import { createReadStream } from "node:fs";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";

/** The lines of a file, compressed with gzip or plain. Closes it when its reader stops. Rejects with Node's errors. */
export async function* readFileLines(
  path: string,
  { is_gzip }: { is_gzip: boolean },
): AsyncGenerator<string, undefined> {
  const file = createReadStream(path);
  const unzipped = is_gzip ? createGunzip() : null;
  const ended = unzipped === null ? null : pipeline(file, unzipped);
  ended?.catch(() => {});
  const text = unzipped ?? file;
  // A reader that stops early closes the file. The error of that has no listener left, and would end the process.
  for (const source of [file, text]) source.on("error", () => {});
  try {
    yield* readLines(text);
    await ended;
  } finally {
    file.destroy();
  }
}

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
