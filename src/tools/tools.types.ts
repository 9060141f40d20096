import type { ToolsConfig } from "../contract/tools.ts";
import type { Removal, Sanitized } from "../safety/sanitize.ts";
import type { Taint } from "./destinations.ts";
import type { AgentRef } from "./webhook-keys.service.ts";

/** Whose run a call is made in. */
export interface RunRef extends AgentRef {
  readonly run_id: string;
}

/** What the model is told of a tool: OpenAI's function-tool shape. Never a secret; names and hosts at most. */
export interface ToolDefinition {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description: string;
    readonly parameters: Record<string, unknown>;
  };
}

/** One call that a model asked for. */
export interface ToolCall {
  readonly name: string;
  /** As the model wrote it: may be anything. */
  readonly arguments_json: string;
  readonly tools_config: ToolsConfig;
  readonly taint: Taint;
  /** The run's mark for fences (safety/fence.ts `newMark`). */
  readonly mark: string;
  /** Calls of this tool made before in the run, for `max_calls`. */
  readonly earlier_calls: number;
  readonly run: RunRef;
  /** Names the call's effect for ever: the same when the call is made again after a crash. */
  readonly effect_id: string;
  readonly signal: AbortSignal;
  /** When the run's time is up, by the steady clock: nothing is waited for that long. */
  readonly until_ms: number;
}

/** Why a tool step failed. `egress_refused`: nothing was sent to that destination. */
export type ToolErrorCode =
  | "unknown_tool"
  | "invalid_arguments"
  | "max_calls_reached"
  | "egress_refused"
  | "fetch_failed"
  | "webhook_failed"
  | "mcp_failed"
  | "signing_key_unreadable"
  | "secret_missing"
  | "secret_refused"
  | "vault_unavailable"
  /** These two end the run. */
  | "secret_reflected"
  | "unsafe_content"
  | "http_error"
  | "unsupported_content";

export interface ToolResult {
  readonly status: "succeeded" | "failed";
  /** What the model reads: fenced content, or a sentence that tells it what went wrong. */
  readonly result: string;
  readonly error?: { readonly code: ToolErrorCode; readonly message: string };
  /** What the safety layer found; null when nothing came back. */
  readonly safety: { readonly verdict: Sanitized["verdict"]; readonly removed: readonly Removal[] } | null;
  /** Links of what was fetched, for the run's taint. Content came in exactly when `safety` is not null. */
  readonly links: readonly string[];
}

/** A server whose tools an agent is to have and has not, by its name. */
export interface UnusableServer {
  readonly name: string;
  readonly error: NonNullable<ToolResult["error"]>;
}

/** A failed step of which nothing came back; the sentence goes to the model as well. */
export function failedCall(code: ToolErrorCode, message: string): ToolResult {
  return { status: "failed", result: `Error: ${message}`, error: { code, message }, safety: null, links: [] };
}

/** The failed step of a call to a tool that is not enabled, or does not exist. */
export function unknownTool(name: string): ToolResult {
  return failedCall("unknown_tool", `there is no tool ${JSON.stringify(name.slice(0, 64))}`);
}
