import { contractErrors } from "../contract/errors.ts";
import { httpErrors } from "./errors.ts";

const UTF8 = new TextDecoder("utf-8", { fatal: true });
const UTF8_WITH_MARK = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Decodes a body. Throws a 400 for bytes that are not UTF-8, because they would decode to other characters. `keeps_mark`: the text
 * has all bytes, a byte order mark included.
 */
export function decodeUtf8(bytes: Uint8Array, { keeps_mark = false } = {}): string {
  try {
    return (keeps_mark ? UTF8_WITH_MARK : UTF8).decode(bytes);
  } catch {
    throw contractErrors.invalidJson("The body is not valid UTF-8");
  }
}

/** Parses a JSON text. An empty text counts as `{}`. Throws a 400. */
export function parseJson(text: string): unknown {
  if (text.trim() === "") return {};
  try {
    return JSON.parse(text);
  } catch (error) {
    // The parser's own message quotes the body, which may contain a secret. Report only the position.
    const place = / at position \d+/.exec((error as Error).message)?.[0] ?? ": it ends too early";
    throw contractErrors.invalidJson(`The body is not valid JSON${place}`);
  }
}

/** Limits of a JSON body. */
export interface JsonLimits {
  /** Nesting of lists and objects. Validators call themselves for each level. */
  depth: number;
  /** Keys of objects, each occurrence counted. */
  keys: number;
  /** Elements of lists. */
  elements: number;
}

/** Throws a 400 for a value that exceeds a limit. */
export function checkJsonLimits(value: unknown, limits: JsonLimits): void {
  let level: object[] = isContainer(value) ? [value] : [];
  let [keys, elements] = [0, 0];
  for (let depth = 1; level.length > 0; depth += 1) {
    if (depth > limits.depth) throw httpErrors.bodyTooComplex(`more than ${limits.depth} levels of lists and objects`);
    const next: object[] = [];
    const add = (child: unknown) => {
      if (isContainer(child)) next.push(child);
    };
    for (const container of level) {
      if (Array.isArray(container)) {
        elements += container.length;
        if (elements > limits.elements) throw httpErrors.bodyTooComplex(`more than ${limits.elements} list elements`);
        container.forEach(add);
      } else {
        for (const key in container) {
          keys += 1;
          if (keys > limits.keys) throw httpErrors.bodyTooComplex(`more than ${limits.keys} keys`);
          add(container[key as never]);
        }
      }
    }
    level = next;
  }
}

function isContainer(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
