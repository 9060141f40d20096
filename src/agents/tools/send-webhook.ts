import { setTimeout as delay } from "node:timers/promises";
import { type SendWebhookArguments, sendWebhook } from "../../api/contract/tool-send-webhook.ts";
import type { SendWebhookSettings } from "../../api/contract/tools.ts";
import { monotonicMs, realNowMs } from "../../platform/lib/clock.ts";
import { backoff, retryAfterSeconds } from "../../platform/lib/retry.ts";
import type { SecretValue } from "../../platform/lib/secret-value.ts";
import type { Outbound, OutboundResponse } from "../../platform/net/outbound.ts";
import { OutboundError } from "../../platform/net/outbound-errors.ts";
import { webhookHeaders } from "../../platform/net/standard-webhooks.ts";
import { leakIn, type OpenedCredential, openSigningSecret, reflected } from "./credentials.ts";
import { asksFirst, hasOutsideContent } from "./destinations.ts";
import { outsideWords } from "./outside-words.ts";
import { getLevel, safeAnswer, textsOf, WITHHELD } from "./safe-answer.ts";
import type { Tool, ToolDeps } from "./tool.ts";
import { failedCall, type ToolCall, type ToolDefinition, type ToolResult } from "./tools.types.ts";

/** Limits of one try. Redirects are not followed, because webhooks go only to the owner's exact URL. */
const LIMITS = { max_bytes: 1_000_000, timeout_ms: 10_000, max_redirects: 0 } as const;
/** Pauses between tries, and the time within which the last try must begin. */
const BACKOFF_MS = backoff({ first: 500, max: 5_000, retries: 3 });
const DELIVERY_MS = 30_000;
/** The longest Retry-After that is waited for, and the time within which the last try after one must begin. */
const MAX_RETRY_AFTER_MS = 60_000;
const LONG_DELIVERY_MS = 120_000;
const MAX_BODY_BYTES = 1_000_000;

/** Sends webhooks for the model. A receiver recognizes a repetition by its webhook-id. */
export const sendWebhookTool: Tool<SendWebhookSettings, SendWebhookArguments> = {
  contract: sendWebhook,
  effect: () => "idempotent",
  needsApproval: (_name, { permission_policy = "always_allow" }, taint) =>
    asksFirst(permission_policy, hasOutsideContent(taint)),
  findFault: explainRefusal,
  describeDestination: ({ url }) => new URL(url).host,
  create: (deps) => ({
    define: async (settings) => [definition(settings)],
    call: (given, call, settings) => send(given, { call, settings, deps }),
  }),
};

function definition(settings: SendWebhookSettings): ToolDefinition {
  const { urls = [] } = settings;
  const problem = sendWebhook.problem(settings);
  return {
    type: "function",
    function: {
      name: sendWebhook.name,
      description: `Sends a payload as JSON, by POST, to one of the listed webhook URLs, and returns what it answers.${problem === null ? "" : ` Do not call it now: ${problem.message}`}`,
      parameters: {
        type: "object",
        properties: {
          // An empty enum is no valid schema.
          url: { type: "string", ...(problem === null ? { enum: urls } : {}) },
          payload: { description: "any JSON value: what is sent" },
        },
        required: ["url", "payload"],
        additionalProperties: false,
      },
    },
  };
}

/**
 * Sends one webhook, signed, with a few retries. All tries have the same webhook-id, `effect_id`: the receiver can tell
 * a second delivery, also after a crash, from a second message.
 */
async function send(
  parsed: SendWebhookArguments,
  { call, settings, deps }: { call: ToolCall; settings: SendWebhookSettings; deps: ToolDeps },
): Promise<ToolResult> {
  // `findFault` found it.
  const url = listedUrl(parsed.url, settings.urls ?? []) ?? parsed.url;
  if (deps.is_drill) {
    return failedCall(
      "webhook_failed",
      "this service is a rehearsal of a restore (PURSER_MODE=drill): nothing was sent",
    );
  }
  const body = JSON.stringify(parsed.payload);
  const signing = await signingKey(call, { url: new URL(url), secret: settings.secret }, deps);
  if ("status" in signing) return signing;
  const { key, credentials } = signing;
  const { effect_id: id, signal, until_ms } = call;
  const message = { url, body, key, credentials, id, signal, until_ms };
  return toResult(await deliver(deps.outbound, message), call, { settings, credentials, deps });
}

/** The failed step of a webhook that goes to no listed URL, or is too large. */
function explainRefusal(
  { url, payload }: SendWebhookArguments,
  _call: unknown,
  { urls = [] }: SendWebhookSettings,
): ToolResult | null {
  if (listedUrl(url, urls) === null) {
    const message = `webhooks go to exactly the URLs that the owner listed: ${urls.join(", ")}`;
    return { ...failedCall("egress_refused", message), is_models_mistake: true };
  }
  if (Buffer.byteLength(JSON.stringify(payload)) <= MAX_BODY_BYTES) return null;
  return failedCall("invalid_arguments", `the payload is larger than ${MAX_BODY_BYTES} bytes; send less`);
}

/** The signing key of a webhook, and the secrets that must not come back in the answer. */
interface Signing {
  key: string | SecretValue;
  credentials: OpenedCredential[];
}

/** The secret that the owner named, otherwise the agent's own key. Returns a failed step when it cannot be used. */
async function signingKey(
  { run, signal }: ToolCall,
  { url, secret }: { url: URL; secret: string | undefined },
  deps: ToolDeps,
): Promise<Signing | ToolResult> {
  if (secret !== undefined) {
    const opened = await openSigningSecret(secret, { url, method: "POST", tool: sendWebhook.name, run, signal }, deps);
    return "status" in opened ? opened : { key: opened.value, credentials: [opened] };
  }
  const own = await deps.webhook_keys.keyOf(run);
  if (own !== null) return { key: own.key, credentials: [] };
  return failedCall(
    "signing_key_unreadable",
    "the agent's signing key is not there, or cannot be opened with this service's master key",
  );
}

/** The listed URL that matches, in the owner's spelling; null if none does. */
function listedUrl(wanted: string, urls: readonly string[]): string | null {
  const href = URL.parse(wanted)?.href;
  return urls.find((url) => url === wanted || (href !== undefined && URL.parse(url)?.href === href)) ?? null;
}

/** The result of the last try, and the number of tries. */
interface Delivery {
  answer: OutboundResponse | OutboundError;
  tries: number;
  /** The receiver's Retry-After in seconds, if it was too long to wait for. */
  asked_s?: number | undefined;
}

async function deliver(
  outbound: Outbound,
  message: { url: string; body: string; id: string; signal: AbortSignal; until_ms: number } & Signing,
): Promise<Delivery> {
  const { url, body, key, credentials, id, signal } = message;
  const began_ms = monotonicMs();
  const attempt = async () => {
    const signed = webhookHeaders([key], { id, timestamp_s: Math.floor(realNowMs() / 1000), body });
    try {
      const headers = { "content-type": "application/json", ...signed };
      return await outbound.request({ url, method: "POST", headers, body, credentials, signal, ...LIMITS });
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof OutboundError) return error;
      throw error;
    }
  };
  for (let tries = 1; ; tries++) {
    const answer = await attempt();
    const backoff_ms = BACKOFF_MS[tries - 1];
    if (backoff_ms === undefined || !isTemporary(answer)) return { answer, tries };
    const asked_s = readRetryAfter(answer);
    const pause_ms = Math.max(backoff_ms, (asked_s ?? 0) * 1000);
    const again_ms = monotonicMs() + pause_ms;
    const within_ms = asked_s === undefined ? DELIVERY_MS : LONG_DELIVERY_MS;
    const is_too_late = again_ms > began_ms + within_ms || again_ms >= message.until_ms;
    if (pause_ms > MAX_RETRY_AFTER_MS || is_too_late) return { answer, tries, asked_s };
    await delay(pause_ms, undefined, { signal });
  }
}

/** The receiver's Retry-After in seconds. */
function readRetryAfter(answer: Delivery["answer"]): number | undefined {
  return answer instanceof OutboundError ? undefined : retryAfterSeconds(answer.headers["retry-after"]);
}

/** Whether the failure is temporary, so that another try may succeed. */
function isTemporary(answer: Delivery["answer"]): boolean {
  const { status } = answer;
  if (status !== null) return status === 429 || status >= 500;
  return answer instanceof OutboundError && ["dns_failed", "connect_failed", "timeout"].includes(answer.code);
}

interface Using {
  settings: SendWebhookSettings;
  credentials: readonly OpenedCredential[];
  deps: ToolDeps;
}

async function toResult({ answer, tries, asked_s }: Delivery, call: ToolCall, using: Using): Promise<ToolResult> {
  const { credentials, deps } = using;
  const id = `webhook-id ${call.effect_id}`;
  const after = tries === 1 ? "" : ` after ${tries} tries`;
  if (answer instanceof OutboundError && answer.code === "egress_refused") {
    return failedCall("egress_refused", `${answer.message}; nothing was sent`);
  }
  if (answer instanceof OutboundError && answer.code === "secret_reflected") {
    return await reflected(answer.secrets, { credentials, run: call.run }, deps);
  }
  if (answer instanceof OutboundError && answer.status === null) {
    return failedCall("webhook_failed", `${answer.message}${after} (${id}); it may have been received`);
  }
  const read = answer instanceof OutboundError ? "" : await readBody(answer, call, using);
  const leak = typeof read === "string" ? null : await leakIn(textsOf(read), { credentials, run: call.run }, deps);
  if (leak !== null) return leak;
  const words = outsideWords(answer.status, typeof read === "string" ? null : read.text, call.mark);
  const { text, safety } = typeof read === "string" ? { text: read, safety: null } : read;
  const result = `HTTP ${answer.status}, ${id}${text === "" ? "" : `\n${text}`}`;
  const status = answer.status ?? 0;
  if (status >= 200 && status < 300) return { status: "succeeded", result, safety, links: [] };
  const asked = asked_s === undefined ? "" : `; retry after ${asked_s} s`;
  const message = `the receiver answered ${status}${after} (${id})${asked}`;
  return { status: "failed", result, error: { code: "http_error", message, outside: words }, safety, links: [] };
}

/** The body of the receiver's answer. */
async function readBody(answer: OutboundResponse, call: ToolCall, { settings, deps }: Using) {
  if (answer.withheld) return WITHHELD;
  if (answer.body.length === 0) return "";
  return await safeAnswer(answer, {
    sanitizer: deps.sanitizer.of(call.run.user_id, call),
    level: getLevel(settings, deps),
    mark: call.mark,
  });
}
