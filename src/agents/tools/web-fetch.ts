import { isListedHost } from "../../api/contract/hosts.ts";
import { type WebFetchArguments, webFetch } from "../../api/contract/tool-web-fetch.ts";
import type { WebFetchSettings } from "../../api/contract/tools.ts";
import type { OutboundResponse } from "../../platform/net/outbound.ts";
import { OutboundError } from "../../platform/net/outbound-errors.ts";
import { explainUnsent, leakIn, type OpenedCredential, openCredentials, reflected } from "./credentials.ts";
import { asksFirst, hasOutsideContent, isUrlKnown } from "./destinations.ts";
import { outsideWords } from "./outside-words.ts";
import { getLevel, SAFETY_BUSY, type SafeAnswer, safeAnswer, textsOf, WITHHELD } from "./safe-answer.ts";
import type { Tool, ToolDeps } from "./tool.ts";
import { failedCall, type ToolCall, type ToolDefinition, type ToolResult } from "./tools.types.ts";

/** Limits of one fetch (contract 7). */
const LIMITS = { max_bytes: 5_000_000, timeout_ms: 20_000, max_redirects: 5 } as const;

const PLAIN_METHODS: readonly string[] = ["GET", "HEAD"];

/** Fetches pages and documents for the model. */
export const webFetchTool: Tool<WebFetchSettings, WebFetchArguments> = {
  contract: webFetch,
  effect({ arguments: given }) {
    const method = (given as { method?: unknown } | null)?.method ?? "GET";
    return typeof method === "string" && PLAIN_METHODS.includes(method) ? "none" : "unknown";
  },
  needsApproval: (_name, { permission_policy = "always_allow" }, taint) =>
    asksFirst(permission_policy, hasOutsideContent(taint)),
  findFault: explainRefusal,
  describeDestination: ({ url }) => new URL(url).host,
  findSource: (given) => URL.parse(String((given as { url?: unknown } | null)?.url))?.href ?? null,
  create: (deps) => ({
    define: async (settings) => [definition(settings)],
    call: (given, call, settings) => fetchPage(given, { call, settings, deps }),
  }),
};

function definition(settings: WebFetchSettings): ToolDefinition {
  const methods = getMethods(settings);
  const where = settings.hosts === undefined ? "any public host" : `these hosts only: ${settings.hosts.join(", ")}`;
  const withBody = methods.some((method) => !PLAIN_METHODS.includes(method));
  return {
    type: "function",
    function: {
      name: webFetch.name,
      description: `Fetches a web page or document (HTML, text, Markdown, JSON, XML, feeds, PDF) and returns its text. Reaches ${where}.${signedIn(settings)}`,
      parameters: {
        type: "object",
        properties: {
          url: { type: "string", description: "the address, http or https" },
          ...(methods.length === 1 && methods[0] === "GET" ? {} : { method: { type: "string", enum: methods } }),
          ...(withBody ? { body: { type: "string", description: "the request's body" } } : {}),
          links_from: {
            type: "integer",
            description: "lists the page's links from this one on instead of its text; leave it out to read the page",
          },
        },
        required: ["url"],
        additionalProperties: false,
      },
    },
  };
}

/** Tells the model the names of the credentials and their hosts, so that it need not ask for them. */
function signedIn({ auth = [] }: WebFetchSettings): string {
  if (auth.length === 0) return "";
  const where = auth.map(({ secret, hosts }) => `${secret} at ${hosts.join(", ")}`);
  return ` Signs in by itself with ${where.join("; ")}.`;
}

/** One fetch: outbound checks the request, and the safety layer sanitizes the answer. */
async function fetchPage(
  parsed: WebFetchArguments,
  { call, settings, deps }: { call: ToolCall; settings: WebFetchSettings; deps: ToolDeps },
): Promise<ToolResult> {
  const { url } = parsed;
  const body = getBody(parsed);
  const method = parsed.method ?? "GET";
  const intended = { url: new URL(url), method, tool: webFetch.name, run: call.run, signal: call.signal };
  const credentials = await openCredentials(settings.auth ?? [], intended, deps);
  if (!Array.isArray(credentials)) return credentials;
  try {
    const response = await deps.outbound.request({
      url,
      method,
      headers: body === undefined ? {} : { "content-type": getContentType(body) },
      body,
      permits: (url) => settings.hosts === undefined || isListedHost(url, settings.hosts),
      credentials,
      signal: call.signal,
      ...LIMITS,
    });
    const unsent = explainUnsent(settings.auth ?? [], intended.url, method);
    return await toResult(response, call, { asked: parsed, settings, credentials, deps, unsent });
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    if (call.signal.aborted) call.signal.throwIfAborted();
    if (error.code === "secret_reflected") return await reflected(error.secrets, { credentials, run: call.run }, deps);
    // The server writes a redirect's host, so the message repeats only the host that the model named.
    const at = error.host === null || error.host !== URL.parse(parsed.url)?.host ? "" : ` (${error.host})`;
    return failedCall(error.code === "egress_refused" ? "egress_refused" : "fetch_failed", `${error.message}${at}`);
  }
}

/** The failed step of a request that the owner's settings or the run's taint forbid; null if it may be sent. */
function explainRefusal(
  given: WebFetchArguments,
  call: Pick<ToolCall, "taint">,
  settings: WebFetchSettings,
): ToolResult | null {
  const { url } = given;
  const method = given.method ?? "GET";
  if (!getMethods(settings).includes(method)) {
    return failedCall(
      "invalid_arguments",
      `the method ${method} is not permitted; use ${getMethods(settings).join(", ")}`,
    );
  }
  if (getBody(given) !== undefined && PLAIN_METHODS.includes(method)) {
    return failedCall("invalid_arguments", `a ${method} request has no body`);
  }
  const target = URL.parse(url);
  if (target === null) return failedCall("invalid_arguments", "url is not an absolute http or https address");
  const { hosts = [] } = settings;
  if (settings.hosts !== undefined && !isListedHost(target, hosts)) {
    return failedCall("egress_refused", `the host is not one that may be reached (${target.host})`);
  }
  // With outside content in the run, a person decides about the address.
  if ((settings.permission_policy ?? "always_allow") !== "always_allow") return null;
  const isEffect = !PLAIN_METHODS.includes(method);
  // Descriptions alone do not close the hosts that the owner trusts with a secret.
  const trusted = call.taint.tainted ? [] : (settings.auth ?? []).flatMap((binding) => binding.hosts);
  const listed = [...hosts, ...trusted];
  const is_effect_elsewhere = hasOutsideContent(call.taint) && isEffect && !isListedHost(target, listed);
  if (is_effect_elsewhere || !isUrlKnown(target, call.taint, listed)) {
    return failedCall(
      "egress_refused",
      "with outside content in the run, such as a fetched page or the descriptions of an MCP server's tools, only addresses that the owner wrote, that a fetched page links to, or at hosts the owner listed are fetched",
    );
  }
  return null;
}

function getMethods(settings: WebFetchSettings): readonly string[] {
  return settings.methods ?? ["GET"];
}

/** Models write null or an empty text for a body that they leave out. */
function getBody({ body }: WebFetchArguments): string | undefined {
  return body == null || body === "" ? undefined : body;
}

function getContentType(body: string): string {
  return /^\s*[[{]/.test(body) ? "application/json" : "text/plain; charset=utf-8";
}

async function toResult(
  response: OutboundResponse,
  call: ToolCall,
  using: {
    asked: WebFetchArguments;
    settings: WebFetchSettings;
    credentials: readonly OpenedCredential[];
    deps: ToolDeps;
    unsent: readonly string[];
  },
): Promise<ToolResult> {
  const { status, withheld } = response;
  const { asked, settings, credentials, deps, unsent } = using;
  const answer = withheld
    ? { text: WITHHELD, safety: null, links: [], unlisted: undefined }
    : await safeAnswer(response, {
        sanitizer: deps.sanitizer.of(call.run.user_id, call),
        level: getLevel(settings, deps),
        mark: call.mark,
        // Some models write 0 for an argument that they leave out.
        links_from: asked.links_from || undefined,
      });
  if (typeof answer === "string") {
    const words = status < 400 ? undefined : outsideWords(status, null, call.mark);
    return failedCall(answer === SAFETY_BUSY ? "fetch_failed" : "unsupported_content", answer, words);
  }
  const leak = await leakIn(textsOf(answer), { credentials, run: call.run }, deps);
  if (leak !== null) return leak;
  const { text, safety, unlisted } = answer;
  // The model may fetch this page again for the rest of its links.
  const links = unlisted === undefined ? answer.links : [...answer.links, asked.url];
  const outcome = { result: [`HTTP ${status}`, ...unsent, text + linksNotice(unlisted)].join("\n"), safety, links };
  if (status < 400) return { status: "succeeded", ...outcome };
  const words = outsideWords(status, withheld ? null : text, call.mark);
  const error = {
    code: "http_error" as const,
    message: [`the server answered ${status}`, ...unsent].join(". "),
    outside: words,
  };
  return { status: "failed", error, ...outcome };
}

function linksNotice(unlisted: SafeAnswer["unlisted"]): string {
  if (unlisted === undefined) return "";
  const { count, from } = unlisted;
  const more = count === 1 ? "1 link of it is not listed here" : `${count} links of it are not listed here`;
  return `\n[${more}: ${webFetch.name} with "links_from": ${from} lists them]`;
}
