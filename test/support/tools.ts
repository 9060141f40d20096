import type { CredentialsDeps } from "../../src/agents/tools/credentials.ts";
import { createTools } from "../../src/agents/tools/tools.service.ts";
import type { ToolCall } from "../../src/agents/tools/tools.types.ts";
import { createSystemClock } from "../../src/platform/lib/clock.ts";
import { SecretValue } from "../../src/platform/lib/secret-value.ts";
import { createOutbound } from "../../src/platform/net/outbound.ts";
import type { Resolve } from "../../src/platform/net/resolver.ts";
import type { SecretScanner } from "../../src/platform/net/secret-scanner.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { newMark } from "../../src/safety/fence.ts";
import { createSanitizer, type Sanitizers } from "../../src/safety/sanitizer.ts";

/** The control of a run that is not stopped. */
export const UNSTOPPED = new AbortController().signal;

/** Secrets by name. A secret that a server sent back is disabled, as in the vault. */
export function heldSecrets(values: Record<string, string>) {
  const reflected = new Set<string>();
  const opened: string[] = [];
  const vault: CredentialsDeps["vault"] = {
    async open(_user_id, name, { url }) {
      const value = values[name];
      if (value === undefined) return { status: "not_found" };
      if (reflected.has(name)) return { status: "reflected" };
      opened.push(`${name} ${url.host}`);
      const secret = { id: name, name, version: 1, value: new SecretValue(value) };
      return { status: "opened", secret };
    },
    async setReflected({ id }) {
      reflected.add(id);
    },
  };
  return { vault, reflected, opened };
}

/** The tools as the service makes them, apart from their database. */
export function toolsWith(deps: {
  allow: readonly string[];
  resolve?: Resolve;
  scanner?: SecretScanner;
  secrets?: Record<string, string>;
  /** Replaces the vault that holds `secrets`. */
  vault?: CredentialsDeps["vault"];
  signing_key?: string;
  safety_off?: "refused" | "allowed";
  sanitizer?: Sanitizers;
  /** Methods that replace the silent log's. */
  log?: object;
  onFailure?(tool: string, code: string): void;
}) {
  const { allow, resolve, scanner, secrets = {}, signing_key, safety_off = "refused" } = deps;
  const held = heldSecrets(secrets);
  const key = signing_key === undefined ? null : { key: signing_key, created_at: "" };
  const outbound = createOutbound({
    allow,
    ...(resolve === undefined ? {} : { resolve }),
    ...(scanner === undefined ? {} : { scanner }),
  });
  const tools = createTools({
    clock: createSystemClock(),
    outbound,
    sanitizer: deps.sanitizer ?? sanitizer,
    webhook_keys: { keyOf: async () => key },
    vault: deps.vault ?? held.vault,
    log: Object.assign(createLog("silent"), deps.log),
    safety_off,
    is_drill: false,
    ...(deps.onFailure === undefined ? {} : { onFailure: deps.onFailure }),
  });
  return { tools, ...held };
}
const sanitizer = createSanitizer();

/** A call in a run that has read no outside content. */
export function aCall(name: string, args: unknown, more: Partial<ToolCall> = {}): ToolCall {
  return {
    name,
    arguments_json: typeof args === "string" ? args : JSON.stringify(args),
    tools_config: {},
    taint: { tainted: false, owner_text: "", links: new Set() },
    mark: newMark(),
    earlier_calls: 0,
    is_approved: false,
    run: { user_id: "u", agent_id: "a", run_id: "r" },
    effect_id: "msg_1",
    askModel: async () => "",
    signal: UNSTOPPED,
    until_ms: Infinity,
    ...more,
  };
}
