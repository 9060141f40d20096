import type { Scope } from "./caller.ts";
import { failures, nextCursorSchema } from "./common.ts";
import { type RouteDefinition, z } from "./zod.ts";

/** How the other files define their routes: `const routes = routesOf("Agents")`, then `routes.get("/api/v1/agents", { … })`. */

/** The sections of the reference, in their order. */
export const SECTIONS = {
  "Chat completions": "OpenAI's chat completions. `usage.cost_tokens` is the billed amount.",
  "Model calls in other shapes": "OpenAI's Responses and Anthropic's Messages: the same calls and the same charges.",
  Embeddings: "OpenAI's embeddings.",
  Models: "The models on offer, with their rates.",
  Agents: "Agents, their versions and their conversations.",
  Schedules: "When an agent runs by itself.",
  Triggers: "Addresses whose webhooks start an agent's runs.",
  Runs: "What agents did: steps, output, cost.",
  Threads: "Stored conversations with an agent.",
  "Agents as MCP tools": "The caller's agents as tools of an MCP client.",
  Secrets: "Credentials for the tools of agents. A value is never shown again.",
  Notices: "Webhook endpoints, and the notices that they get.",
  "Usage and billing": "Balance, ledger, usage, purchases, subscription and overage.",
  "API keys": "Keys with scopes, budgets and limits.",
  Safety: "What the safety layer makes of a text.",
  "Sign-in": "Accounts and sessions of people, for the console.",
  Operator: "For the operator's keys, and in the console for accounts with an operator role.",
} as const;

type Section = keyof typeof SECTIONS;
type Failure = Parameters<typeof failures>[number];

/** A route without its method and path. */
interface Definition {
  operationId?: string;
  summary?: string;
  description?: string;
  /** The reference leaves it out. */
  hide?: true;
  /** The scope that an API key needs; `any`: a key with any scopes. Absent: no API key. */
  scope?: Scope | "any";
  /** Other credentials than an API key. */
  security?: Record<string, string[]>[];
  /** Absent: every `{name}` in the path is any text, and 404 where nothing has it. */
  params?: z.ZodObject;
  query?: z.ZodObject;
  headers?: z.ZodObject;
  /** The required JSON body. */
  body?: z.ZodType;
  /** The JSON body that may be left out. */
  optional_body?: z.ZodType;
  /** The answers by status. An error here replaces the usual one. */
  answers: RouteDefinition["responses"];
  /** The errors beside the usual ones: 400, 401 and 429, 403 for a named scope, 404 for a name in the path. */
  fails?: Failure[];
}

type NamesIn<Path> = Path extends `${string}{${infer Name}}${infer Rest}` ? Name | NamesIn<Rest> : never;
type JsonBody<Schema> = { body: { required: boolean; content: { "application/json": { schema: Schema } } } };
type RequestOf<Path, Given> = Pick<Given, keyof Given & ("params" | "query" | "headers")> &
  (Given extends { params: unknown } ? unknown : { params: z.ZodObject<Record<NamesIn<Path>, z.ZodString>> }) &
  (Given extends { body: infer Schema } | { optional_body: infer Schema } ? JsonBody<Schema> : unknown);

type Define<Method> = <const Path extends string, const Given extends Definition>(
  path: Path,
  definition: Given,
) => { method: Method; path: Path; request: RequestOf<Path, Given>; responses: Given["answers"] };

/** Defines routes in a section of the reference. */
export function routesOf(section: Section) {
  return definers(section, { by_operator: false });
}

/** Defines routes for an operator key. All of them answer 404 where the service has no such key. */
export function operatorRoutes() {
  return definers("Operator", { by_operator: true });
}

function definers(section: Section, access: { by_operator: boolean }) {
  const define = <const Method extends RouteDefinition["method"]>(method: Method) =>
    ((path: string, given: Definition) =>
      getRoute({ method, path, section, ...access }, given)) as unknown as Define<Method>;
  return {
    get: define("get"),
    post: define("post"),
    put: define("put"),
    patch: define("patch"),
    delete: define("delete"),
  };
}

interface Place {
  method: RouteDefinition["method"];
  path: string;
  section: Section;
  by_operator: boolean;
}

function getRoute({ method, path, section, by_operator }: Place, definition: Definition): RouteDefinition {
  const { operationId, summary, description, hide, scope, query, headers, answers, fails = [] } = definition;
  const names = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => [name, z.string()] as const);
  const params = definition.params ?? (names.length > 0 ? z.object(Object.fromEntries(names)) : undefined);
  const schema = definition.body ?? definition.optional_body;
  const body = schema && { required: "body" in definition, content: { "application/json": { schema } } };
  const security = by_operator ? [{ operator_key: [] }] : scope ? [{ api_key: [] }] : definition.security;
  const required_scope = scope === "any" ? undefined : scope;
  const usual: Failure[] = required_scope === undefined ? [] : [403];
  if (by_operator || (names.length > 0 && definition.params === undefined)) usual.push(404);
  return {
    method,
    path,
    operationId,
    tags: [section],
    summary,
    description,
    hide,
    security,
    "x-required-scope": required_scope,
    request: { params, query, headers, body },
    responses: { ...failures(...usual, ...fails), ...answers },
  } as RouteDefinition;
}

/** A page of a list: `pageSchema({ agents: agentSchema })`. */
export function pageSchema<Name extends string, Entry extends z.ZodType>(list: Record<Name, Entry>) {
  const [[name, entry]] = Object.entries(list) as [[Name, Entry]];
  const lists = { [name]: z.array(entry) } as Record<Name, z.ZodArray<Entry>>;
  return z.object({ ...lists, next_cursor: nextCursorSchema });
}
