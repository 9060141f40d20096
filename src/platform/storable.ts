/**
 * JSON text of `value` as PostgreSQL takes it: jsonb has neither NUL nor half a surrogate pair, and what models and web
 * pages write can hold both. They become U+FFFD.
 */
export function jsonbText(value: unknown): string {
  // JSON.stringify writes both as escapes; `\\` is matched first so that an escaped backslash is not taken for one.
  return (JSON.stringify(value) ?? "null").replaceAll(/\\(?:\\|u0000|ud[89a-f][0-9a-f]{2})/g, (found) =>
    found === "\\\\" ? found : "\\ufffd",
  );
}

/** `text` without NUL and half surrogate pairs. */
export function storableText(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\ufffd");
}
