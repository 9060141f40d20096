import { createHash } from "node:crypto";
import type { ResponseRequest, ResponseTool } from "../../api/contract/responses.ts";
import { gatewayErrors } from "../../gateway/models/errors.ts";
import { isLocalToolType, type LocalToolType, localFunction, localToolType } from "./local-tools.ts";

/**
 * Tools of the Responses API as functions, which every provider has. A namespace becomes part of the function's name; a
 * custom tool becomes a function whose one argument is the tool's input. Pure.
 */

/** A tool that the caller offered, under the name that its function has for the provider. */
export interface Callee {
  type: "function" | "custom" | LocalToolType;
  name: string;
  namespace: string | null;
}

const MAX_NAME = 64;
const HASH_CHARACTERS = 8;

/** The function's name of a tool. Long names are cut and get a hash, so that two tools never share one. */
export function functionName(name: string, namespace: string | null | undefined): string {
  const full = (namespace == null || namespace === "" ? name : `${namespace}__${name}`).replace(/[^A-Za-z0-9_-]/g, "_");
  if (full.length <= MAX_NAME) return full;
  const hash = createHash("sha256").update(full).digest("hex").slice(0, HASH_CHARACTERS);
  return `${full.slice(0, MAX_NAME - HASH_CHARACTERS - 1)}_${hash}`;
}

export interface OfferedTools {
  /** In the shape of chat completions. */
  tools: object[];
  /** The caller's name of each of these. */
  origins: ReadonlyMap<object, string>;
  callees: ReadonlyMap<string, Callee>;
  /** Types of tools that were dropped, because OpenAI executes them itself. */
  dropped: string[];
}

/**
 * The request's tools as functions. Tools that OpenAI executes itself are dropped. Throws 400 for a tool with the name of
 * another one that OpenAI defines.
 */
export function offeredTools(tools: ResponseRequest["tools"]): OfferedTools {
  const callees = new Map<string, Callee>();
  const dropped: string[] = [];
  const origins = new Map<object, string>();
  for (const [at, tool] of (tools ?? []).entries()) {
    const { name, tools: inner } = tool as { name: string; tools: ResponseTool[] };
    if (tool.type !== "namespace") offer(one(tool, null), `tools[${at}]`);
    else for (const [nth, each] of inner.entries()) offer(one(each, name), `tools[${at}].tools[${nth}]`);
  }
  return { tools: [...origins.keys()], origins, callees, dropped };

  function offer(tool: object | null, origin: string): void {
    if (tool !== null) origins.set(tool, origin);
  }

  function add(called: string, callee: Callee): void {
    const taken = callees.get(called);
    if (taken !== undefined && [taken, callee].some(({ type }) => isLocalToolType(type))) {
      throw gatewayErrors.sameToolName(called, `OpenAI's type ${called}`);
    }
    callees.set(called, callee);
  }

  function one(tool: ResponseTool, namespace: string | null): object | null {
    const local = localToolType(tool);
    if (local !== null) {
      add(local, { type: local, name: local, namespace: null });
      return { type: "function", function: localFunction(local) };
    }
    if (tool.type !== "function" && tool.type !== "custom") {
      dropped.push(tool.type);
      return null;
    }
    const { name, description, parameters, strict, format } = tool as Record<string, unknown> & { name: string };
    const called = functionName(name, namespace);
    add(called, { type: tool.type, name, namespace });
    const described =
      tool.type === "custom"
        ? { description: customDescription(description, format), parameters: CUSTOM_PARAMETERS }
        : { description, parameters, strict };
    const given = Object.entries(described).filter(([, value]) => value != null);
    return { type: "function", function: { name: called, ...Object.fromEntries(given) } };
  }
}

const CUSTOM_PARAMETERS = {
  type: "object",
  properties: { input: { type: "string", description: "the whole input of the tool, as text" } },
  required: ["input"],
  additionalProperties: false,
};

function customDescription(description: unknown, format: unknown): string {
  const { type, syntax, definition } = (format ?? {}) as Record<string, unknown>;
  const grammar =
    type === "grammar" ? [`The input follows this ${String(syntax)} grammar:\n${String(definition)}`] : [];
  return [...(typeof description === "string" ? [description] : []), ...grammar].join("\n\n");
}

/** The arguments of the function that stands for a custom tool. */
export function customArguments(input: string): string {
  return JSON.stringify({ input });
}

/** The input in these arguments. A model that answers without JSON gave the input itself. */
export function customInput(arguments_text: string): string {
  try {
    const given = JSON.parse(arguments_text) as string | { input?: unknown } | null;
    // OpenAI's own custom tools answer with the text itself.
    if (typeof given === "string") return given;
    return typeof given?.input === "string" ? given.input : arguments_text;
  } catch {
    return arguments_text;
  }
}
