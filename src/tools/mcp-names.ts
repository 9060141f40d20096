import { createHash } from "node:crypto";
import type { McpServer, McpSettings } from "../contract/tools.ts";

/** How tools of MCP servers are named to models. Pure. */

/** Between a server's name, which has none, and its tool's. */
const BETWEEN = "__";
/** What model providers take as a function's name. */
const NAME_CHARACTERS = 64;
const HASH_CHARACTERS = 8;

/** `server__tool`. A name that models cannot call is spelled out of what they can, and made unique by a hash. */
export function mcpToolName(server: string, tool: string): string {
  const name = `${server}${BETWEEN}${tool}`;
  const spelled = name.replaceAll(/[^A-Za-z0-9_-]/g, "_");
  if (spelled === name && name.length <= NAME_CHARACTERS) return name;
  const hash = createHash("sha256").update(name).digest("hex").slice(0, HASH_CHARACTERS);
  return `${spelled.slice(0, NAME_CHARACTERS - HASH_CHARACTERS - 1)}_${hash}`;
}

/** Whether a call's name is that of a server's tool. */
export function isMcpName(name: string): boolean {
  return name.includes(BETWEEN);
}

/** The server whose tool a call's name is; undefined for other names. */
export function serverOf({ servers = [] }: McpSettings, name: string): McpServer | undefined {
  const server = name.slice(0, Math.max(0, name.indexOf(BETWEEN)));
  return servers.find((each) => each.name === server);
}
