/** Arguments that an MCP server wants in HTTP headers too (MCP 2026-07-28, `x-mcp-header`). Pure. */

/** An argument that also goes into a header. */
export interface ArgumentHeader {
  readonly path: readonly string[];
  readonly header: string;
}

const KEY = "x-mcp-header";
const PREFIX = "Mcp-Param-";
/** A header's name (RFC 9110, "token"). */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const TYPES = new Set(["string", "integer", "boolean"]);
/** Values that are sent as they are. A value that looks encoded is not one of them. */
const PLAIN = /^(?!=\?base64\?.*\?=$)(?! |\t)[\t -~]*[!-~]$/;

/**
 * The headers that a tool's schema asks for. null: it asks in a way that the protocol forbids, and clients must leave
 * the tool out. Only arguments that a chain of `properties` leads to may have a header.
 */
export function argumentHeaders(schema: Record<string, unknown>): ArgumentHeader[] | null {
  const found = new Map<string, ArgumentHeader>();
  return visit(schema, [], found) ? [...found.values()] : null;
}

/** The headers of one call. */
export function readHeaders(wanted: readonly ArgumentHeader[], given: Record<string, unknown>): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const { path, header } of wanted) {
    const value = path.reduce<unknown>((at, key) => (at as Record<string, unknown> | null | undefined)?.[key], given);
    if (!["string", "number", "boolean"].includes(typeof value)) continue;
    const text = String(value);
    headers[`${PREFIX}${header}`] = PLAIN.test(text) ? text : `=?base64?${Buffer.from(text).toString("base64")}?=`;
  }
  return headers;
}

/**
 * Whether `node` asks for headers only where it may. A null path: no chain of `properties` leads to it. `found` has the
 * headers by their lower-case names.
 */
function visit(node: unknown, path: readonly string[] | null, found: Map<string, ArgumentHeader>): boolean {
  if (node === null || typeof node !== "object") return true;
  if (Array.isArray(node)) return node.every((each) => visit(each, null, found));
  const { properties, [KEY]: header, type, enum: _, default: _default, const: _const, ...others } = node as Fields;
  if (header !== undefined) {
    if (path === null || path.length === 0 || !TYPES.has(String(type))) return false;
    if (typeof header !== "string" || !TOKEN.test(header)) return false;
    if (found.has(header.toLowerCase())) return false;
    found.set(header.toLowerCase(), { path, header });
  }
  const below = Object.entries((properties ?? {}) as Fields);
  if (!below.every(([name, each]) => visit(each, path === null ? null : [...path, name], found))) return false;
  return Object.values(others).every((each) => visit(each, null, found));
}

type Fields = Record<string, unknown>;
