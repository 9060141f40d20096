import type { PurserError } from "../../kernel/errors.ts";
import { editDistance } from "../../kernel/nearest.ts";
import type { Endpoint } from "../contract/endpoint.ts";
import { httpErrors } from "./errors.ts";
import type { Exchange } from "./exchange.ts";

const API = "/api/v1";

/** Addresses of OpenAI's older API and of Ollama, by the one that serves the same here. */
const ALIASES: ReadonlyMap<string, string> = new Map([
  ["/completions", "/chat/completions"],
  ["/chat", "/chat/completions"],
  ["/generate", "/chat/completions"],
  ["/tags", "/models"],
]);
/** Azure's paths name a deployment. */
const AZURE = /^\/openai(?:\/deployments\/[^/]+|\/v1)?(?=\/)/;

/** What OpenAI and Anthropic store, by the first part of its address. */
const NOT_STORED: ReadonlyMap<string, string> = new Map([
  ["responses", "Responses are answered at once here, so none can be cancelled: GET /api/v1/responses/{id} reads one."],
  ["conversations", "Conversations are kept by agents here: POST /api/v1/agents/{id}/chat with thread_id."],
  ["threads", "Conversations are kept by agents here: POST /api/v1/agents/{id}/chat with thread_id."],
  ["assistants", "Use an agent: POST /api/v1/agents, and the model agent/{id}."],
  ["batches", "Batches are not kept here: send each of their requests by itself."],
  ["files", "Files are not stored here: send them in the request, in base64."],
]);

/** An address that differs in more letters is not meant. */
const MOST_WRONG_LETTERS = 2;
const MAX_PATH_CHARACTERS = 200;

interface Address {
  method: string;
  /** The path as the reference shows it. */
  path: string;
  pattern: RegExp;
}

/** Names what is wrong with an address that no endpoint answers: its method, or its path. */
export function createWrongAddress(endpoints: readonly Endpoint[]): (exchange: Exchange) => PurserError {
  const known = endpoints.map(({ route }) => addressOf(route));
  return ({ method, path, head }) => {
    const asked = `${method} ${path}`;
    const here = known.filter(({ pattern }) => pattern.test(path));
    if (here.length === 0) {
      const advice =
        withoutId(known, method, path) ??
        atRightBase(known, method, path) ??
        notStored(path) ??
        nearest(known, method, path);
      return httpErrors.noSuchPath(asked, advice);
    }
    const allowed = [...new Set(here.map((address) => address.method))].sort();
    head.Allow = allowed.join(", ");
    return httpErrors.methodNotAllowed(asked, allowed, notStored(path));
  };
}

function addressOf({ method, path }: Endpoint["route"]): Address {
  const escaped = path.replace(/[.*+?^$()|[\]\\]/g, "\\$&").replace(/\{[^}]+\}/g, "[^/]+");
  return { method: method.toUpperCase(), path, pattern: new RegExp(`^${escaped}$`) };
}

/** An address in which an id is empty, usually because a variable of a script is. */
function withoutId(known: readonly Address[], method: string, path: string): string | null {
  if (!path.includes("//")) return null;
  const filled = path.replaceAll("//", "/{id}/");
  const meant = known.find((address) => address.method === method && address.pattern.test(filled));
  return meant === undefined ? null : `An id is empty in it: the address is ${method} ${meant.path}.`;
}

/** The usual slips of a base URL: a slash too many, `/v1` twice or missing, `/api` missing, Azure's or Ollama's paths. */
function atRightBase(known: readonly Address[], method: string, path: string): string | null {
  const clean = path.replace(/\/{2,}/g, "/").replace(/\/+$/, "");
  const rest = clean
    .replace(/^\/api(?=\/|$)/, "")
    .replace(/^(\/v1)+(?=\/|$)/, "")
    .replace(AZURE, "");
  const meant = `${API}${ALIASES.get(rest) ?? rest}`;
  const found = known.find((address) => address.method === method && address.pattern.test(meant));
  if (found === undefined || meant === path) return null;
  return `Use ${method} ${meant}, and correct the base URL of your client or its kind of API.`;
}

function notStored(path: string): string | null {
  const [, kind = ""] = /^\/api\/v1\/(?:messages\/)?([a-z]+)/.exec(path) ?? [];
  return NOT_STORED.get(kind) ?? null;
}

/** The address whose words differ in the fewest letters, with the ids of `path`. */
function nearest(known: readonly Address[], method: string, path: string): string | null {
  if (path.length > MAX_PATH_CHARACTERS) return null;
  const parts = path.split("/");
  const [best] = known
    .filter((address) => address.method === method && address.path.split("/").length === parts.length)
    .map((address) => address.path.split("/").map((word, at) => (word.startsWith("{") ? (parts[at] ?? "") : word)))
    .map((words) => words.join("/"))
    .filter((meant) => Math.abs(meant.length - path.length) <= MOST_WRONG_LETTERS)
    .map((meant) => ({ meant, wrong_letters: editDistance(meant, path) }))
    .toSorted((a, b) => a.wrong_letters - b.wrong_letters);
  return best === undefined || best.wrong_letters > MOST_WRONG_LETTERS ? null : `Did you mean ${method} ${best.meant}?`;
}
