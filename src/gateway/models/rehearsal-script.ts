import type { ChatMessage, ChatRequest, ToolCall } from "../../api/contract/completions.ts";
import { isJsonObject } from "../../platform/lib/json.ts";
import { calledFunction, toolName } from "./tool-calls.ts";

/**
 * The answers of the rehearsal model: fixed rules over the last turn, always the same for the same request. They cover
 * tools, streaming and JSON mode.
 */
export interface RehearsalAnswer {
  text: string;
  tool_calls: ToolCall[];
}

const URL_IN_TEXT = /https?:\/\/[^\s<>"'`]+/g;
/** Punctuation that ends a sentence, not an address. */
const AFTER_URL = /[.,;:!?)\]}]{1,8}$/;
const SAY = /\b(?:say|repeat|reply with|answer with|respond with)\b(?: (?:exactly|only|just|after me))*:?\s+(.+)$/is;
const COUNT = /\bcount (?:from 1 )?(?:up )?to (\d{1,5})\b/i;
const CALL = /\bcall (?:the tool )?`?([A-Za-z0-9_-]{1,64})`? with (?=\{)/i;
const SENDING = /\b(?:send|post|notify|deliver|webhook)\b/i;
const FETCH_TOOL = "web_fetch";
const SEND_TOOL = "send_webhook";
/** Rules read only this much of the task, so that patterns do not scan megabytes. */
const MAX_TASK = 20_000;
const MAX_JSON_ATTEMPTS = 32;
const MAX_COUNT = 10_000;
const MAX_QUOTE = 400;
/** The texts of a JSON answer together. A schema may ask for thousands of them. */
const MAX_SAMPLED = 100_000;
/** Values in a sample: references can double with each level. */
const MAX_VALUES = 50_000;
const MAX_ITEMS = 100;
/** What web_fetch says about a secret before the page. */
const TOOL_NOTE = /^The secret .+ was not sent: /;
/** Lines that the safety layer adds around fetched text; not part of the text. Linear in any line. */
const FENCE_LINE = /^\s*(?:[-=<>[\]#*_]{3}|<[^>]*>\s*$|\[[^\]]*\]\s*$)/;

/** Returns the next message of the conversation. Pure. */
export function rehearse(request: ChatRequest): RehearsalAnswer {
  const task = lastUserText(request.messages);
  const tools = new Set(request.tool_choice === "none" ? [] : (request.tools ?? []).map(toolName));
  const turn = currentTurn(request.messages);
  const calls = nextCalls(task, turn, tools);
  if (calls.length > 0) return { text: "", tool_calls: numbered(calls, request.messages) };
  const text = finalText(task, turn);
  return { text: request.response_format === undefined ? text : formatted(text, request), tool_calls: [] };
}

interface Call {
  name: string;
  arguments: string;
}

interface Turn {
  calls: Call[];
  results: string[];
}

function nextCalls(task: string, turn: Turn, tools: ReadonlySet<string>): Call[] {
  const wanted = [...explicitCalls(task, tools), ...fetchCalls(task, tools)];
  const missing = wanted.filter((call) => !made(turn, call));
  if (missing.length > 0) return missing;
  return sendCalls(task, turn, tools).filter((call) => !made(turn, call));
}

function made(turn: Turn, call: Call): boolean {
  // Sends one message per task, because a second call with a newer summary would send a second message.
  if (call.name === SEND_TOOL) return turn.calls.some(({ name }) => name === SEND_TOOL);
  return turn.calls.some((each) => each.name === call.name && each.arguments === call.arguments);
}

function explicitCalls(task: string, tools: ReadonlySet<string>): Call[] {
  const found = calledIn(task);
  const input = found === null ? null : jsonPrefix(found.text);
  return found !== null && input !== null && tools.has(found.name) ? [{ name: found.name, arguments: input }] : [];
}

/** The tool that the task says to call, and the text that begins with its arguments. */
function calledIn(task: string): { name: string; text: string } | null {
  const found = CALL.exec(task);
  const text = found === null ? "" : task.slice(found.index + found[0].length);
  return found === null || !text.includes("}") ? null : { name: found[1] ?? "", text };
}

function fetchCalls(task: string, tools: ReadonlySet<string>): Call[] {
  if (!tools.has(FETCH_TOOL) || calledIn(task) !== null) return [];
  const targets = sendTargets(task, tools);
  return extractUrls(task)
    .filter((url) => !targets.includes(url))
    .map((url) => ({ name: FETCH_TOOL, arguments: JSON.stringify({ url }) }));
}

function sendCalls(task: string, turn: Turn, tools: ReadonlySet<string>): Call[] {
  return sendTargets(task, tools).map((url) => ({
    name: SEND_TOOL,
    arguments: JSON.stringify({ url, payload: { text: turn.results.length > 0 ? summary(turn) : task } }),
  }));
}

/** The addresses after a verb of sending: "fetch A and send a summary to B" sends to B. */
function sendTargets(task: string, tools: ReadonlySet<string>): string[] {
  const sending = SENDING.exec(task);
  if (!tools.has(SEND_TOOL) || sending === null || calledIn(task) !== null) return [];
  const [target] = extractUrls(task.slice(sending.index));
  return target === undefined ? [] : [target];
}

function extractUrls(text: string): string[] {
  const urls = (text.match(URL_IN_TEXT) ?? []).map((url) => url.replace(AFTER_URL, ""));
  return [...new Set(urls)];
}

function finalText(task: string, turn: Turn): string {
  if (turn.results.length > 0) return summary(turn);
  const [, counted] = COUNT.exec(task) ?? [];
  if (counted !== undefined) {
    return Array.from({ length: Math.min(Number(counted), MAX_COUNT) }, (_, index) => index + 1).join(" ");
  }
  const [, said] = SAY.exec(task) ?? [];
  if (said !== undefined) return unquoted(said.trim());
  return `This is the rehearsal model: it follows simple rules and understands nothing. You wrote: ${clipped(task)}`;
}

function summary({ results }: Turn): string {
  const lines = results.map((result, index) => `${index + 1}. ${firstSentence(result)}`);
  return `The rehearsal model read ${results.length} tool ${results.length === 1 ? "result" : "results"}:\n${lines.join("\n")}`;
}

function firstSentence(result: string): string {
  const lines = result
    .split("\n")
    .filter((line) => line.trim() !== "" && !FENCE_LINE.test(line) && !TOOL_NOTE.test(line));
  const text = lines.join(" ").trim();
  return clipped(/^.*?[.!?](?=\s|$)/s.exec(text)?.[0] ?? text);
}

function formatted(text: string, { response_format }: ChatRequest): string {
  if (response_format === undefined || response_format.type === "text") return text;
  const schema = response_format.type === "json_schema" ? response_format.json_schema.schema : undefined;
  if (schema == null) return JSON.stringify({ answer: text });
  const sampling = { root: schema, text, left: MAX_SAMPLED, values_left: MAX_VALUES };
  return JSON.stringify(generateSample(schema, sampling));
}

/** The text for each string of a sample, the characters that are left for them, and the values that are left. */
interface Sampling {
  root: Record<string, unknown>;
  text: string;
  left: number;
  values_left: number;
}

/** The smallest value that fits a schema, with the text for each string while characters are left. Patterns are not read. */
function generateSample(schema: Record<string, unknown>, sampling: Sampling, depth = 0): unknown {
  if (Array.isArray(schema.enum)) return schema.enum[0];
  if ("const" in schema) return schema.const;
  sampling.values_left -= 1;
  if (depth >= 16 || sampling.values_left < 0) return null;
  const sample = (part: Record<string, unknown>) => generateSample(part, sampling, depth + 1);
  if (typeof schema.$ref === "string") return sample(referred(sampling.root, schema.$ref));
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === "string") {
    const text = sampling.text.slice(0, sampling.left);
    sampling.left -= text.length;
    return text;
  }
  if (type === "integer" || type === "number") return sampleNumber(schema);
  if (type === "boolean") return false;
  if (type === "null") return null;
  if (type === "array") {
    const { minItems, items } = schema;
    const length = typeof minItems === "number" ? Math.min(minItems, MAX_ITEMS) : 0;
    return Array.from({ length }, () => sample(isJsonObject(items) ? items : {}));
  }
  const { properties } = schema;
  const branch = [schema.anyOf, schema.oneOf, schema.allOf].find(Array.isArray)?.[0];
  if (properties === undefined && isJsonObject(branch)) return sample(branch);
  return Object.fromEntries(
    Object.entries((properties ?? {}) as Record<string, Record<string, unknown>>).map(([key, each]) => [
      key,
      sample(each),
    ]),
  );
}

function sampleNumber({ minimum, exclusiveMinimum, maximum }: Record<string, unknown>): number {
  const least = typeof minimum === "number" ? minimum : typeof exclusiveMinimum === "number" ? exclusiveMinimum + 1 : 0;
  return typeof maximum === "number" ? Math.min(least, maximum) : least;
}

/** The part that a reference such as #/$defs/address names; without one, a schema of anything. */
function referred(root: Record<string, unknown>, reference: string): Record<string, unknown> {
  let at: unknown = root;
  for (const key of reference.split("/").slice(1)) {
    const name = key.replaceAll("~1", "/").replaceAll("~0", "~");
    at = Object.hasOwn(Object(at), name) ? (at as Record<string, unknown>)[name] : undefined;
  }
  return isJsonObject(at) ? at : {};
}

function lastUserText(messages: readonly ChatMessage[]): string {
  return extractText(messages.findLast((message) => message.role === "user")).slice(0, MAX_TASK);
}

/** The calls and results since the user's last message. */
function currentTurn(messages: readonly ChatMessage[]): Turn {
  const since = messages.slice(messages.findLastIndex((message) => message.role === "user") + 1);
  return {
    calls: since.flatMap((message) => message.tool_calls ?? []).map(calledFunction),
    results: since.filter((message) => message.role === "tool").map(extractText),
  };
}

function numbered(calls: Call[], messages: readonly ChatMessage[]): ToolCall[] {
  const before = messages.reduce((sum, message) => sum + (message.tool_calls?.length ?? 0), 0);
  return calls.map((call, index) => ({ id: `call_${before + index + 1}`, type: "function", function: call }));
}

/** The JSON object at the start of `text`; more text may follow. */
function jsonPrefix(text: string): string | null {
  let end = text.lastIndexOf("}");
  for (let attempt = 0; end > 0 && attempt < MAX_JSON_ATTEMPTS; attempt += 1) {
    try {
      return JSON.stringify(JSON.parse(text.slice(0, end + 1)));
    } catch {
      // An earlier brace may close it.
      end = text.lastIndexOf("}", end - 1);
    }
  }
  return null;
}

function unquoted(text: string): string {
  return /^(["'`]).*\1[.!]?$/s.test(text) ? text.replace(/[.!]$/, "").slice(1, -1) : text;
}

function clipped(text: string): string {
  return text.length > MAX_QUOTE ? `${text.slice(0, MAX_QUOTE)}…` : text;
}

function extractText(message: ChatMessage | undefined): string {
  if (message === undefined) return "";
  if (typeof message.content === "string") return message.content;
  return (message.content ?? []).map((part) => part.text ?? "").join(" ");
}
