import type { ToolContract } from "../contract/tools/fields.ts";
import type { ToolName } from "../contract/tools.ts";
import type { Log } from "../platform/log.ts";
import type { Outbound } from "../platform/outbound.ts";
import type { CredentialsDeps } from "./credentials.ts";
import type { SafetyDeps } from "./safe-answer.ts";
import type { RunRef, ToolCall, ToolDefinition, ToolResult, UnusableServer } from "./tools.types.ts";
import type { WebhookKeys } from "./webhook-keys.service.ts";

/**
 * What one call may do outside. `none`: it only reads. `idempotent`: its receiver can tell a repetition, so that the call
 * is repeated after a crash. `unknown`: it is not repeated.
 */
export type Effect = "none" | "idempotent" | "unknown";

/** Everything that tools use to reach the outside. */
export interface ToolDeps extends CredentialsDeps, SafetyDeps {
  outbound: Outbound;
  webhook_keys: Pick<WebhookKeys, "keyOf">;
  log: Pick<Log, "error" | "warn">;
}

/** A tool: one file that exports one of these, and its line in `registry.ts`. */
export interface Tool<Settings = unknown, Arguments = unknown> {
  /** Name, settings, arguments and secrets: its file in `contract/tools/`. */
  readonly contract: ToolContract & { readonly name: ToolName };
  /** A run asks its servers before the first model call and records each unusable server as a failed step. */
  readonly has_servers?: true;
  /** Whether a call by this name goes to this tool; absent: a call by its own name. */
  owns?(call_name: string): boolean;
  /** What a call may do outside. `arguments` may be anything; without settings the answer must be the careful one. */
  effect(call: { name: string; arguments: unknown }, settings: Settings | undefined): Effect;
  create(deps: ToolDeps): RunningTool<Settings, Arguments>;
}

/** A tool of a running service. */
export interface RunningTool<Settings = unknown, Arguments = unknown> {
  /** What the model learns of the tool with these settings. Throws 502 `secret_reflected`, and when `signal` is aborted. */
  define(settings: Settings, run: RunRef, signal: AbortSignal): Promise<ToolDefinition[]>;
  /**
   * Makes one call; the service has parsed the arguments and checked `max_calls`. Errors of the model, the page or the
   * network are a failed result; only an abort throws.
   */
  call(given: Arguments, call: ToolCall, settings: Settings): Promise<ToolResult>;
  /** The servers that cannot be used now. Throws when `signal` is aborted. */
  unusableServers?(settings: Settings, run: RunRef, signal: AbortSignal): Promise<UnusableServer[]>;
}
