import { isJsonObject } from "./json.ts";

/**
 * Many MCP servers and their authorization servers write null for a field that they leave out. The MCP project's
 * client then rejects the whole message, as it does an answer to `initialize` without what a server says of itself. Pure.
 */

/** Values of the server's own tools, in which null has a meaning. */
const DATA = new Set(["structuredContent", "inputSchema", "outputSchema", "data", "arguments"]);
/** Required fields. Go writes null for an empty list or map. */
const EMPTY: Readonly<Record<string, unknown>> = { content: [], tools: [], capabilities: {} };
const NULL = Buffer.from("null");
/** A field of the answer to `initialize`. */
const VERSION = "protocolVersion";
const EVENT_END = /(?:\r\n|\n|\r(?!\n)){2,}/;

/** A server's message or messages without null fields and with the required ones: JSON, or events with JSON. Other bytes are returned as they are. */
export function withoutNullFields(body: Buffer, content_type: string): Buffer {
  if (!body.includes(NULL) && !body.includes(VERSION)) return body;
  const text = body.toString("utf8");
  if (!content_type.toLowerCase().includes("event-stream")) return Buffer.from(messageWithoutNulls(text) ?? text);
  const events = text.split(EVENT_END).filter((event) => event !== "");
  return Buffer.from(events.map((event) => `${eventWithoutNulls(event)}\n\n`).join(""));
}

function eventWithoutNulls(event: string): string {
  const lines = event.split(/\r\n|\r|\n/);
  const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5));
  const message = messageWithoutNulls(data.join("\n"));
  if (message === null) return event;
  return [...lines.filter((line) => !line.startsWith("data:")), `data: ${message}`].join("\n");
}

/** null: the text is not JSON. */
function messageWithoutNulls(text: string): string | null {
  try {
    return JSON.stringify(withServerInfo(withoutNulls(JSON.parse(text))));
  } catch {
    return null;
  }
}

function withServerInfo(message: unknown): unknown {
  if (!isJsonObject(message) || !isJsonObject(message.result) || !(VERSION in message.result)) return message;
  const { result } = message;
  const server = isJsonObject(result.serverInfo) ? result.serverInfo : {};
  return {
    ...message,
    result: { capabilities: {}, ...result, serverInfo: { name: "unnamed", version: "unknown", ...server } },
  };
}

/** A parsed message without null fields. */
export function withoutNulls(value: unknown): unknown {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(withoutNulls);
  const entries = Object.entries(value).flatMap(([key, each]): [string, unknown][] => {
    if (each === null) return Object.hasOwn(EMPTY, key) ? [[key, EMPTY[key]]] : [];
    return [[key, DATA.has(key) ? each : withoutNulls(each)]];
  });
  return Object.fromEntries(entries);
}
