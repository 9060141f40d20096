/** Most names of `metadata` that usage records, and the lengths of names and values. OpenAI allows as many names. */
const MAX_NAMES = 16;
const MAX_NAME = 64;
const MAX_VALUE = 256;
const PREFIX = "metadata.";

/**
 * The labels of a request for its usage: `user`, and `metadata.{name}` for each name. `metadata.user_id`, Anthropic's
 * field, is the user if there is no `user`. Null without labels. Longer names and values are not recorded.
 */
export function labelsOf(request: { user?: unknown; metadata?: unknown }): Record<string, string> | null {
  const { user, metadata } = request;
  if (user === undefined && metadata === undefined) return null;
  const named = typeof metadata === "object" && metadata !== null ? Object.entries(metadata).slice(0, MAX_NAMES) : [];
  // The user has a budget, so it is found behind any number of names.
  const { user_id } = (metadata ?? {}) as { user_id?: unknown };
  const given = [["user", user ?? user_id], ...named.map(prefixed)];
  const labels = given.flatMap(([name, value]) => (isName(name) && isValue(value) ? [[name, String(value)]] : []));
  return labels.length === 0 ? null : Object.fromEntries(labels);
}

/** The pairs of `metadata` in a request's labels; null without any. */
export function metadataIn(labels: Readonly<Record<string, string>> | null | undefined): Record<string, string> | null {
  const pairs = Object.entries(labels ?? {}).flatMap(([name, value]) =>
    name.startsWith(PREFIX) ? [[name.slice(PREFIX.length), value]] : [],
  );
  return pairs.length === 0 ? null : Object.fromEntries(pairs);
}

function prefixed([name, value]: [string, unknown]): [string, unknown] {
  return [PREFIX + name, value];
}

function isName(name: unknown): name is string {
  return isStored(name) && name.length <= MAX_NAME + PREFIX.length;
}

function isValue(value: unknown): boolean {
  if (typeof value === "number" || typeof value === "boolean") return true;
  return isStored(value) && value !== "" && value.length <= MAX_VALUE;
}

/** The database stores no U+0000 and no half of a surrogate pair. */
function isStored(text: unknown): text is string {
  return typeof text === "string" && !text.includes("\0") && text.isWellFormed();
}
