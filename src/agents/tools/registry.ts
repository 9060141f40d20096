import { DECIDED_BYTES } from "../../api/contract/run-actions.ts";
import type { CommonSettings } from "../../api/contract/tool-fields.ts";
import type { ToolsConfig } from "../../api/contract/tools.ts";
import { mcpTools } from "./mcp.ts";
import { sendWebhookTool } from "./send-webhook.ts";
import type { Effect, Tool } from "./tool.ts";
import { parsedArguments } from "./tool-arguments.ts";
import { type CallToCheck, failedCall, type ToolResult, unknownTool } from "./tools.types.ts";
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

/** The tool's settings; null when it is not enabled. */
export function getSettings({ contract }: Tool, tools_config: ToolsConfig): CommonSettings | null {
  const settings: CommonSettings | undefined = tools_config[contract.name];
  return settings?.enabled ? settings : null;
}

/** A call that may be made. */
interface CheckedCall {
  tool: Tool;
  settings: CommonSettings;
  arguments: unknown;
}

/** A call with its tool and its parsed arguments, or the failed step of one that may not be made. Nothing is sent. */
export function checkCall(call: CallToCheck): CheckedCall | { failure: ToolResult } {
  const tool = toTool(call.name);
  const settings = tool === undefined ? null : getSettings(tool, call.tools_config);
  if (tool === undefined || settings === null) return { failure: unknownTool(call.name) };
  const problem = tool.contract.problem?.(settings) ?? null;
  if (problem !== null) return { failure: failedCall(problem.code, problem.message) };
  const parsed = parsedArguments(call.arguments_json, tool.contract);
  if ("problem" in parsed) return { failure: failedCall("invalid_arguments", parsed.problem) };
  const { name, default_max_calls } = tool.contract;
  const max_calls = settings.max_calls ?? default_max_calls;
  if (call.earlier_calls >= max_calls) {
    const message = `${name} may be called ${max_calls} times in a run; go on without it`;
    return { failure: failedCall("max_calls_reached", message) };
  }
  const failure = tool.findFault?.(parsed.arguments, call, settings) ?? null;
  if (failure !== null) return { failure };
  const checked = { tool, settings, arguments: parsed.arguments };
  if (Buffer.byteLength(call.arguments_json) <= DECIDED_BYTES || !mustBeApproved(checked, call)) return checked;
  const message = `a call that a person must approve has at most ${DECIDED_BYTES} bytes of arguments; send less`;
  return { failure: failedCall("invalid_arguments", message) };
}

/** Whether a person must approve the call first. */
export function mustBeApproved({ tool, settings }: CheckedCall, { name, taint }: CallToCheck): boolean {
  return tool.needsApproval?.(name, settings, taint) ?? false;
}

/** The same of a call that is not checked yet. One that fails before anything is sent needs no approval. */
export function needsApproval(call: CallToCheck): boolean {
  const checked = checkCall(call);
  return "tool" in checked && mustBeApproved(checked, call);
}

/** Where a call that may be made goes, for the person who decides. */
export function describeDestination(call: { name: string; arguments: unknown }, tools_config: ToolsConfig): string {
  const tool = toTool(call.name);
  const settings = tool === undefined ? null : getSettings(tool, tools_config);
  return (settings && tool?.describeDestination?.(call.arguments, call.name, settings)) || call.name;
}

/** Where the answer of a call came from: the address that it read, or the name of its tool. */
export function describeSource(call: { name: string; arguments: unknown }): string {
  return toTool(call.name)?.findSource?.(call.arguments) ?? call.name;
}
