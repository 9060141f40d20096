import type { ToolsConfig } from "../contract/tools.ts";
import { mcpTools } from "./mcp.ts";
import { sendWebhookTool } from "./send-webhook.ts";
import type { Effect, Tool } from "./tool.ts";
import { webFetchTool } from "./web-fetch.ts";

/** Every tool, in the order in which models see them. Other modules ask the functions here, never for a tool's name. */
export const TOOLS: readonly Tool[] = [webFetchTool, sendWebhookTool, mcpTools];

/** The tool that a call by this name goes to, enabled or not. */
export function toolOf(call_name: string): Tool | undefined {
  return TOOLS.find((tool) => tool.owns?.(call_name) ?? tool.contract.name === call_name);
}

/** The name that a call counts under for `max_calls`. */
export function countedAs(call_name: string): string {
  return toolOf(call_name)?.contract.name ?? call_name;
}

/** What a call may do outside. `unknown` for a name that no tool has, and where settings that are not given decide. */
export function effectOf(call: { name: string; arguments: unknown }, tools_config: ToolsConfig): Effect {
  const tool = toolOf(call.name);
  return tool === undefined ? "unknown" : tool.effect(call, tools_config[tool.contract.name]);
}

/** Whether an enabled tool depends on servers, which may be unusable when a run begins. */
export function usesServers(tools_config: ToolsConfig): boolean {
  return TOOLS.some(({ contract, has_servers }) => has_servers === true && tools_config[contract.name]?.enabled);
}
