import { createHash } from "node:crypto";
import type { McpServer, McpSettings } from "../../api/contract/tools.ts";

/** The names that models use for tools of MCP servers. Pure. */

/** Separates the server's name, which cannot contain it, from the tool's name. */
const BETWEEN = "__";
/** The longest function name that model providers accept. */
const NAME_CHARACTERS = 64;
const HASH_CHARACTERS = 8;

/** `server__tool`. If models cannot call that name, invalid characters become `_`, and a hash makes the name unique. */
export function mcpToolName(server: string, tool: string): string {
  const name = `${server}${BETWEEN}${tool}`;
  const spelled = name.replaceAll(/[^A-Za-z0-9_-]/g, "_");
  if (spelled === name && name.length <= NAME_CHARACTERS) return name;
  const hash = createHash("sha256").update(name).digest("hex").slice(0, HASH_CHARACTERS);
  return `${spelled.slice(0, NAME_CHARACTERS - HASH_CHARACTERS - 1)}_${hash}`;
}

/** Whether a call's name belongs to a tool of an MCP server. */
export function isMcpName(name: string): boolean {
  return name.includes(BETWEEN);
}

/** The server of the tool that a call names; undefined for other names. */
export function findServer({ servers = [] }: McpSettings, name: string): McpServer | undefined {
  const server = name.slice(0, Math.max(0, name.indexOf(BETWEEN)));
  return servers.find((each) => each.name === server);
}

/** The effects of the tool that a call names, as the owner set them. The server's own claims do not count. */
export function getEffects(
  { name: server, effects = "any", tool_effects = {} }: McpServer,
  call: string,
): "none" | "any" {
  const [, of_tool] = Object.entries(tool_effects).find(([tool]) => mcpToolName(server, tool) === call) ?? [];
  return of_tool ?? effects;
}
