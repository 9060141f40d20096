import { describe, expect, it } from "vitest";
import type { ToolsConfig } from "../../../src/api/contract/tools.ts";
import { withoutNullFields } from "../../../src/platform/lib/null-fields.ts";
import { MCP_HABITS, startMcpHabit } from "../../support/everyday-servers.ts";
import { aCall, toolsWith, UNSTOPPED } from "../../support/tools.ts";

describe.each([
  ["in JSON", ""],
  ["in events with LF", "\n"],
  ["in events with CRLF", "\r\n"],
  ["in events with CR", "\r"],
])("an MCP server that answers %s, with null for absent fields,", (_, line_end) => {
  it.each(MCP_HABITS)("can be used: $habit", async (row) => {
    const server = await startMcpHabit(row, { line_end });
    const { tools } = toolsWith({ allow: [server.host] });
    const tools_config: ToolsConfig = { mcp: { enabled: true, servers: [{ name: "h", url: `${server.url}/mcp` }] } };
    const definitions = await tools.definitions(tools_config, aCall("", {}).run, UNSTOPPED);
    expect(definitions.map((each) => each.function.name)).toEqual(["h__act"]);
    const { status, result } = await tools.call(aCall("h__act", {}, { tools_config }));
    expect(result).toContain(row.reads);
    expect(status).toBe(row.status ?? "succeeded");
    await server.close();
  });
});

it("nulls inside of a tool's own data are kept, and bytes that are no message are passed on", () => {
  const message = '{"id":1,"result":{"structuredContent":{"a":null},"isError":null}}';
  const kept = '{"id":1,"result":{"structuredContent":{"a":null}}}';
  const read = (text: string, type = "application/json") => withoutNullFields(Buffer.from(text), type).toString();
  expect(read(message)).toBe(kept);
  expect(read(`[${message}]`)).toBe(`[${kept}]`);
  expect(read("<p>null</p>", "text/html")).toBe("<p>null</p>");
  expect(read('{"a": null', "application/json")).toBe('{"a": null');
  const events = `id: 7\r\ndata: ${message}\r\n\r\n: null\n\nevent: message\ndata: {"id":2,\ndata: "error":null}\n\n`;
  const read_events = `id: 7\ndata: ${kept}\n\n: null\n\nevent: message\ndata: {"id":2}\n\n`;
  expect(read(events, "text/event-stream; charset=utf-8")).toBe(read_events);
});
