import type { Context } from "hono";
import type { HttpEnv } from "../contract/caller.ts";
import type { HttpRouter } from "../contract/router.ts";
import { errors, type PurserError } from "../errors.ts";
import { editDistance } from "../platform/nearest.ts";

const API = "/api/v1";

const PLAIN_PATH = /^\/[a-z.]+$/;

/** An address that differs in more letters is not meant. */
const MOST_WRONG_LETTERS = 2;
const MAX_PATH_CHARACTERS = 200;

interface Address {
  method: string;
  /** The path as the reference shows it. */
  path: string;
  pattern: RegExp;
}

/** Names what is wrong with an address that no route answers: its method, or its path. */
export function createWrongAddress(app: HttpRouter): (c: Context<HttpEnv>) => PurserError {
  let known: Address[] | null = null;
  return (c) => {
    known ??= addressesOf(app);
    const { method, path } = c.req;
    const asked = `${method} ${path}`;
    const here = known.filter(({ pattern }) => pattern.test(path));
    if (here.length === 0)
      return errors.noSuchPath(asked, atRightBase(known, method, path) ?? nearest(known, method, path));
    const allowed = [...new Set(here.map((address) => address.method))].sort();
    // A route that takes this method has declined: it serves another kind of client.
    if (allowed.includes(method)) return errors.notFound(asked);
    c.header("Allow", allowed.join(", "));
    return errors.methodNotAllowed(asked, allowed);
  };
}

function addressesOf(app: HttpRouter): Address[] {
  const documented = app.openAPIRegistry.definitions.flatMap((each) => (each.type === "route" ? each.route : []));
  // Health, metrics and the reference are not in the reference.
  const plain = app.routes.filter(({ method, path }) => method === "GET" && PLAIN_PATH.test(path));
  return [...documented, ...plain].map(({ method, path }) => {
    const escaped = path.replace(/[.*+?^$()|[\]\\]/g, "\\$&").replace(/\{[^}]+\}/g, "[^/]+");
    return { method: method.toUpperCase(), path, pattern: new RegExp(`^${escaped}$`) };
  });
}

/** The usual slips of a base URL: a slash too many, `/v1` twice or missing, `/api` missing. */
function atRightBase(known: readonly Address[], method: string, path: string): string | null {
  const clean = path.replace(/\/{2,}/g, "/").replace(/\/+$/, "");
  const rest = clean.replace(/^\/api(?=\/|$)/, "").replace(/^(\/v1)+(?=\/|$)/, "");
  const meant = `${API}${rest}`;
  const found = known.find((address) => address.method === method && address.pattern.test(meant));
  return found === undefined || meant === path ? null : `${method} ${meant}`;
}

/** The address whose words differ in the fewest letters, with the ids of `path`. */
function nearest(known: readonly Address[], method: string, path: string): string | null {
  if (path.length > MAX_PATH_CHARACTERS) return null;
  const parts = path.split("/");
  const [best] = known
    .filter((address) => address.method === method && address.path.split("/").length === parts.length)
    .map((address) => address.path.split("/").map((word, at) => (word.startsWith("{") ? (parts[at] ?? "") : word)))
    .map((words) => words.join("/"))
    .map((meant) => ({ meant, wrong_letters: editDistance(meant, path) }))
    .toSorted((a, b) => a.wrong_letters - b.wrong_letters);
  return best === undefined || best.wrong_letters > MOST_WRONG_LETTERS ? null : `${method} ${best.meant}`;
}
