import type { SafetyLevel, ToolsConfig } from "../contract/tools.ts";
import { createMcpTools, type McpToolsDeps, mcpServerOf } from "./mcp.ts";
import { type SendWebhookDeps, sendWebhook, sendWebhookDefinition } from "./send-webhook.ts";
import {
  failedCall,
  type RunRef,
  type ToolCall,
  type ToolDefinition,
  type ToolResult,
  type UnusableServer,
} from "./tools.types.ts";
import { webFetch, webFetchDefinition } from "./web-fetch.ts";

/** The tools of an agent's run. Of a run nothing is kept here: what it has seen and done comes with each call. */
export interface Tools {
  /** The enabled tools, as the model is told of them. Throws 502 `secret_reflected`, and when `signal` is aborted. */
  definitions(tools_config: ToolsConfig, run: RunRef, signal: AbortSignal): Promise<ToolDefinition[]>;
  /** The MCP servers whose tools cannot be had now, and why. Throws when `signal` is aborted. */
  unusableServers(tools_config: ToolsConfig, run: RunRef, signal: AbortSignal): Promise<UnusableServer[]>;
  /**
   * Carries out one call. What a model, a page or a network can cause comes back as a failed result that tells the
   * model what to do; only an abort of `signal` throws.
   */
  call(call: ToolCall): Promise<ToolResult>;
}

/** Makes the tools: web_fetch, send_webhook, and those of MCP servers. */
export function createTools(deps: SendWebhookDeps & McpToolsDeps): Tools {
  const mcp_tools = createMcpTools(deps);
  return {
    async definitions({ web_fetch, send_webhook, mcp }, run, signal) {
      return [
        ...(web_fetch?.enabled ? [webFetchDefinition(web_fetch)] : []),
        ...(send_webhook?.enabled ? [sendWebhookDefinition(send_webhook)] : []),
        ...(mcp?.enabled ? await mcp_tools.definitions(mcp, run, signal) : []),
      ];
    },
    async unusableServers({ mcp }, run, signal) {
      return mcp?.enabled ? mcp_tools.unusableServers(mcp, run, signal) : [];
    },
    async call(call) {
      const { web_fetch, send_webhook } = call.tools_config;
      if (call.name === "web_fetch" && web_fetch?.enabled) {
        return strictly(web_fetch.safety, await webFetch(call, web_fetch, deps));
      }
      if (call.name === "send_webhook" && send_webhook?.enabled) {
        return strictly(send_webhook.safety, await sendWebhook(call, send_webhook, deps));
      }
      const found = mcpServerOf(call.tools_config, call.name);
      if (found !== null) return await mcp_tools.call(call, found.mcp, found.server);
      return failedCall("unknown_tool", `there is no tool ${JSON.stringify(call.name.slice(0, 64))}`);
    },
  };
}

/** Who chose `strict` wants nothing of a page that attacks, not even what is left when the attack is taken out. */
function strictly(level: SafetyLevel | undefined, result: ToolResult): ToolResult {
  if (level !== "strict" || result.safety?.verdict.injected !== true) return result;
  const message = "what came back gives orders to the model; with safety: strict nothing of it is used";
  return { ...failedCall("unsafe_content", message), safety: result.safety };
}
