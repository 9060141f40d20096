/** Returns the error of an invalid JSON text as a sentence that does not quote the text. */
export class JsonError extends Error {}

const UTF8 = new TextDecoder("utf-8", { fatal: true });

/** Decodes a body. Bytes that are not UTF-8 are rejected, because they would decode to other characters. */
export function utf8Text(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes);
  } catch {
    throw new JsonError("The body is not valid UTF-8");
  }
}

/** Parses a JSON text. An empty text counts as `{}`. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // The parser's own message quotes the body, which may contain a secret. Report only the position.
    const place = / at position \d+/.exec((error as Error).message)?.[0] ?? ": it ends too early";
    throw new JsonError(`The body is not valid JSON${place}`);
  }
}
