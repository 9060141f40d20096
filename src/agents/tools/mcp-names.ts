import { createHash } from "node:crypto";
import type { PermissionPolicy } from "../../api/contract/tool-fields.ts";
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
export function getEffects(server: McpServer, call: string): "none" | "any" {
  return findOwn(server, call, server.tool_effects) ?? server.effects ?? "any";
}

/** Whether a call of this tool asks first. What the owner says of the one tool comes before what they say of its server. */
export function getPolicy(server: McpServer, call: string): PermissionPolicy {
  const own = findOwn(server, call, server.tool_permission_policies);
  if (own !== undefined) return own;
  if (findOwn(server, call, server.tool_effects) === "none") return "always_allow";
  return server.permission_policy ?? (getEffects(server, call) === "none" ? "always_allow" : "ask_after_untrusted");
}

/** The setting of the one tool that a call names. */
function findOwn<Setting>(
  server: McpServer,
  call: string,
  settings: Record<string, Setting> = {},
): Setting | undefined {
  return Object.entries(settings).find(([tool]) => mcpToolName(server.name, tool) === call)?.[1];
}
