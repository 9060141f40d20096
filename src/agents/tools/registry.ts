import type { ToolsConfig } from "../../api/contract/tools.ts";
import { mcpTools } from "./mcp.ts";
import { sendWebhookTool } from "./send-webhook.ts";
import type { Effect, Tool } from "./tool.ts";
import { webFetchTool } from "./web-fetch.ts";

/** Every tool, in the order in which models see them. Other modules call the functions here and check no names. */
export const TOOLS: readonly Tool[] = [webFetchTool, sendWebhookTool, mcpTools];

/** The tool that handles calls with this name, enabled or not. */
export function toTool(call_name: string): Tool | undefined {
  return TOOLS.find((tool) => tool.owns?.(call_name) ?? tool.contract.name === call_name);
}

/** The name under which `max_calls` counts a call. */
export function countedAs(call_name: string): string {
  return toTool(call_name)?.contract.name ?? call_name;
}

/** The effect of a call. `unknown` if no tool has this name, or if the effect depends on settings that are missing. */
export function effectOf(call: { name: string; arguments: unknown }, tools_config: ToolsConfig): Effect {
  const tool = toTool(call.name);
  return tool === undefined ? "unknown" : tool.effect(call, tools_config[tool.contract.name]);
}

/** Whether an enabled tool depends on servers, which may be unusable when a run begins. */
export function usesServers(tools_config: ToolsConfig): boolean {
  return TOOLS.some(({ contract, has_servers }) => has_servers === true && tools_config[contract.name]?.enabled);
}
