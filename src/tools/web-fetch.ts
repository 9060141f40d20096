import {
  MAX_CALLS,
  type WebFetchArguments,
  type WebFetchSettings,
  webFetchArgumentsSchema,
} from "../contract/tools.ts";
import type { Outbound, OutboundResponse } from "../platform/outbound.ts";
import { OutboundError } from "../platform/outbound-errors.ts";
import type { Sanitizer } from "../safety/sanitizer.ts";
import { isListedHost, isUrlKnown } from "./destinations.ts";
import { decodeText, kindOf, mediaType } from "./fetched-text.ts";
import { failedCall, type ToolCall, type ToolDefinition, type ToolResult } from "./tools.types.ts";

/** contract 7. */
const LIMITS = { max_bytes: 5_000_000, timeout_ms: 20_000, max_redirects: 5 } as const;
/** What of one page goes to the model: more would fill its context and its owner's bill. */
const MAX_TEXT_CHARS = 100_000;

const PLAIN_METHODS: readonly string[] = ["GET", "HEAD"];

/** What the model is told of web_fetch with these settings. */
export function webFetchDefinition(settings: WebFetchSettings): ToolDefinition {
  const methods = methodsOf(settings);
  const where = settings.hosts === undefined ? "any public host" : `these hosts only: ${settings.hosts.join(", ")}`;
  const withBody = methods.some((method) => !PLAIN_METHODS.includes(method));
  return {
    type: "function",
    function: {
      name: "web_fetch",
      description: `Fetches a web page or document (HTML, text, Markdown, JSON) and returns its text. Reaches ${where}.`,
      parameters: {
        type: "object",
        properties: {
          url: { type: "string", description: "the address, http or https" },
          ...(methods.length === 1 && methods[0] === "GET" ? {} : { method: { type: "string", enum: methods } }),
          ...(withBody ? { body: { type: "string", description: "the request's body" } } : {}),
        },
        required: ["url"],
        additionalProperties: false,
      },
    },
  };
}

/** One fetch, guarded on the way out and sanitized on the way in. Never throws for what a model or a page can cause. */
export async function webFetch(
  call: ToolCall,
  settings: WebFetchSettings,
  deps: { outbound: Outbound; sanitizer: Sanitizer },
): Promise<ToolResult> {
  const parsed = parseArguments(call.arguments_json);
  if (typeof parsed === "string") return failedCall("invalid_arguments", parsed);
  const refusal = refusalOf(parsed, call, settings);
  if (refusal !== null) return refusal;
  try {
    const response = await deps.outbound.request({
      url: parsed.url,
      method: parsed.method ?? "GET",
      headers: parsed.body === undefined ? {} : { "content-type": contentTypeOf(parsed.body) },
      body: parsed.body,
      permits: (url) => settings.hosts === undefined || isListedHost(url, settings.hosts),
      signal: call.signal,
      ...LIMITS,
    });
    return await resultOf(response, call, settings, deps.sanitizer);
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    if (call.signal.aborted) call.signal.throwIfAborted();
    // A redirect's host is the server's text: only the one that the model named is repeated to it.
    const at = error.host === null || error.host !== URL.parse(parsed.url)?.host ? "" : ` (${error.host})`;
    return failedCall(error.code === "egress_refused" ? "egress_refused" : "fetch_failed", `${error.message}${at}`);
  }
}

/** The arguments, or a sentence for the model about what is wrong with them. */
function parseArguments(text: string): WebFetchArguments | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return 'the arguments are not valid JSON; give an object such as {"url": "https://…"}';
  }
  const parsed = webFetchArgumentsSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  return `the arguments are not valid: ${[...(issue?.path ?? []), issue?.message ?? ""].join(" ")}`;
}

/** What the owner's settings and the run's taint forbid, before anything is sent. */
function refusalOf({ url, method = "GET", body }: WebFetchArguments, call: ToolCall, settings: WebFetchSettings) {
  const max_calls = settings.max_calls ?? MAX_CALLS.web_fetch;
  if (call.earlier_calls >= max_calls) {
    return failedCall("max_calls_reached", `web_fetch may be called ${max_calls} times in a run; go on without it`);
  }
  if (!methodsOf(settings).includes(method)) {
    return failedCall(
      "invalid_arguments",
      `the method ${method} is not permitted; use ${methodsOf(settings).join(", ")}`,
    );
  }
  if (body !== undefined && PLAIN_METHODS.includes(method)) {
    return failedCall("invalid_arguments", `a ${method} request has no body`);
  }
  const target = URL.parse(url);
  if (target === null) return failedCall("invalid_arguments", "url is not an absolute http or https address");
  const hosts = settings.hosts ?? [];
  const isEffect = !PLAIN_METHODS.includes(method);
  if (!isUrlKnown(target, call.taint, hosts) || (call.taint.tainted && isEffect && !isListedHost(target, hosts))) {
    return failedCall(
      "egress_refused",
      "after outside content was read, only addresses that the owner wrote, that a fetched page links to, or at hosts the owner listed are fetched",
    );
  }
  return null;
}

function methodsOf(settings: WebFetchSettings): readonly string[] {
  return settings.methods ?? ["GET"];
}

function contentTypeOf(body: string): string {
  return /^\s*[[{]/.test(body) ? "application/json" : "text/plain; charset=utf-8";
}

async function resultOf(
  response: OutboundResponse,
  call: ToolCall,
  settings: WebFetchSettings,
  sanitizer: Sanitizer,
): Promise<ToolResult> {
  const { status, content_type, body, final_url } = response;
  const kind = kindOf(content_type, new URL(final_url).pathname);
  if (kind === null) {
    return failedCall(
      "unsupported_content",
      `${nameOfType(content_type)}; only HTML, text, Markdown and JSON can be read`,
    );
  }
  const sanitized = await sanitizer.sanitize({
    content: decodeText(body, content_type),
    kind,
    level: settings.safety === "strict" ? "strict" : "balanced",
    mark: call.mark,
    base_url: final_url,
    max_chars: MAX_TEXT_CHARS,
  });
  if (sanitized === null) {
    return failedCall("unsupported_content", "the page is too intricate to be made safe; go on without it");
  }
  const { text, verdict, removed, links } = sanitized;
  const outcome = { result: `HTTP ${status}\n${text}`, safety: { verdict, removed }, links };
  if (status < 400) return { status: "succeeded", ...outcome };
  return { status: "failed", error: { code: "http_error", message: `the server answered ${status}` }, ...outcome };
}

/** The type is the server's text: only names that we know are repeated to the model. */
function nameOfType(content_type: string): string {
  const [known] = /^(application\/pdf|image|audio|video|font)(?=\/|$)/.exec(mediaType(content_type)) ?? [];
  return `the answer is ${known ?? "of an unknown type"}`;
}
