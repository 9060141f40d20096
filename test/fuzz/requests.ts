import type { ApiDocument, Operation, Parameter, Schema } from "../support/declared.ts";
import { createValues, type Dice } from "./values.ts";

/** Requests made from openapi.json: valid ones and ones with faults, by users, the operator and strangers. */

export interface FuzzRequest {
  operation: Operation;
  method: string;
  /** The path as the document has it. */
  template: string;
  path: string;
  headers: Record<string, string>;
  body: string | undefined;
}

/** The run's knowledge of the service: ids from its answers, and credentials. */
export interface World {
  /** Ids by the part of the path before them, such as `agents`. A nested object's id has its parent's. */
  ids: Map<string, { id: string; parent: string | null }[]>;
  keys: { user: string; poor: string; narrow: string; operator: string };
}

const SECTIONS: Readonly<Record<string, string>> = { explain: "requests" };
const FAULTY_REQUESTS = 0.4;
const PLANS = ["starter", "professional", "pro", "enterprise"];
const ODD_IDS = [
  "none",
  "0198aaaa-0000-7000-8000-000000000000",
  "%",
  "a%00b",
  "ü🌍",
  "x".repeat(2000),
  "1 or 1=1",
  "-1",
];

export function createRequests(document: ApiDocument, dice: Dice, world: World) {
  const operations = Object.entries(document.paths).flatMap(([template, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ template, method, operation })),
  );
  const known = (section: string) => world.ids.get(section) ?? [];
  const idOf = (section: string) => dice.pick(known(section))?.id;
  const values = createValues(document, dice, hint);

  /** Values that pass the first checks. */
  function hint(name: string): unknown {
    const agent = idOf("agents");
    if (name === "model") return dice.pick(["lab/plain", "auto", "lab/odd", "none/such", `agent/${agent}`]);
    if (name === "model_id") return dice.pick(["lab/plain", "lab/odd", "purser/rehearsal", "none/such"]);
    if (name === "models") return dice.pick([["lab/odd"], ["none/such"], []]);
    if (name === "plan_id") return dice.pick([...PLANS, "none"]);
    if (name === "thread_id") return dice.pick(["one", "two", "three"]);
    if (name === "agent_id") return agent;
    if (name === "schedule_timezone") return dice.pick(["UTC", "Europe/Berlin", "Nowhere/Land"]);
    if (name === "secret") return dice.pick(["A_1", "Scout", "x"]);
    if (name === "url" || name === "success_url" || name === "cancel_url") return "https://hook.invalid/path";
    if (name === "urls") return ["https://hook.invalid/path"];
    return undefined;
  }
  /** A path with ids that exist, or odd ones. The parts before `{…}` name the collection. */
  function filled(template: string): string {
    const parts = template.split("/");
    let parent: string | null = null;
    const last = parts.findLastIndex((part) => part.startsWith("{"));
    const inner = last < 0 ? undefined : dice.pick(known(sectionOf(parts, last)));
    return parts
      .map((part, at) => {
        if (!part.startsWith("{")) return part;
        if (part === "{version}") return String(dice.pick([1, 2, 0, -1, "x"]));
        if (part === "{model}")
          return dice.pick(["lab%2Fplain", "auto", "none", encodeURIComponent("purser/rehearsal")]);
        const found: string | null | undefined =
          at === last ? inner?.id : (inner?.parent ?? idOf(sectionOf(parts, at)));
        if (found === undefined || found === null || dice.chance(0.1)) return encodeURIComponent(dice.pick(ODD_IDS));
        parent = found;
        return encodeURIComponent(parent);
      })
      .join("/");
  }
  function queryOf(parameters: readonly Parameter[], is_faulty: boolean): string {
    const search = new URLSearchParams();
    for (const { name, required, schema = {} } of parameters.filter((each) => each.in === "query")) {
      if (required !== true && !dice.chance(0.4)) continue;
      const value = is_faulty && dice.chance(0.5) ? values.mutated("x") : values.valid(schema as Schema, name);
      search.set(name, typeof value === "string" ? value : JSON.stringify(value));
    }
    if (is_faulty && dice.chance(0.1)) search.set("unknown", "1");
    return search.size === 0 ? "" : `?${search}`;
  }
  function headersOf({ parameters = [], security = [] }: Operation, is_faulty: boolean): Record<string, string> {
    const headers: Record<string, string> = credentialFor(security, is_faulty, dice, world.keys);
    // Limits of sign-in count addresses.
    headers["X-Forwarded-For"] = `10.${dice.whole(0, 255)}.${dice.whole(0, 255)}.${dice.whole(1, 254)}`;
    for (const { name } of parameters.filter((each) => each.in === "header")) {
      if (!dice.chance(0.15)) continue;
      if (name === "prefer") headers.Prefer = dice.pick(["wait=1", "wait=2", "wait=x", "respond-async", "wait=-1"]);
      else if (name === "last-event-id") headers["Last-Event-ID"] = dice.pick(["1", "3", "999", "x", "-1", "1e9"]);
      else headers[name] = dice.pick(["one", "two", "three", "x".repeat(300), String(dice.whole(0, 1_000_000))]);
    }
    if (dice.chance(0.1)) headers["anthropic-version"] = "2023-06-01";
    if (dice.chance(0.05)) headers.Accept = dice.pick(["text/html", "text/event-stream", "*/*;q=0"]);
    return headers;
  }
  function bodyOf(operation: Operation, is_faulty: boolean, headers: Record<string, string>): string | undefined {
    const schema = operation.requestBody?.content["application/json"]?.schema;
    if (schema === undefined) return undefined;
    if (operation.requestBody?.required !== true && dice.chance(0.6)) return undefined;
    headers["Content-Type"] = "application/json";
    const value = values.valid(schema);
    if (!is_faulty) return JSON.stringify(value);
    if (dice.chance(0.08))
      headers["Content-Type"] = dice.pick(["text/plain", "application/x-www-form-urlencoded", "x"]);
    if (dice.chance(0.03)) headers["Content-Encoding"] = dice.pick(["gzip", "br", "zstd", "x"]);
    const text = JSON.stringify(values.mutated(value)) ?? "";
    if (dice.chance(0.08)) return text.slice(0, dice.whole(0, text.length));
    return dice.chance(0.03) ? dice.pick(["", "null", "[]", '"x"', "{", '{"a":1,"a":2}', "\u0000", "nul"]) : text;
  }
  return {
    next(): FuzzRequest {
      const { template, method, operation } = dice.pick(operations);
      const is_faulty = dice.chance(FAULTY_REQUESTS);
      const headers = headersOf(operation, is_faulty);
      const body = bodyOf(operation, is_faulty, headers);
      const path = filled(template) + queryOf(operation.parameters ?? [], is_faulty);
      return { operation, method, template, path, headers, body };
    },
  };
}

/** The collection of the id at `at`. */
export function sectionOf(parts: readonly string[], at: number): string {
  const before = parts[at - 1] ?? "";
  return SECTIONS[before] ?? (parts.includes("admin") ? `admin/${before}` : before);
}

function credentialFor(
  security: readonly Record<string, string[]>[],
  is_faulty: boolean,
  dice: Dice,
  { user, poor, narrow, operator }: World["keys"],
): Record<string, string> {
  const is_operators = security.some((each) => "operator_key" in each);
  if (dice.chance(is_faulty ? 0.15 : 0.03)) {
    return dice.pick<Record<string, string>>([
      {},
      { Authorization: "Bearer purser_live_wrong" },
      { Authorization: "Basic eDp5" },
      { "x-api-key": "wrong" },
      { Authorization: `Bearer ${is_operators ? user : operator}` },
      { Cookie: "purser_session=wrong" },
    ]);
  }
  const key = is_operators ? operator : dice.pick([user, user, user, user, user, user, poor, narrow]);
  return dice.chance(0.15) ? { "x-api-key": key } : { Authorization: `Bearer ${key}` };
}
