/** The fault of a text that is not JSON: a sentence without any of the text. */
export class JsonError extends Error {}

const UTF8 = new TextDecoder("utf-8", { fatal: true });

/** A body's text; bytes that are no UTF-8 would be read as other characters than were sent. */
export function utf8Text(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes);
  } catch {
    throw new JsonError("The body is not valid UTF-8");
  }
}

/** The value of a JSON text. No text counts as `{}`. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // The parser's own message quotes the body, which may hold a secret: tell the place only.
    const place = / at position \d+/.exec((error as Error).message)?.[0] ?? ": it ends too early";
    throw new JsonError(`The body is not valid JSON${place}`);
  }
}
