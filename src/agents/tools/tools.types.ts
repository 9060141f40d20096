import type { OutsideWords } from "../../api/contract/runs.ts";
import type { PermissionPolicy } from "../../api/contract/tool-fields.ts";
import type { ToolsConfig } from "../../api/contract/tools.ts";
import type { PictureType } from "../../platform/lib/media-type.ts";
import type { AskModel } from "../../safety/judge-kinds.ts";
import type { JudgeReport } from "../../safety/judges.ts";
import type { Removal, Sanitized } from "../../safety/sanitize.ts";
import type { Taint } from "./destinations.ts";
import type { AgentRef } from "./webhook-keys.service.ts";

/** The run of a call, with its user and agent. */
export interface RunRef extends AgentRef {
  /** null: the owner asks outside of a run. */
  readonly run_id: string | null;
}

/** A server's tools for the eyes of the agent's owner. */
export interface ServerTools {
  readonly tools: readonly {
    /** The server's own name for it. */
    readonly name: string;
    readonly description: string;
    readonly read_only_hint: boolean | null;
    readonly effects: "none" | "any";
    readonly permission_policy: PermissionPolicy;
  }[];
  readonly left_out: number;
}

/** A tool's definition for the model, in OpenAI's function-tool shape. Contains names and hosts, never a secret. */
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
  /** As the model wrote it; may be any text. */
  readonly arguments_json: string;
  readonly tools_config: ToolsConfig;
  readonly taint: Taint;
  /** The run's mark for fences (safety/fence.ts `newMark`). */
  readonly mark: string;
  /** The number of earlier calls of this tool in the run, for `max_calls`. */
  readonly earlier_calls: number;
  /** A person approved exactly this call. */
  readonly is_approved: boolean;
  readonly run: RunRef;
  /** Permanent id of the call's effect. It stays the same when the call is repeated after a crash. */
  readonly effect_id: string;
  /** Calls a model as a part of the run's step, which pays for it. */
  readonly askModel: AskModel;
  readonly signal: AbortSignal;
  /** When the run's time is up, by the monotonic clock. No wait may last until then. */
  readonly until_ms: number;
}

/** What decides whether a call may be made. */
export type CallToCheck = Pick<ToolCall, "name" | "arguments_json" | "tools_config" | "taint" | "earlier_calls">;

/** The reasons why a tool step failed. `egress_refused`: no request was sent to that destination. */
export const TOOL_ERROR_CODES = [
  "unknown_tool",
  "invalid_arguments",
  "max_calls_reached",
  "no_destination",
  "egress_refused",
  "fetch_failed",
  "webhook_failed",
  "mcp_failed",
  "signing_key_unreadable",
  "secret_missing",
  "secret_refused",
  "vault_unavailable",
  // These two end the run.
  "secret_reflected",
  "unsafe_content",
  "http_error",
  "unsupported_content",
] as const;
export type ToolErrorCode = (typeof TOOL_ERROR_CODES)[number];

/** `outside`: what the server said, without secrets. */
export interface ToolError {
  readonly code: ToolErrorCode;
  readonly message: string;
  readonly outside?: OutsideWords;
}

/** A picture for models that read pictures. */
export interface Picture {
  readonly media_type: PictureType;
  /** base64 */
  readonly data: string;
}

export interface ToolResult {
  readonly status: "succeeded" | "failed";
  /** The text for the model: fenced content, or a sentence about the error. */
  readonly result: string;
  readonly error?: ToolError;
  /** Nothing was sent because of the model's arguments, and other ones can be sent. */
  readonly is_models_mistake?: true;
  /** Of a failed call: the owner's settings say that the run fails with it. */
  readonly fails_run?: true;
  /** The safety layer's findings; null when no content came back. */
  readonly safety: {
    readonly verdict: Sanitized["verdict"];
    readonly removed: readonly Removal[];
    /** The doubtful passages that stay in the text with a warning, if there are any. */
    readonly marked?: readonly Removal[];
    /** What the operator's judges did, if any was asked. */
    readonly judges?: readonly JudgeReport[];
  } | null;
  /** Links in the fetched content, for the run's taint. Content came in exactly when `safety` is not null. */
  readonly links: readonly string[];
  readonly pictures?: readonly Picture[];
}

/** A configured server whose tools the agent cannot use, by its name. */
export interface UnusableServer {
  readonly name: string;
  readonly error: ToolError;
  readonly is_models_mistake?: never;
  readonly fails_run?: true;
}

/** A configured server some of whose tools no model can get. `text` names them and the reasons. */
export interface LeftOutTools {
  readonly name: string;
  readonly text: string;
}

/** A failed step without content. The model also reads the message. */
export function failedCall(code: ToolErrorCode, message: string, outside?: OutsideWords): ToolResult {
  const error = { code, message, ...(outside === undefined ? {} : { outside }) };
  return { status: "failed", result: `Error: ${message}`, error, safety: null, links: [] };
}

/** The failed step of a call to a tool that is disabled or does not exist. */
export function unknownTool(name: string): ToolResult {
  return failedCall("unknown_tool", `there is no tool ${JSON.stringify(name.slice(0, 64))}`);
}
