import { expect, test } from "vitest";

// Imported by a computed name, because only the console's own project compiles JSX, to which the types lead.
const path = "../../../console/src/parts/draft.ts";
const { bodyOf, draftOf, EMPTY_DRAFT, isReading, NO_SERVER, withReading } = await import(path);

test("the editor sends the setting of the calling program's tools", () => {
  expect(bodyOf({ ...EMPTY_DRAFT, client_tools: "pass" }).client_tools).toBe("pass");
  expect(bodyOf(EMPTY_DRAFT).client_tools).toBe("ignore");
});

test("saving an agent keeps the settings of a tool that the form does not show", () => {
  const tools_kept = { almanac: { enabled: true } };
  expect(bodyOf({ ...EMPTY_DRAFT, tools_kept }).tools_config).toMatchObject({ almanac: { enabled: true } });
});

test("saving an agent keeps the settings of an MCP server that the form does not show", () => {
  const server = { name: "library", url: "https://mcp.example.com/mcp", tools: ["search"] };
  const kept = { ...server, tool_effects: { search: "none" }, timeout_seconds: 300 };
  const agent = { ...bodyOf(EMPTY_DRAFT), tools_config: { mcp: { enabled: true, servers: [kept] } } };
  const draft = draftOf(agent);
  expect(bodyOf(draft).tools_config.mcp.servers).toEqual([kept]);
  const renamed = { ...draft, mcp_servers: [{ ...draft.mcp_servers[0], name: "shelf", tools: "" }] };
  expect(bodyOf(renamed).tools_config.mcp.servers).toMatchObject([
    { name: "shelf", tools: undefined, tool_effects: { search: "none" }, timeout_seconds: 300 },
  ]);
  const fields = { reading_tools: "", acting_tools: "lend", timeout_seconds: "" };
  const changed = { ...draft, mcp_servers: [{ ...draft.mcp_servers[0], ...fields, reads_only: true }] };
  expect(bodyOf(changed).tools_config.mcp.servers).toMatchObject([
    { effects: "none", tool_effects: { lend: "any" }, timeout_seconds: undefined },
  ]);
});

test.each([false, true])("a choice for one tool does not change another (Read-only tools: %s)", (reads_only) => {
  const server = { ...NO_SERVER, reads_only, reading_tools: "find", acting_tools: "lend" };
  for (const tool of ["find", "lend", "search"]) {
    for (const reads of [true, false]) {
      const chosen = { ...server, ...withReading(server, tool, reads) };
      expect(isReading(chosen, tool)).toBe(reads);
      for (const other of ["find", "lend", "search"].filter((each) => each !== tool)) {
        expect(isReading(chosen, other)).toBe(isReading(server, other));
      }
    }
  }
});
